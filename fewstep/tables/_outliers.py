"""Values that cannot be measurements: codes for missing ones such as 9999 or -999, and slips of the pen.

A value's distance from the median of the training tasks is counted in robust scales, 1.4826 times the median absolute
deviation, which no few values can move. Far alone is not enough: honest data have tails. What is flagged also lies
apart, beyond a gap in the column's values, and is one of three things; the numbers are in `_KINDS`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._cells import Cells, read_cells, written
from fewstep.tables._column import Missing
from fewstep.tables._frame import Frame
from fewstep.tables._text import shown

Outliers = Literal["drop", "clip", "keep"]
OUTLIERS: tuple[Outliers, ...] = ("drop", "clip", "keep")
_FEW = 20  # values, of which no scale can be trusted
_CASES = 3


class _Kind(NamedTuple):
    """What a group of values beyond a gap must be: so many robust scales away, so many times as far as the next value
    on its side, at most this share of the rows, and beside so many other values."""

    scales: float
    gap: float
    share: float
    others: int


_KINDS = {
    "code": _Kind(5, 2, 0.25, 2),  # all digits are nines: 99, -999, 9999
    "repeated": _Kind(20, 3, 0.05, 20),  # one to three values, each there at least twice
    "absurd": _Kind(100, 20, 0.01, 20),
}


class Treated(NamedTuple):
    """A table after its outliers were treated: which of its rows are left, and what was done, in words."""

    frame: Frame
    kept: np.ndarray
    note: str

    def check_tasks(self, names: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Raises `FewstepError` if a task has no row left; `names` are those of each row's task, of all `rows` or
        some."""
        there = np.isin(np.arange(len(names)) if rows is None else rows, self.kept)
        if gone := sorted(set(names.tolist()) - set(names[there].tolist())):
            raise FewstepError(f"{self.note} That leaves no row of the task {gone[0]!r}. Leave it out of the table.")


def treat(
    frame: Frame, training: np.ndarray, *, x: Sequence[str], y: Sequence[str], missing: Missing, outliers: Outliers
) -> Treated:
    """The table with the outliers of some columns treated; `training` are the rows that say what is usual, and `y` the
    targets of numbers.

    `drop` takes them as missing: rows are left out, and where `missing` is "mean" a feature is emptied instead. `clip`
    takes the nearest value that is not an outlier. `keep` changes nothing, and looks for nothing.
    """
    keep, columns, notes = np.ones(frame.rows, bool), dict(frame.columns), []
    for name in () if outliers == "keep" else (*x, *y):
        cells = read_cells(frame, name)
        if cells.is_category or not (strange := outlying(cells.values, training)).any():
            continue
        emptied = outliers == "drop" and missing == "mean" and name not in y
        if outliers == "drop" and not emptied:
            keep &= ~strange
        else:
            columns[name] = written(cells._replace(values=_replaced(cells.values, strange, emptied=emptied)))
        notes.append(_note(frame, name, cells, strange, "emptied" if emptied else outliers))
    return Treated(frame._replace(columns=columns), np.flatnonzero(keep), " ".join(notes))


def outlying(values: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Which of a column's numbers are outliers; `training` are the rows that say what is usual."""
    usable = values[training]
    usable = usable[np.isfinite(usable)]
    if len(usable) < _FEW:
        return np.zeros(len(values), bool)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large to be scaled is refused later
        apart = usable - np.median(usable)
        # Where most values are one and the same, as with many zeros, the others say how far apart values are.
        usual = np.median(np.abs(apart)) or np.median(np.abs(apart[apart != 0])) if apart.any() else 0.0
        if not 0 < usual < np.inf:
            return np.zeros(len(values), bool)
        distance = np.nan_to_num((values - np.median(usable)) / (1.4826 * usual), nan=0.0)
    return _beyond(distance, values) | _beyond(-distance, values)


def _beyond(distance: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The outliers on the side where distances are positive: all from the innermost gap on that qualifies."""
    levels, places, counts = np.unique(distance, return_index=True, return_counts=True)
    others = len(levels)
    levels, places, counts = (part[levels > 0] for part in (levels, places, counts))
    inner = np.maximum(np.concatenate([[0.0], levels[:-1]]), 1.0)  # a scale, where the side is empty but for outliers
    min_scales = min(kind.scales for kind in _KINDS.values())
    for n in np.flatnonzero((levels >= min_scales) & (levels >= 2 * inner)):
        sizes = (levels[n], levels[n] / inner[n], counts[n:].sum() / len(values), others - len(levels[n:]))
        if any(_is(kind, values[places[n:]], counts[n:], sizes) for kind in _KINDS):
            return distance >= levels[n]
    return np.zeros(len(values), bool)


def _is(kind: str, values: np.ndarray, counts: np.ndarray, sizes: tuple[float, float, float, int]) -> bool:
    scales, gap, share, others = sizes
    limits = _KINDS[kind]
    if scales < limits.scales or gap < limits.gap or others < limits.others:
        return False
    if share > limits.share and counts.sum() > 1:
        return False
    if kind == "code":
        return all(map(_is_code, values.tolist()))
    return kind == "absurd" or (len(values) <= 3 and bool((counts > 1).all()))


def _is_code(value: float) -> bool:
    digits = f"{abs(value):.10g}".replace(".", "")
    return len(digits) > 1 and set(digits) == {"9"}


def _replaced(values: np.ndarray, strange: np.ndarray, *, emptied: bool) -> np.ndarray:
    if emptied:
        return np.where(strange, np.nan, values)
    usual = values[~strange]
    return np.clip(values, np.nanmin(usual), np.nanmax(usual))


def _note(frame: Frame, name: str, cells: Cells, strange: np.ndarray, how: str) -> str:
    """What was found, where, and what is done about it."""
    column = written(cells)
    values, counts = np.unique(cells.values[strange], return_counts=True)
    first = [int(np.flatnonzero(cells.values == value)[0]) for value in values[:_CASES]]
    cases = [f"{shown(column[row])} in {count} rows" for row, count in zip(first, counts[:_CASES], strict=True)]
    rows = np.flatnonzero(strange)
    lines = [frame.where(int(row)) for row in rows[:_CASES]]
    usual = np.where(strange, np.nan, cells.values)
    ends = [shown(column[int(at)]) for at in (np.nanargmin(usual), np.nanargmax(usual))]
    return (
        f"{len(rows)} values of {name!r} lie far from all others: {', '.join(cases)}{', ...' * (len(values) > _CASES)} "
        f"(such as {', '.join(lines)}). The others run from {ends[0]} to {ends[1]}. {_DONE[how]}"
    )


_DONE: Mapping[str, str] = {
    "drop": "These rows are left out. If the values are real, use `outliers='keep'`; `outliers='clip'` "
    "takes the nearest other value instead.",
    "emptied": "They count as missing, so the mean is taken. If they are real, use `outliers='keep'`.",
    "clip": "Each is taken as the nearest other value. If they are real, use `outliers='keep'`.",
}  # fmt: skip


def check_outliers(outliers: str) -> Outliers:
    """The way to treat outliers. Raises `FewstepError` unless it is one of `OUTLIERS`."""
    for choice in OUTLIERS:
        if outliers == choice:
            return choice
    raise FewstepError(f"outliers is {outliers!r}. Known: {', '.join(sorted(OUTLIERS))}.")
