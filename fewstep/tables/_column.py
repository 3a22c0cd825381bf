"""One column of a table as a feature or a target: how it becomes numbers for a network, and back."""

import dataclasses
from typing import Literal

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._cells import TRUTHS, Cells, Kind, empty_cells, read_cells, written
from fewstep.tables._dates import WEEKDAYS, YEAR, DateOrder, day_of_year, weekday
from fewstep.tables._frame import Frame
from fewstep.tables._text import shown

Missing = Literal["refuse", "mean"]
_MANY = 200  # categories: each is a column of its own
FARTHEST = 5.0  # deviations: a feature beyond is taken as there, or one outlier would rule every gradient step
_SMALL_GAP = 0.1  # of a cycle: training that leaves no larger one without a value has seen all of it


@dataclasses.dataclass(frozen=True)
class Column:
    """How one column enters the network: a number standardized by the training tasks, a category as one of several, a
    number with a `period` as sine and cosine.

    `low` and `high` are the ends of what the training tasks have; of a run that was made without them, they are taken
    to be five deviations away. Of a cycle they are the ends of an arc. `part` is the part of a date that it is, and
    `date_order` how its dates were written.
    """

    name: str
    kind: Kind
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    period: float | None = None
    part: str = ""
    date_order: DateOrder = ""

    @property
    def is_category(self) -> bool:
        """One of several categories rather than a number."""
        return self.kind == "category"

    @property
    def is_date(self) -> bool:
        """A number that people read as a date."""
        return self.kind == "date"

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return len(self.categories) if self.is_category else 1 if self.period is None else 2

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of a number's range in training, standardized."""
        if self.low is None or self.high is None:
            return -FARTHEST, FARTHEST
        return (self.low - self.mean) / self.scale, (self.high - self.mean) / self.scale

    @property
    def label(self) -> str:
        """What it is called where people read it."""
        return f"{self.name} ({self.part})" if self.part else self.name

    @property
    def range(self) -> str:
        """What the training tasks have, in words."""
        if self.period is not None and self.low is not None and self.high is not None:
            return f"{self.low:.6g} to {self.high % self.period:.6g} of a cycle of {self.period:.6g}"
        ends = written(Cells(self.kind, np.asarray([end * self.scale + self.mean for end in self.ends])))
        return f"{shown(ends[0])} to {shown(ends[1])}"

    @staticmethod
    def learn(name: str, cells: Cells, rows: np.ndarray, *, period: float | None = None, part: str = "") -> "Column":
        """The column as these rows have it."""
        if part == "weekday":
            return Column(name, "category", categories=WEEKDAYS, part=part, date_order=cells.date_order)
        if part == "day-of-year":
            cells, period = Cells("number", day_of_year(cells.values), cells.date_order), YEAR
        values = cells.values[rows]
        if cells.is_category:
            return Column(name, "category", categories=_categories(name, values))
        values = values[np.isfinite(values)]
        if not len(values):
            raise _nothing_in(name)
        if period is not None:
            low, high = _arc(values, period)
            return Column(
                name, cells.kind, low=low, high=high, period=period, part=part, date_order=cells.date_order
            )  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            spread, rounding = float(values.std()), 1e-12 * float(np.abs(values).max())
        if not np.isfinite(spread):
            raise FewstepError(
                f"The column {name!r} holds {values[np.abs(values).argmax()]:g}, too large to be scaled. Correct it, "
                "or leave the cell empty."
            )
        scale, ends = spread if spread > rounding else 1.0, (float(values.min()), float(values.max()))
        return Column(
            name, cells.kind, float(values.mean()), scale, low=ends[0], high=ends[1], date_order=cells.date_order
        )  # fmt: skip

    def encode(self, frame: Frame, *, missing: Missing, strict: bool) -> np.ndarray:
        """The column of a table as numbers, (rows, width). `strict` refuses categories that training never saw; they
        are else none of those it saw."""
        values = self._values(frame)
        empty = empty_cells(Cells(self.kind, values))
        if empty.any() and missing == "refuse":
            raise FewstepError(
                f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {self.name!r}; "
                f"{int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out. For a feature, "
                "training with `missing='mean'` makes a model that takes the mean instead."
            )
        if self.is_category:
            if strict:
                self._check_categories(frame, values, " To count it as none of these: `unknown_categories='allow'`.")
            return (values[:, None] == np.asarray(self.categories, object)[None]).astype(float)
        return np.where(empty[:, None], 0.0, self.numbers(values))

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """Numbers in the user's unit as the network takes them, (rows, width)."""
        if self.period is None:
            return ((values - self.mean) / self.scale)[:, None]
        angle = 2 * np.pi * values / self.period
        return np.stack([np.sin(angle), np.cos(angle)], axis=1)

    def codes(self, frame: Frame) -> np.ndarray:
        """The number of each row's category."""
        cells = read_cells(frame, self.name, "category")
        if (empty := empty_cells(cells)).any():
            raise FewstepError(
                f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {self.name!r}, which is what "
                f"is learned; {int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out."
            )
        self._check_categories(frame, cells.values)
        return np.asarray([self.categories.index(cell) for cell in cells.values], np.int32)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Numbers in the user's unit; of a cycle, the place in it of each pair of sine and cosine."""
        if self.period is None:
            return values * self.scale + self.mean
        turn = np.arctan2(values[:, 0].astype(float), values[:, 1].astype(float)) / (2 * np.pi)
        return np.round(turn % 1, 7) % 1 * self.period  # a rounding below the cycle's end is its beginning

    def beyond(self, x: np.ndarray) -> np.ndarray:
        """How far each row's numbers lie outside what training had, in deviations; a category never does."""
        if self.is_category:
            return np.zeros(len(x))
        if self.period is None:
            low, high = self.ends
            return np.maximum(np.maximum(low - x[:, 0], x[:, 0] - high), 0.0)
        if self.low is None or self.high is None:
            return np.zeros(len(x))
        after = (self.decode(x) - self.low) % self.period  # along the cycle from the arc's beginning
        outside = np.minimum(after - (self.high - self.low), self.period - after)
        angle = np.maximum(outside, 0.0) * 2 * np.pi / self.period
        return np.where(np.square(x).sum(1) > 0.5, angle, 0.0)  # an empty cell is nowhere in the cycle

    def unknown(self, frame: Frame) -> np.ndarray:
        """The rows whose category no training task had."""
        if not self.is_category:
            return np.zeros(0, int)
        values = self._values(frame)
        return np.asarray(
            [row for row, cell in enumerate(values) if cell is not None and cell not in self.categories], int
        )  # fmt: skip

    def _values(self, frame: Frame) -> np.ndarray:
        """The column's cells, of a date the part that it is."""
        if not self.part:
            values = read_cells(frame, self.name, self.kind, self.date_order).values
            spelled = {name.lower(): name for name in self.categories}
            return _truths(values, spelled) if spelled and spelled.keys() <= set(TRUTHS) else values
        days = read_cells(frame, self.name, "date", self.date_order).values
        return weekday(days) if self.part == "weekday" else day_of_year(days)

    def _check_categories(self, frame: Frame, values: np.ndarray, fix: str = "") -> None:
        strange = [row for row, cell in enumerate(values) if cell is not None and cell not in self.categories]
        if strange:
            raise FewstepError(
                f"{frame.where(int(strange[0]))} holds {values[strange[0]]!r} in the column {self.name!r}, which no "
                f"training task had. Known: {', '.join(self.categories)}.{fix}"
            )


def _truths(values: np.ndarray, spelled: dict[str, str]) -> np.ndarray:
    """True and false as training had them written: they are numbers, or written in another way, elsewhere."""
    numbers = {str(number): spelled.get(word) for word, number in TRUTHS.items()}
    known = lambda cell: spelled.get(cell.lower()) or numbers.get(cell) or cell
    return np.asarray([None if cell is None else known(cell) for cell in values], object)


def _categories(name: str, values: np.ndarray) -> tuple[str, ...]:
    categories = tuple(sorted({cell for cell in values if cell is not None}))
    if not categories:
        raise _nothing_in(name)
    if len(categories) > _MANY:
        raise FewstepError(
            f"The column {name!r} has {len(categories)} different texts, as an identifier has; at most {_MANY} "
            "can be distinguished. Leave it out, or turn it into numbers."
        )
    return categories


def _arc(values: np.ndarray, period: float) -> tuple[float, float] | tuple[None, None]:
    """The shortest arc of a cycle that holds all values; nothing if they lie all around it."""
    places = np.unique(values % period)
    gaps = np.diff(np.concatenate([places, [places[0] + period]]))
    if gaps.max() <= _SMALL_GAP * period:
        return None, None
    begin = float(places[(int(gaps.argmax()) + 1) % len(places)])
    return begin, begin + period - float(gaps.max())


def _nothing_in(name: str) -> FewstepError:
    return FewstepError(f"The column {name!r} has no value in any training task. Leave it out.")
