"""Suggests cycles and parts of dates where they help: where a linear fit with them is better on other tasks.

The fit is a ridge regression of the targets on the features and their squares, all less their mean over a task, as an
offset of the task is learned anyway. The gain is by how much its error falls on tasks that it was not fitted to.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fewstep.tables._cells import Cells, read_cells
from fewstep.tables._column import Column
from fewstep.tables._dates import WEEKDAYS, YEAR, day_of_year, weekday
from fewstep.tables._frame import Frame
from fewstep.tables._schema import Schema

_WORTH = 0.02  # a smaller gain is not worth a word
_FOLDS, _ROWS, _PENALTY = 5, 20_000, 1e-3
_SEASONS, _WEEKS = 1.5 * YEAR, 21.0  # days of dates from which seasons and weekdays may be seen
_CYCLES: dict[str, tuple[tuple[float, float, float], ...]] = {  # a word in a name: smallest, largest value, period
    "day": ((1, 366, YEAR), (1, 365, YEAR), (1, 7, 7.0)),
    "doy": ((1, 366, YEAR), (1, 365, YEAR)),
    "weekday": ((1, 7, 7.0), (0, 6, 7.0)),
    "dow": ((1, 7, 7.0), (0, 6, 7.0)),
    "month": ((1, 12, 12.0),),
    "hour": ((0, 23, 24.0),),
    "angle": ((0, 360, 360.0), (0, 359, 360.0)),
    "direction": ((0, 360, 360.0), (0, 359, 360.0)),
}


class _Idea(NamedTuple):
    """What a column may be taken as, with the numbers that it then adds to a row."""

    column: Column
    what: str
    numbers: np.ndarray


def suggest_cycles(frame: Frame, schema: Schema, tasks: np.ndarray) -> str:
    """A remark on features that help as cycles, and on parts of dates that help, from rows of the training tasks."""
    if frame.rows > _ROWS:
        some = np.sort(np.random.default_rng(0).permutation(frame.rows)[:_ROWS])
        frame, tasks = frame.only(some), tasks[some]
    ideas = [idea for column in schema.features for idea in _ideas(frame, column, schema.features)]
    if not ideas:
        return ""
    fit = _Fit(frame, schema, tasks)
    gains = [(idea, gain) for idea in ideas if (gain := fit.gain(idea.numbers)) >= _WORTH]
    notes = [_of_cycle(idea, gain) for idea, gain in gains if not idea.column.is_date]
    for name in dict.fromkeys(idea.column.name for idea, _ in gains if idea.column.is_date):
        notes.append(_of_dates(schema, name, {i.what: gain for i, gain in gains if i.column.name == name}))
    return " ".join(notes)


def _of_cycle(idea: _Idea, gain: float) -> str:
    column = idea.column
    return (
        f"{column.name!r} runs from {column.low:g} to {column.high:g}: as a cycle, it lowers the error of a linear fit "
        f"by {gain:.0%}. If it is one, use `cyclic='{column.name}={idea.what}'`."
    )


def _of_dates(schema: Schema, name: str, gains: dict[str, float]) -> str:
    parts = [column.part or "days" for column in schema.features if column.name == name] + list(gains)
    found = " and ".join(f"the {part.replace('-', ' ')} of {name!r} by {gain:.0%}" for part, gain in gains.items())
    if "day-of-year" not in gains:
        return f"A linear fit has a smaller error with {found}: use `dates='{' '.join(parts)}'`."
    own = " ".join(part for part in parts if part != "days")
    more = f" (`dates='{' '.join(parts)}'` keeps the date itself too)" if "days" in parts else ""
    return f"A linear fit has a smaller error with {found}: use `dates='{own}'`{more}."


def _ideas(frame: Frame, column: Column, features: Sequence[Column]) -> Iterator[_Idea]:
    """What a number may be that is not yet taken as such."""
    if column.period is not None or column.is_category or column.low is None or column.high is None:
        return
    if not column.is_date:
        if (period := _period(frame, column)) is not None:
            values = read_cells(frame, column.name, column.kind).values
            yield _Idea(column, f"{period:g}", _turned(values, period))
        return
    parts = [other.part for other in features if other.name == column.name]
    days, span = read_cells(frame, column.name, "date", column.date_order).values, column.high - column.low
    if span > _SEASONS and "day-of-year" not in parts:
        yield _Idea(column, "day-of-year", _turned(day_of_year(days), YEAR))
    if span >= _WEEKS and "weekday" not in parts:
        yield _Idea(column, "weekday", (weekday(days)[:, None] == np.asarray(WEEKDAYS, object)[None]).astype(float))


def _period(frame: Frame, column: Column) -> float | None:
    """The period of whole numbers that are named and range as those of a cycle."""
    words = column.name.lower().replace("_", " ").replace("-", " ").split()
    for low, high, period in (limits for word in words for limits in _CYCLES.get(word, ())):
        if (column.low, column.high) == (low, high):
            values = _finite(read_cells(frame, column.name, column.kind))
            return period if (values == np.round(values)).all() else None
    return None


def _finite(cells: Cells) -> np.ndarray:
    return cells.values[np.isfinite(cells.values)]


def _turned(values: np.ndarray, period: float) -> np.ndarray:
    angle = 2 * np.pi * values / period
    return np.nan_to_num(np.stack([np.sin(angle), np.cos(angle)], axis=1))


class _Fit:
    """The linear fit of a table's targets, and how much better it is with more numbers in each row."""

    def __init__(self, frame: Frame, schema: Schema, tasks: np.ndarray):
        x, y = np.asarray(schema.x(frame, strict=False), float), schema.y(frame)
        _, self.task = np.unique(tasks.astype(str), return_inverse=True)
        self.y = self._centered(np.eye(len(schema.classes))[y] if schema.classes else np.asarray(y, float))
        self.x = self._centered(np.concatenate([x, np.square(x)], axis=1))
        self.error = self._error(self.x)

    def gain(self, numbers: np.ndarray) -> float:
        """By what part the error falls."""
        more = np.concatenate([self.x, self._centered(numbers)], axis=1)
        return 1 - float(np.sqrt(self._error(more) / self.error)) if self.error > 0 else 0.0

    def _centered(self, values: np.ndarray) -> np.ndarray:
        sums = np.zeros((self.task.max() + 1, values.shape[1]))
        np.add.at(sums, self.task, values)
        return values - (sums / np.bincount(self.task)[:, None])[self.task]

    def _error(self, x: np.ndarray) -> float:
        """The sum of squares on tasks that a fit has not seen."""
        fold, total = self.task % min(_FOLDS, self.task.max() + 1), 0.0
        for number in range(fold.max() + 1):
            own = fold == number
            some, ridge = x[~own], _PENALTY * (~own).sum() * np.eye(x.shape[1])
            weights = np.linalg.solve(some.T @ some + ridge, some.T @ self.y[~own])
            total += float(np.square(self.y[own] - x[own] @ weights).sum())
        return total
