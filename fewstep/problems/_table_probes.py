"""What a model does on held-out tasks, column by column: how much it relies on each, and where its intervals hold."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fewstep.problems._kind import Answer
from fewstep.tables import Column, Rows, Schema

_TASKS, _ROWS, _REPEATS, _ASKED = 20, 100, 5, 20_000
_BINS = 8
_SMALLEST = float(np.finfo(float).eps)

Answering = Callable[..., Answer]


class Reliance(NamedTuple):
    """How much the error of each task grows when a column's cells are shuffled among the rows that are predicted; in
    the target's unit, or of the log loss. `constant` are the columns that are the same in all rows of a task."""

    by_column: dict[str, np.ndarray]
    constant: tuple[str, ...]

    @property
    def ranked(self) -> list[str]:
        """The columns, that of the largest mean first."""
        return sorted(self.by_column, key=lambda name: -float(self.by_column[name].mean()))


class Share(NamedTuple):
    """The share of true values inside the intervals at about one value of a column, given as text and as a number."""

    label: str
    at: float
    inside: float
    rows: int


class Probed(NamedTuple):
    """What the probing of a model found; `shares` by column, empty where a model gives no intervals."""

    reliance: Reliance
    shares: dict[str, list[Share]]


def probe(answer: Answering, schema: Schema, rows: Rows, supports: list[np.ndarray], seed: int = 0) -> Probed:
    """Learns some held-out tasks, each from the rows of a support, and asks with each column shuffled in turn.

    Every task is learned once: all that is asked of it is asked together.
    """
    random, tasks = np.random.default_rng(seed), []
    for number in range(min(len(supports), _TASKS)):
        x, y = rows.of(number)
        rest = np.setdiff1d(np.arange(len(x)), supports[number])
        rest = np.sort(random.permutation(rest)[:_ROWS])
        if len(rest) > 1:
            tasks.append(_ask(answer, schema, (x, y), (supports[number], rest), random))
    names = schema.names
    grown = {name: np.asarray([task.grown[n] for task in tasks]) for n, name in enumerate(names)}
    constant = tuple(name for n, name in enumerate(names) if all(task.constant[n] for task in tasks))
    cells = [np.concatenate([task.x[:, at] for task in tasks]) for at in places(schema)]
    inside = None
    if tasks and tasks[0].inside is not None:
        inside = np.concatenate([task.inside for task in tasks if task.inside is not None])
    shares = {} if inside is None else {
        column.name: _shares(column, of, inside)
        for column, of in zip(schema.features, cells, strict=True) if column.is_category or column.width == 1
    }  # fmt: skip
    return Probed(Reliance(grown, constant), shares)


class _Task(NamedTuple):
    """One task: the rows that were asked, by how much the error grows for each column, which columns do not vary, and
    which true values lie inside."""

    x: np.ndarray
    grown: list[float]
    constant: list[bool]
    inside: np.ndarray | None


def _ask(
    answer: Answering, schema: Schema, task: tuple[np.ndarray, np.ndarray], parts: tuple[np.ndarray, np.ndarray],
    random: np.random.Generator,
) -> _Task:  # fmt: skip
    (x, y), (support, rest) = task, parts
    blocks, plain = places(schema), x[rest]
    repeats = max(1, min(_REPEATS, _ASKED // (len(rest) * len(blocks))))
    asked = [plain]
    for block in blocks:
        for _ in range(repeats):
            shuffled = plain.copy()
            shuffled[:, block] = plain[random.permutation(len(rest))][:, block]
            asked.append(shuffled)
    reply = answer((x[support], y[support]), np.concatenate(asked))
    parts_of = reply.mean.reshape(len(asked), len(rest), -1)
    errors = np.asarray([_error(schema, mean, y[rest]) for mean in parts_of])
    grown = (errors[1:].reshape(len(blocks), repeats) - errors[0]).mean(1).tolist()
    constant = [bool((np.ptp(plain[:, block], axis=0) < 1e-6).all()) for block in blocks]
    inside = None
    if reply.calibrated and not schema.classes:
        low, high = reply.low[: len(rest)], reply.high[: len(rest)]
        inside = ((low <= y[rest]) & (y[rest] <= high)).mean(-1)
    return _Task(plain, grown, constant, inside)


def _error(schema: Schema, mean: np.ndarray, y: np.ndarray) -> float:
    if schema.classes:
        return float(-np.log(np.maximum(mean[np.arange(len(y)), y], _SMALLEST)).mean())
    return float(schema.target.scale * np.sqrt(np.square(mean - y).mean()))


def _shares(column: Column, cells: np.ndarray, inside: np.ndarray) -> list[Share]:
    """The shares at each category of a column, or in parts of its range with about as many rows each."""
    if column.is_category:
        group, names = cells.argmax(1), column.categories
        at = np.arange(len(names), dtype=float)
    else:
        values = column.decode(cells[:, 0])
        edges = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1]))
        group = np.searchsorted(edges, values, side="right")
        at = np.asarray([values[group == n].mean() if (group == n).any() else np.nan for n in range(len(edges) + 1)])
        names = tuple(_day(middle) if column.is_date else f"{middle:.4g}" for middle in at)
    found = [(n, group == n) for n in range(len(names)) if (group == n).any()]
    return [Share(names[n], float(at[n]), float(inside[here].mean()), int(here.sum())) for n, here in found]


def _day(days: float) -> str:
    return str(np.datetime64(0 if np.isnan(days) else round(days), "D"))


def places(schema: Schema) -> list[slice]:
    """The places of each column in a row of x."""
    ends = np.cumsum([0, *(column.width for column in schema.features)])
    return [slice(int(begin), int(end)) for begin, end in itertools.pairwise(ends)]
