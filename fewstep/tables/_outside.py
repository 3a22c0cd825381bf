r"""How far rows lie outside what the training tasks had, and how much wider that makes an interval.

A row's distance is that of its standardized numbers to the box of the training's ranges:

    d = sqrt(sum_j max(0, low_j - x_j, x_j - high_j)^2),        half' = half + d_query + d_support

in training deviations of the target. d_support is the largest distance of a row that was learned from, its target
included. So a function that changes by at most one deviation of the target for each deviation of x stays inside, and so
does one that a single support value has moved as far as it lies outside. Inside the ranges nothing changes.
"""

from typing import NamedTuple

import numpy as np

from fewstep.tables._column import Cells, Column, written
from fewstep.tables._frame import Frame
from fewstep.tables._schema import Schema
from fewstep.tables._text import shown

_NOTABLE = 0.5  # deviations: a little outside is nothing to speak of, as some row of a new task often is


class Outside(NamedTuple):
    """The distance of each row from what training had, and a note on every column where it is more than a little."""

    distance: np.ndarray
    notes: tuple[str, ...]


def outside(schema: Schema, frame: Frame, x: np.ndarray, y: np.ndarray | None = None) -> Outside:
    """How far the rows of a table lie outside; `x` are its unbounded features, and `y` its targets if it is learned
    from."""
    low, high = schema.limits
    apart = np.maximum(np.maximum(low[None] - x, x - high[None]), 0.0)
    columns = [column for column in schema.features for _ in range(column.width)]
    if y is not None and not schema.classes:
        ends = schema.target.ends
        apart = np.concatenate([apart, np.maximum(np.maximum(ends[0] - y, y - ends[1]), 0.0)], axis=1)
        columns.append(schema.target)
    notable = np.flatnonzero(apart.max(0, initial=0.0) > _NOTABLE)
    notes = tuple(_note(frame, columns[n], apart[:, n], learned=y is not None) for n in notable)
    return Outside(np.sqrt(np.square(apart).sum(1)), notes)


def _note(frame: Frame, column: Column, apart: np.ndarray, *, learned: bool) -> str:
    row, count = int(apart.argmax()), int((apart > _NOTABLE).sum())
    ends = written(Cells(column.kind, np.asarray([end * column.scale + column.mean for end in column.ends])))
    others = f" (so do {count - 1} other rows)" if count > 1 else ""
    end = (
        "What is learned from it may be far off: correct it, or leave the row out."
        if learned else "The prediction there is a guess; an interval is wider for it."
    )  # fmt: skip
    return (
        f"{frame.where(row)} holds {shown(frame.column(column.name)[row])} in the column {column.name!r}, outside the "
        f"training tasks' {shown(ends[0])} to {shown(ends[1])}{others}. {end}"
    )
