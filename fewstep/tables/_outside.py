r"""How far rows lie outside what the training tasks had, and how much wider that makes an interval.

A row's distance is that of its standardized numbers to the box of the training's ranges:

    d = sqrt(sum_j max(0, low_j - x_j, x_j - high_j)^2),        half' = half + d_query + d_support

in training deviations of the target. d_support is the largest distance of a row that was learned from, its target
included. So a function that changes by at most one deviation of the target for each deviation of x stays inside, and so
does one that a single support value has moved as far as it lies outside. A cycle's number lies outside by its angle
from the training's arc. A row to learn from whose target is in range, but not beside its features, lies as far outside
as `Typical` says, and so do rows that are unlike any training task only together. Inside nothing changes. Rows that
the schema does not let be learned from change nothing either.
"""

from typing import NamedTuple

import numpy as np

from fewstep.tables._column import Column
from fewstep.tables._frame import Frame
from fewstep.tables._schema import Schema, clamped
from fewstep.tables._text import shown
from fewstep.tables._typical import TOGETHER, Apart

_NOTABLE = 0.5  # deviations: a little outside is nothing to speak of, as some row of a new task often is
_CASES = 3
_LEARNED = "What is learned from it may be far off: correct it, or leave the row out."
_ASKED = "The prediction there is a guess; an interval is wider for it."
_IGNORED = "That is too far to be learned from: the row is left out."


class Outside(NamedTuple):
    """The distance of each row from what training had, and a note on every column where it is more than a little. Rows
    that are `ignored` are not learned from, and so are nowhere."""

    distance: np.ndarray
    notes: tuple[str, ...]
    ignored: np.ndarray


def outside(
    schema: Schema, frame: Frame, x: np.ndarray, y: np.ndarray | None = None, tasks: np.ndarray | None = None
) -> Outside:
    """How far the rows of a table lie outside; `x` are its unbounded features, and `y` its targets if it is learned
    from, of one task or of the `tasks` named."""
    every = np.zeros(len(x)) if tasks is None else tasks
    ignored = np.zeros(len(x), bool) if y is None else schema.ignored(y, every)
    distance, kept = np.zeros(len(x)), ~ignored
    notes = [] if y is None or kept.all() else _not_learned(schema, frame, y, every, ignored)
    if kept.any() or not len(x):
        part = lambda array: None if array is None else array[kept]
        rest = frame if kept.all() else frame.only(np.flatnonzero(kept))
        distance[kept], more = _apart(schema, rest, x[kept], part(y), part(tasks))
        notes += more
    return Outside(distance, tuple(notes), ignored)


def _apart(
    schema: Schema, frame: Frame, x: np.ndarray, y: np.ndarray | None, tasks: np.ndarray | None
) -> tuple[np.ndarray, list[str]]:
    """The distance of rows that count, and notes on them."""
    pairs = list(zip(schema.features, schema.places, strict=True))
    apart = [column.beyond(x[:, place : place + column.width]) for column, place in pairs]
    columns = list(schema.features)
    if y is not None and not schema.classes:
        apart += [target.beyond(y[:, n : n + 1]) for n, target in enumerate(schema.targets)]
        columns += schema.targets
    distances = np.stack(apart, axis=1)
    notes = [
        _note(frame, column, distances[:, n], _LEARNED if y is not None else _ASKED)
        for n, column in enumerate(columns) if distances[:, n].max(initial=0.0) > _NOTABLE
    ]  # fmt: skip
    distance = np.sqrt(np.square(distances).sum(1))
    if y is not None and schema.typical is not None:
        odd, more = _untypical(schema, frame, x, y, tasks, distance > _NOTABLE)
        distance, notes = np.maximum(distance, odd), [*notes, *more]
    return distance, [*notes, *_unknown(schema, frame)]


def _not_learned(
    schema: Schema, frame: Frame, y: np.ndarray, tasks: np.ndarray, ignored: np.ndarray
) -> list[str]:  # fmt: skip
    """Notes on rows that are not learned from, and on tasks that have no others."""
    far = lambda target, n: np.where(ignored, target.beyond(y[:, n : n + 1].astype(float)), 0.0)
    pairs = [(target, far(target, n)) for n, target in enumerate(schema.targets)]
    notes = [_note(frame, target, apart, _IGNORED) for target, apart in pairs if apart.max() > _NOTABLE]
    for task in dict.fromkeys(tasks[ignored].tolist()):
        own = np.flatnonzero(tasks == task)
        if ignored[own].all():
            which = frame.where(int(own[0])) + (" and the others of its task" if len(own) > 1 else "")
            notes.append(
                f"Nothing is learned from {which}: the unit may be another one. The prediction is what is likely "
                "without any rows."
            )
    return notes


def _untypical(
    schema: Schema, frame: Frame, x: np.ndarray, y: np.ndarray, tasks: np.ndarray | None, reported: np.ndarray
) -> tuple[np.ndarray, list[str]]:
    """How far targets lie from what training had beside such features, row by row and all rows of a task together; of
    rows that were `reported` already, nothing is said again."""
    assert schema.typical is not None
    typical, x = schema.typical, clamped(x)
    notes: list[str] = []
    left = typical.residuals(x, y)
    rows = np.stack([typical.beyond(x[n : n + 1], left[n : n + 1]).y for n in range(len(x))])
    distance = np.abs(rows).max(1, initial=0.0)
    for number, target in enumerate(schema.targets if rows.shape[1] else ()):
        sizes = np.where(reported, 0.0, np.abs(rows[:, number]))
        if sizes.max(initial=0.0) > _NOTABLE:
            notes.append(_odd_row(frame, target, sizes, rows[:, number]))
    reported = reported | (distance > _NOTABLE)
    every = np.zeros(len(x)) if tasks is None else tasks
    for task in dict.fromkeys(every.tolist()):
        own = every == task
        if own.sum() > 1:
            together = typical.beyond(x[own], left[own])
            distance[own] = np.maximum(distance[own], together.distance if together.notable else 0.0)
            notes += [] if reported[own].any() else _odd_set(schema, frame, together, np.flatnonzero(own))
    return distance, notes


def _note(frame: Frame, column: Column, apart: np.ndarray, end: str) -> str:
    row, count = int(apart.argmax()), int((apart > _NOTABLE).sum())
    part = f" ({column.part})" if column.part else ""
    return (
        f"{frame.where(row)} holds {shown(frame.column(column.name)[row])} in the column {column.name!r}{part}, "
        f"outside the training tasks' {column.range} by {_deviations(apart[row])}{_others(count)}. {end}"
    )


def _odd_row(frame: Frame, target: Column, sizes: np.ndarray, signed: np.ndarray) -> str:
    row, count = int(sizes.argmax()), int((sizes > _NOTABLE).sum())
    return (
        f"{frame.where(row)} holds {shown(frame.column(target.name)[row])} in the column {target.name!r}, which is "
        f"{'below' if signed[row] < 0 else 'above'} what any training row has beside such other columns by "
        f"{_deviations(sizes[row])}{_others(count)}. What is learned from it may be far off: correct it, or leave the "
        "row out. Intervals are wider for it."
    )


def _odd_set(schema: Schema, frame: Frame, together: Apart, rows: np.ndarray) -> list[str]:
    """Notes on rows of one task that are unlike training only together."""
    notes, first = [], f"The {len(rows)} rows to learn from, {frame.where(int(rows[0]))} and others,"
    if np.abs(together.y).max(initial=0.0) > TOGETHER:
        far = together.y[worst := int(np.abs(together.y).argmax())]
        notes.append(
            f"{first} are unlike those of any training task: {schema.targets[worst].name!r} is on average "
            f"{'below' if far < 0 else 'above'} what as many rows of one task have beside such other columns by "
            f"{_deviations(abs(far))}. Is the unit the same? Intervals are wider for it."
        )
    if np.abs(together.x).max(initial=0.0) > TOGETHER:
        worst = int(np.abs(together.x).argmax())
        column = schema.features[int(np.searchsorted(schema.places, worst, side="right")) - 1]
        cells = ", ".join(shown(cell) for cell in frame.column(column.name)[rows[:_CASES]])
        notes.append(
            f"{first} are unlike those that training learned a task from: in the column {column.label!r} they are "
            f"{cells}{', ...' * (len(rows) > _CASES)}, apart by {_deviations(abs(together.x[worst]))}. Learn from rows "
            "all over it; or train for such rows, as `support` and `order` do. Intervals are wider for it."
        )
    return notes


def _unknown(schema: Schema, frame: Frame) -> list[str]:
    """Notes on categories that training never saw, where these are allowed."""
    notes = []
    for column in schema.features if schema.unknown == "allow" else ():
        if len(rows := column.unknown(frame)):
            others = _others(len(rows)).replace("so do", "so are those of")
            notes.append(
                f"{frame.where(int(rows[0]))} holds {shown(frame.column(column.name)[rows[0]])!r} in the column "
                f"{column.name!r}, which no training task had{others}. It counts as none of: "
                f"{', '.join(column.categories)}."
            )
    return notes


def _deviations(distance: float) -> str:
    return f"{distance:.1f} deviations" if distance < 100 else f"{distance:.0f} deviations"


def _others(count: int) -> str:
    return f" (so do {count - 1} other rows)" if count > 1 else ""
