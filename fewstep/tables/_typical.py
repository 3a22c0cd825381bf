r"""What rows of the training tasks look like: a target beside its features, and several rows of one task together.

A ridge regression of the standardized targets on the features and their squares, over all training rows, leaves
residuals. Of them, and of the features, the ends are kept of what the mean z of n rows of one task may be:

    low_1 = min z,    low_n = min_task (mean z - 3 s sqrt(1 / n - 1 / rows of the task)) - 2 t,    and so the upper ends

with the deviation s within the task and t between tasks' means; or, where a task is learned from its first rows, the
smallest and largest mean of a task's first n. A row, or the mean of n rows, that lies outside is unlike training: a
child of 2 years may be in the data, and one of 180 cm, but not both in one row; and days of January are there, but no
task was learned from these alone. Several rows count as outside from a quarter of a deviation on.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fewstep.files import JSON

if TYPE_CHECKING:
    from fewstep.tables._rows import Rows

TOGETHER = 0.25  # deviations from which the mean of several rows counts as outside
_SIZES = (1, 2, 3, 4, 5, 7, 10, 20)
_WITHIN, _BETWEEN = 3.0, 2.0  # deviations: of the mean of a task's rows, and of a new task from the nearest known
_PENALTY = 1e-3  # of each row
_WIDEST = 200  # features


class Apart(NamedTuple):
    """How far rows lie outside, signed: their features, (features,), and the residuals of their targets, (targets,)."""

    x: np.ndarray
    y: np.ndarray

    @property
    def distance(self) -> float:
        """The farthest of all."""
        return float(np.abs(np.concatenate(self)).max(initial=0.0))

    @property
    def notable(self) -> bool:
        """Whether several rows lie far enough outside to speak of."""
        return self.distance > TOGETHER


@dataclasses.dataclass(frozen=True)
class Typical:
    """The fit's weights, (1 + 2 features) x targets, and for some numbers of rows the ends of their mean: that of the
    features, then that of the residuals."""

    weights: tuple[tuple[float, ...], ...]
    sizes: tuple[int, ...]
    low: tuple[tuple[float, ...], ...]
    high: tuple[tuple[float, ...], ...]

    def residuals(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """What the fit leaves over, (rows, targets); nothing of classes."""
        weights = np.asarray(self.weights, float)
        return (y if y.ndim == 2 else np.zeros((len(x), 0))) - _terms(x) @ weights

    def beyond(self, x: np.ndarray, residuals: np.ndarray) -> Apart:
        """How far the mean of these rows lies outside that of as many rows of a training task. The features of a single
        row are not looked at."""
        at = max(n for n, size in enumerate(self.sizes) if size <= len(x))
        mean = np.concatenate([x, residuals], axis=1).mean(0)
        low, high = np.asarray(self.low[at]), np.asarray(self.high[at])
        apart, width = np.minimum(mean - low, 0.0) + np.maximum(mean - high, 0.0), x.shape[1]
        return Apart(apart[:width] if len(x) > 1 else np.zeros(width), apart[width:])

    @staticmethod
    def from_dict(fields: dict[str, JSON]) -> "Typical":
        """What `dataclasses.asdict` gave, lists or tuples."""
        table = lambda name: tuple(tuple(row) for row in fields[name])
        return Typical(table("weights"), tuple(fields["sizes"]), table("low"), table("high"))


def learn_typical(rows: "Rows") -> Typical | None:
    """What is typical of the rows of training tasks; nothing if there are very many features."""
    if rows.x.shape[1] > _WIDEST:
        return None
    x, terms = np.asarray(rows.x, float), _terms(rows.x)
    y = np.asarray(rows.y, float) if rows.y.ndim == 2 else np.zeros((len(x), 0))
    square = terms.T @ terms + _PENALTY * len(terms) * np.eye(terms.shape[1])
    weights = np.linalg.solve(square, terms.T @ y)
    every = np.concatenate([x, y - terms @ weights], axis=1)
    tasks = [every[start : start + count] for start, count in zip(rows.starts, rows.counts, strict=True)]
    sizes = [size for size in _SIZES if size <= max(rows.counts)]
    ends = [_ends([task for task in tasks if len(task) >= size], size, rows.support != "random") for size in sizes]
    return Typical(_plain(weights), tuple(sizes), _plain([low for low, _ in ends]), _plain([high for _, high in ends]))


def _ends(tasks: list[np.ndarray], size: int, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the mean of so many rows of one task, for each number of a row."""
    if size == 1:
        every = np.concatenate(tasks)
        return every.min(0), every.max(0)
    if ordered:
        means = np.stack([task[:size].mean(0) for task in tasks])
        return means.min(0), means.max(0)
    means, spread = np.stack([task.mean(0) for task in tasks]), np.stack([task.std(0) for task in tasks])
    count = np.asarray([len(task) for task in tasks])[:, None]
    chance = np.mean(np.square(spread) / count, axis=0)  # what the means vary by though all tasks be alike
    between = np.sqrt(np.maximum(means.var(0) - chance, 0.0))
    slack = _WITHIN * spread * np.sqrt(1 / size - 1 / count) + _BETWEEN * between[None]
    return (means - slack).min(0), (means + slack).max(0)


def _terms(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, float)
    return np.concatenate([np.ones((len(x), 1)), x, np.square(x)], axis=1)


def _plain(rows: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.7g}") for value in row) for row in rows)
