"""Boosted trees as arrays: scikit-learn or LightGBM fits them, and JAX computes with them, so that a model with trees
is saved, exported and served as any other: no pickle, no library needed where it is used.

A tree is arrays over its nodes. A row goes to the left child of a node if its feature is at most the threshold; a leaf
is its own child. Trees are padded to one size, and forests to one number of trees, which say 0. All are floats, as
meta-parameters are; those that number features and nodes have no derivative.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fewstep._errors import FewstepError

Forest: TypeAlias = dict[str, Any]  # arrays of NumPy where it is fitted, of JAX where it is a meta-parameter
_MANY = 50_000  # rows that are worth several threads
_NEVER = -5.0  # the logit of a class that no row to fit to has


class Size(NamedTuple):
    """The largest forest: so many trees per output, of so many leaves and so deep."""

    trees: int = 150
    leaves: int = 16
    depth: int = 6

    @property
    def nodes(self) -> int:
        """The nodes of a tree with all its leaves."""
        return 2 * self.leaves - 1


class Sample(NamedTuple):
    """Rows to fit a forest to: x, y and how much each counts."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


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
    size: Size = Size(),  # noqa: B008
) -> tuple[Forest, int]:  # fmt: skip
    """Fits a forest, and stops where it is best on the `validation` rows, or after so many `trees`; with their number.

    Of classes, a forest says logits: of two classes the first has none of its own.
    """
    how = partial(_fit_one, trees=trees, seed=seed, size=size)
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
    train: Sample, validation: Sample | None, *, outputs: int, classes: bool, trees: int | None, seed: int, size: Size
) -> tuple[Forest, int]:
    """A forest of classes, or of one number."""
    present = np.unique(train.y) if classes else np.zeros(0)
    if classes and len(present) < 2:
        return _constant(train, outputs, size), 0
    known = None if validation is None or (classes and not np.isin(validation.y, present).all()) else validation
    model = _model(classes, len(train.y), trees or size.trees, known is not None, seed, size)
    held_out = {} if known is None else {"X_val": known.x, "y_val": known.y, "sample_weight_val": known.weight}
    from threadpoolctl import threadpool_limits

    # Threads that wait for each other cost more than one.
    with threadpool_limits(None if len(train.y) > _MANY else 1, user_api="openmp"):
        model.fit(train.x, train.y, train.weight, **held_out)
    count = len(model._predictors) if known is None else int(np.argmax(model.validation_score_))
    columns = [0] if not classes else [int(label) for label in present[(1 if len(present) == 2 else 0) :]]
    forest = _as_arrays(model, count, columns, outputs, size)
    if classes and len(present) < outputs:
        forest["start"][np.setdiff1d(np.arange(outputs), present)] = _NEVER
    return forest, count


def _model(classes: bool, rows: int, trees: int, stops: bool, seed: int, size: Size) -> Any:
    """The boosted trees of scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    except ImportError:
        raise FewstepError("Trees are fitted by scikit-learn: pip install 'fewstep[sklearn]'.") from None
    factory = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return factory(
        max_iter=trees, learning_rate=0.08, max_leaf_nodes=size.leaves, max_depth=size.depth,
        min_samples_leaf=max(2, min(20, rows // 50)), l2_regularization=1.0, n_iter_no_change=15,
        early_stopping=stops, random_state=seed,
    )  # fmt: skip


def _as_arrays(model: Any, count: int, columns: Sequence[int], outputs: int, size: Size) -> Forest:
    """The first `count` rounds of a fitted model, each with a tree for each of these columns."""
    forest = empty_forest(outputs, size)
    forest["start"][columns] = np.reshape(model._baseline_prediction, -1)
    for number, trees in enumerate(model._predictors[:count]):
        for column, tree in zip(columns, trees, strict=True):
            nodes, place = tree.nodes, (number, column, slice(len(tree.nodes)))
            own, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
            forest["feature"][place] = nodes["feature_idx"]
            forest["threshold"][place] = _rounded_down(np.where(leaf, 0.0, nodes["num_threshold"]))
            forest["value"][place] = np.where(leaf, nodes["value"], 0.0)
            forest["children"][place] = np.stack([np.where(leaf, own, nodes[side]) for side in ("left", "right")], 1)
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
