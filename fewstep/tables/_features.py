"""The features of a table: which columns go in as cycles, and which parts of its dates."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep.tables._cells import Cells, read_cells
from fewstep.tables._column import Column
from fewstep.tables._dates import PARTS, YEAR
from fewstep.tables._frame import Frame

Cyclic = Sequence[str] | Mapping[str, float]
_LONG = 1.5 * YEAR  # days of dates from which seasons are worth a thought
_CYCLES: dict[str, tuple[tuple[float, float, float], ...]] = {  # a word in a name: smallest, largest value, period
    "day": ((1, 366, YEAR), (1, 365, YEAR), (1, 7, 7.0)),
    "weekday": ((1, 7, 7.0), (0, 6, 7.0)),
    "month": ((1, 12, 12.0),),
    "hour": ((0, 23, 24.0),),
    "angle": ((0, 360, 360.0), (0, 359, 360.0)),
    "direction": ((0, 360, 360.0), (0, 359, 360.0)),
}


def periods(cyclic: Cyclic, x: Sequence[str]) -> dict[str, float]:
    """The period of each cyclic column, given as {"day": 365.25} or as ("day=365.25",)."""
    pairs = list(cyclic.items()) if isinstance(cyclic, Mapping) else [_pair(text) for text in cyclic]
    for name, period in pairs:
        if name not in x:
            raise FewstepError(f"`cyclic` names {name!r}, which is not in `x`: {' '.join(x)}.")
        if not (isinstance(period, int | float) and 0 < period < math.inf):
            raise FewstepError(f"The period of {name!r} in `cyclic` is {period}. It must be above 0, such as 365.25.")
    return {name: float(period) for name, period in pairs}


def learn_features(
    frame: Frame, rows: np.ndarray, x: Sequence[str], cyclic: Cyclic = (), dates: Sequence[str] = ("days",)
) -> tuple[Column, ...]:
    """The columns of x as these rows have them: cycles as such, and the asked parts of dates."""
    for part in dates:
        if part not in PARTS:
            raise unknown("part of a date in `dates`", part, PARTS)
    if not dates:
        raise FewstepError(f"`dates` is empty. Name what of a date is a feature: {', '.join(PARTS)}.")
    cycles, columns, any_date = periods(cyclic, x), [], False
    for name in x:
        cells, period = read_cells(frame, name), cycles.get(name)
        if period is not None and cells.is_category:
            raise FewstepError(f"The column {name!r} in `cyclic` holds text, such as {cells.values[0]!r}, not numbers.")
        any_date |= cells.is_date
        for part in dates if cells.is_date else ("days",):
            own = "" if part == "days" else part
            columns.append(Column.learn(name, cells, rows, period=None if own else period, part=own))
    if tuple(dates) != ("days",) and not any_date:
        raise FewstepError(f"`dates` is {' '.join(dates)}, and no column of `x` holds dates: {' '.join(x)}.")
    return tuple(columns)


def suggest_cycles(frame: Frame, columns: Sequence[Column]) -> str:
    """A remark on features that look like cycles and are not taken as such."""
    notes = []
    for column in columns:
        others = [other.part for other in columns if other.name == column.name]
        if column.period is not None or column.is_category or column.low is None or column.high is None:
            continue
        if column.is_date:
            if column.high - column.low > _LONG and "day-of-year" not in others:
                years = (column.high - column.low) / YEAR
                notes.append(
                    f"The dates of {column.name!r} span {years:.1f} years: if seasons matter, use "
                    "`dates='day-of-year'` (`dates='days day-of-year'` keeps the date itself too)."
                )
        elif (period := _cycle(frame, column)) is not None:
            notes.append(
                f"{column.name!r} runs from {column.low:g} to {column.high:g}: if it is a cycle, use "
                f"`cyclic='{column.name}={period:g}'`."
            )
    return " ".join(notes)


def _pair(text: str) -> tuple[str, float]:
    name, _, period = text.rpartition("=")
    try:
        return name, float(period)
    except ValueError:
        raise FewstepError(f"`cyclic` holds {text!r}. Give COLUMN=PERIOD, such as day=365.25.") from None


def _cycle(frame: Frame, column: Column) -> float | None:
    """The period of whole numbers that are named and range as those of a cycle."""
    name = column.name.lower().replace("_", " ").replace("-", " ").split()
    ranges = [limits for word, some in _CYCLES.items() if word in name for limits in some]
    if "dow" in name or "doy" in name:
        ranges += _CYCLES["weekday"] if "dow" in name else _CYCLES["day"]
    for low, high, period in ranges:
        if (column.low, column.high) == (low, high):
            values = _finite(read_cells(frame, column.name, column.kind))
            return period if (values == np.round(values)).all() else None
    return None


def _finite(cells: Cells) -> np.ndarray:
    return cells.values[np.isfinite(cells.values)]
