"""None of these: a threshold on how well a query fits the classes of its task, calibrated on validation tasks.

A query's fit is its largest logit, the mean over the members of a model. In a validation task some queries are of
classes that the support does not have. The threshold is the one at which the shares of known queries that are kept and
of unknown ones that are rejected have the largest mean.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fewstep._episode import Batch
from fewstep._learner import Adapted
from fewstep._outer import task_keys
from fewstep._rule import Meta
from fewstep._streams import UNSEEN
from fewstep.files import JSON
from fewstep.models._model import Model, learn
from fewstep.problems import Say

NONE = "none of these"
_TASKS, _QUERIES = 100, 5
_MIN_CLASSES = 3  # two that are known, and one that is not


class Rejection(NamedTuple):
    """By the number of shots: the fit below which a query is of no class, and the area under the ROC curve there."""

    thresholds: Mapping[int, float]
    auroc: Mapping[int, float]

    def threshold(self, shots: float) -> float:
        """That of the number of shots nearest to this one."""
        return self.thresholds[min(self.thresholds, key=lambda known: abs(known - shots))]

    def to_dict(self) -> dict[str, JSON]:
        """For JSON."""
        return {name: {str(n): value for n, value in of.items()} for name, of in self._asdict().items()}

    @staticmethod
    def from_dict(values: Mapping[str, JSON]) -> "Rejection":
        """What `to_dict` gave."""
        return Rejection(*({int(n): float(value) for n, value in values[name].items()} for name in Rejection._fields))


def fits(
    model: Model, adapted: Adapted, x: Array, *, metas: Meta | None = None, ways: int | None = None,
    norm: str | None = None,
) -> Array:  # fmt: skip
    """How well each row of x fits the best of the classes that were learned; pure."""
    learner = model.learner(ways, norm)
    one = lambda meta, member: learner.predict(meta, member, x)
    logits = jax.vmap(jax.vmap(one, (None, 0)))(model.stacked if metas is None else metas, adapted)
    return logits.mean((0, 1)).max(-1)


def calibrate_rejection(
    model: Model, shots: tuple[int, ...], *, split: str = "validation", ways: int | None = None, seed: int = 0,
    say: Say = lambda message: None,
) -> Rejection | None:  # fmt: skip
    """The thresholds for some numbers of shots; `None` where the split has too few classes for unknown ones.

    **Arguments:** the `split` whose classes are known and unknown in turn; `ways` that are known in each task, fewer
    where the split has no more.
    """
    ways = ways or model.problem.ways
    assert ways is not None
    counts = model.problem.tasks(1, 1, split, 2).data["counts"]
    available, smallest = len(counts), int(min(counts))
    if available < _MIN_CLASSES:
        say(f"No threshold for unknown classes: {split} has {available} classes, and it takes {_MIN_CLASSES}.")
        return None
    if available <= ways:
        say(f"Unknown classes: {split} has {available} classes, so tasks know {available - 1} of them, not {ways}.")
    ways = min(ways, available - 1)
    others = min(ways, available - ways)
    thresholds, areas = {}, {}
    for number in (number for number in shots if number < smallest):
        queries = min(_QUERIES, smallest - number)
        known, unknown = _fits(model, number, queries, ways, others, split, seed)
        thresholds[number], areas[number] = best_threshold(known, unknown), auroc(known, unknown)
    return Rejection(thresholds, areas) if thresholds else None


def _fits(
    model: Model, shots: int, queries: int, ways: int, others: int, split: str, seed: int
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The fits of queries of known classes, and of those of others."""
    tasks = model.problem.tasks(shots, queries, split, ways + others)

    def one(metas: Meta, data: PyTree, keys: tuple[Array, Array]) -> Array:
        support, query = tasks.sample(data, keys[0])
        own: Callable[[Array], Array] = lambda array: array[: ways * shots]
        adapted, _ = learn(model, keys[1], Batch(*map(own, support)), metas=metas, ways=ways)
        return fits(model, adapted, query.x, metas=metas, ways=ways)

    keys = task_keys(jax.random.fold_in(jax.random.key(seed), UNSEEN), jnp.arange(_TASKS))
    run = jax.jit(lambda metas, data: jax.lax.map(lambda pair: one(metas, data, pair), keys))
    values = np.asarray(run(model.stacked, tasks.data))
    return values[:, : ways * queries].ravel(), values[:, ways * queries :].ravel()


def auroc(known: np.ndarray, unknown: np.ndarray) -> float:
    """The probability that a known query fits better than an unknown one; ties count half."""
    order = np.sort(unknown)
    below, upto = np.searchsorted(order, known, "left"), np.searchsorted(order, known, "right")
    return float(((below + upto) / 2).mean() / len(unknown))


def best_threshold(known: np.ndarray, unknown: np.ndarray) -> float:
    """The fit that tells them apart best: the share of known at or above it, and of unknown below it."""
    candidates = np.unique(np.concatenate([known, unknown]))
    kept = 1 - np.searchsorted(np.sort(known), candidates, "left") / len(known)
    rejected = np.searchsorted(np.sort(unknown), candidates, "left") / len(unknown)
    return float(candidates[np.argmax(kept + rejected)])
