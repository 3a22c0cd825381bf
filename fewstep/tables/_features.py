"""The features of a table: which columns go in as cycles, and which parts of its dates."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep.tables._cells import read_cells
from fewstep.tables._column import Column
from fewstep.tables._dates import PARTS
from fewstep.tables._frame import Frame

Cyclic = Sequence[str] | Mapping[str, float]


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


def _pair(text: str) -> tuple[str, float]:
    name, _, period = text.rpartition("=")
    try:
        return name, float(period)
    except ValueError:
        raise FewstepError(f"`cyclic` holds {text!r}. Give COLUMN=PERIOD, such as day=365.25.") from None
