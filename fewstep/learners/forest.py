"""Boosted trees as arrays: scikit-learn or LightGBM fits them, and JAX computes with them, so that a model with trees
is saved, exported and served as any other: no pickle, no library needed where it is used.

A tree is arrays over its nodes. A row goes to the left child of a node if its feature is at most the threshold; a leaf
is its own child. Trees are padded to one size, and forests to one number of trees, which say 0. All are floats, as
meta-parameters are; those that number features and nodes have no derivative.
"""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fewstep.learners import _boosting_lightgbm, _boosting_sklearn
from fewstep.learners._boosting import Boosted
from fewstep.learners._boosting import Sample as Sample
from fewstep.learners._boosting import Size as Size

Engine: TypeAlias = Literal["sklearn", "lightgbm"]
Forest: TypeAlias = dict[str, Any]  # arrays of NumPy where it is fitted, of JAX where it is a meta-parameter
_NEVER = -5.0  # the logit of a class that no row to fit to has


def usual_engine() -> Engine:
    """LightGBM where it is installed, else scikit-learn."""
    return "lightgbm" if find_spec("lightgbm") else "sklearn"


def can_fit() -> bool:
    """Whether a library that fits trees is installed."""
    return bool(find_spec("lightgbm") or find_spec("sklearn"))


def empty_forest(outputs: int, size: Size = Size()) -> Forest:  # noqa: B008  # a tuple of numbers
    """The forest that says 0."""
    shape, kind = (size.trees, outputs, size.nodes), jnp.result_type(float)
    # In NumPy: a forest may be fitted before JAX starts, which settles how many devices there are.
    return {
        "feature": np.zeros(shape, kind), "threshold": np.zeros(shape, kind), "value": np.zeros(shape, kind),
        "children": np.array(np.broadcast_to(np.arange(size.nodes, dtype=kind)[:, None], (*shape, 2))),
        "start": np.zeros(outputs, kind),
    }  # fmt: skip


def evaluate_forest(
    forest: Forest, x: Float[Array, "rows inputs"], size: Size = Size()  # noqa: B008
) -> Float[Array, "rows outputs"]:  # fmt: skip
    """What the trees say together of each row."""
    forest = {name: jnp.asarray(array) for name, array in forest.items()}
    trees, outputs, nodes = forest["value"].shape
    begin = nodes * jnp.arange(trees * outputs)[None]
    at = lambda name, places: forest[name].reshape(-1)[places]
    number = lambda name, places: at(name, places).astype(jnp.int32)

    def descend(_: Array | int, node: Array) -> Array:
        places = begin + node
        right = jnp.take_along_axis(x, number("feature", places), axis=1) > at("threshold", places)
        return number("children", 2 * places + right)

    leaf = jax.lax.fori_loop(0, size.depth, descend, jnp.zeros((x.shape[0], trees * outputs), jnp.int32))
    return at("value", begin + leaf).reshape(-1, trees, outputs).sum(1) + forest["start"][None]


def fit_forest(
    train: Sample, validation: Sample | None, *, outputs: int, classes: bool, trees: int | None = None, seed: int = 0,
    size: Size = Size(), engine: Engine | None = None,  # noqa: B008
) -> tuple[Forest, int]:  # fmt: skip
    """Fits a forest, and stops where it is best on the `validation` rows, or after so many `trees`; with their number.

    Of classes, a forest says logits: of two classes the first has none of its own. The `engine` is LightGBM where it is
    installed, else scikit-learn.
    """
    how = partial(_fit_one, trees=trees, seed=seed, size=size, engine=engine or usual_engine())
    if classes:
        return how(train, validation, outputs=outputs, classes=True)
    held_out = lambda number: None if validation is None else _only(validation, number)
    parts = [how(_only(train, n), held_out(n), outputs=1, classes=False) for n in range(outputs)]
    names = parts[0][0].keys()
    axis = {name: 0 if name == "start" else 1 for name in names}
    forest = {name: np.concatenate([part[name] for part, _ in parts], axis=axis[name]) for name in names}
    return forest, max(count for _, count in parts)


def _only(rows: Sample, number: int) -> Sample:
    return rows._replace(y=rows.y[:, number])


def _fit_one(
    train: Sample, validation: Sample | None, *, outputs: int, classes: bool, trees: int | None, seed: int, size: Size,
    engine: Engine,
) -> tuple[Forest, int]:  # fmt: skip
    """A forest of classes, or of one number."""
    present = np.unique(train.y) if classes else np.zeros(0)
    if classes and len(present) < 2:
        return _constant(train, outputs, size), 0
    known = None if validation is None or (classes and not np.isin(validation.y, present).all()) else validation
    coded = lambda rows: rows._replace(y=np.searchsorted(present, rows.y)) if classes else rows
    boost = _boosting_lightgbm.boost if engine == "lightgbm" else _boosting_sklearn.boost
    boosted = boost(
        coded(train), None if known is None else coded(known), len(present), trees or size.trees, seed, size
    )  # fmt: skip
    columns = [0] if not classes else [int(label) for label in present[(1 if len(present) == 2 else 0) :]]
    forest = _as_arrays(boosted, columns, outputs, size)
    if classes and len(present) < outputs:
        forest["start"][np.setdiff1d(np.arange(outputs), present)] = _NEVER
    return forest, boosted.best


def _as_arrays(boosted: Boosted, columns: Sequence[int], outputs: int, size: Size) -> Forest:
    """The best rounds of trees, each with a tree for each of these columns."""
    forest = empty_forest(outputs, size)
    forest["start"][columns] = boosted.start
    for number, trees in enumerate(boosted.rounds[: boosted.best]):
        for column, tree in zip(columns, trees, strict=True):
            place = (number, column, slice(len(tree.value)))
            forest["feature"][place], forest["value"][place] = tree.feature, tree.value
            forest["threshold"][place] = _rounded_down(tree.threshold)
            forest["children"][place] = tree.children
    return forest


def _rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """In single precision, never above: rows of single precision then go where they did in double."""
    single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


def _constant(train: Sample, outputs: int, size: Size) -> Forest:
    """The forest of rows that are all of one class."""
    start = np.full(outputs, _NEVER, np.float32)
    start[train.y.astype(int)] = -_NEVER
    return empty_forest(outputs, size) | {"start": start}
