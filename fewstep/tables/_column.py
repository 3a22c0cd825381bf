"""One column of a table: what kind it is, how it becomes numbers for a network, and back."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._frame import Frame

Kind = Literal["number", "date", "category"]
Missing = Literal["refuse", "mean"]
_NOTHING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "nat", "<na>"})
_MANY = 200  # categories: each is a column of its own
FARTHEST = 5.0  # deviations: a feature beyond is taken as there, or one outlier would rule every gradient step


class Cells(NamedTuple):
    """A column read: numbers with NaN where there is none, or text with None."""

    kind: Kind
    values: np.ndarray


def read_cells(frame: Frame, name: str, kind: Kind | None = None) -> Cells:
    """The cells of a column, of a given kind or of the one they look like.

    Text that looks like numbers is numbers, ISO dates (2024-05-31, 2024-05-31 12:00) are days since 1970, other text is
    categories; and so is what the table declares to be. A column that is mostly numbers but not all is refused, with
    the line. Times with an offset are converted to UTC.
    """
    column = frame.column(name)
    if kind == "category" or (kind is None and name in frame.categories):
        return Cells("category", _text(column))
    if column.dtype.kind in "fiubMm":
        return _of_kind(frame, name, kind, _refuse_infinite(frame, name, _typed(column)))
    text = _text(column)
    there = np.flatnonzero([cell is not None for cell in text])
    if kind is not None and not len(there):
        return Cells(kind, np.full(len(text), np.nan))
    numbers = _parsed(text, float)
    if kind != "date" and not np.isnan(numbers[there]).any():
        _refuse_infinite(frame, name, Cells("number", numbers))
    if kind != "date" and np.isfinite(numbers[there]).all() and len(there):
        return Cells("number", numbers)
    if kind in (None, "date"):
        dates = _parsed(text, _day)
        if np.isfinite(dates[there]).all() and len(there):
            return Cells("date", dates)
        numbers = numbers if kind is None else dates
    read = np.isfinite(numbers[there]).mean() if len(there) else 0.0
    if kind is None and read < 0.5:
        return Cells("category", text)
    row = int(there[~np.isfinite(numbers[there])][0]) if len(there) else 0
    raise FewstepError(
        f"{frame.where(row)} holds {text[row]!r} in the column {name!r}, which is not a {kind or 'number'}; "
        f"{int(read * len(there))} of {len(there)} cells are. Correct it, or leave the cell empty; or, if they are all "
        "categories, say so: `categories` (in a data frame, by the type category)."
    )


def _typed(column: np.ndarray) -> Cells:
    """A column that is numbers or dates already; lengths of time are days."""
    if column.dtype.kind == "m":
        return Cells("number", np.where(np.isnat(column), np.nan, column / np.timedelta64(1, "D")))
    return Cells("date", _days(column)) if column.dtype.kind == "M" else Cells("number", column.astype(float))


def _refuse_infinite(frame: Frame, name: str, cells: Cells) -> Cells:
    """The cells, none of which is infinite. Raises `FewstepError` if one is."""
    if len(rows := np.flatnonzero(np.isinf(cells.values))):
        raise FewstepError(
            f"{frame.where(int(rows[0]))} holds {frame.column(name)[rows[0]]} in the column {name!r}, which is "
            f"infinite; {len(rows)} of {frame.rows} rows are. Correct it, or leave the cell empty."
        )
    return cells


def written(cells: Cells) -> np.ndarray:
    """Cells as a column of a table holds them: what `read_cells` reads as just these."""
    if cells.kind != "date":
        return cells.values
    there = np.isfinite(cells.values)
    moments = np.round(np.where(there, cells.values, 0.0) * 86_400e6).astype(np.int64).astype("datetime64[us]")
    return np.where(there, moments, np.datetime64("NaT", "us"))


def _of_kind(frame: Frame, name: str, kind: Kind | None, cells: Cells) -> Cells:
    """Cells that are of the kind that training had in their column; empty ones are of any."""
    if kind is None or cells.kind == kind:
        return cells
    empty = _empty(cells.values)
    if empty.all():
        return Cells(kind, cells.values)
    row = int(np.flatnonzero(~empty)[0])
    kinds = {"number": "numbers", "date": "dates, such as 2024-05-31"}
    raise FewstepError(
        f"{frame.where(row)} holds {frame.column(name)[row]} in the column {name!r}, a {cells.kind} where training had "
        f"{kinds[kind]}. Give it as the training's table did."
    )


@dataclasses.dataclass(frozen=True)
class Column:
    """How one column enters the network: a number standardized by the training tasks, a category as one of several.

    `low` and `high` are the ends of what the training tasks have; of a run that was made without them, they are taken
    to be five deviations away.
    """

    name: str
    kind: Kind
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return len(self.categories) if self.kind == "category" else 1

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of a number's range in training, standardized."""
        if self.low is None or self.high is None:
            return -FARTHEST, FARTHEST
        return (self.low - self.mean) / self.scale, (self.high - self.mean) / self.scale

    @staticmethod
    def learn(name: str, cells: Cells, rows: np.ndarray) -> "Column":
        """The column as these rows have it."""
        values = cells.values[rows]
        if cells.kind == "category":
            categories = tuple(sorted({cell for cell in values if cell is not None}))
            if not categories:
                raise _nothing_in(name)
            if len(categories) > _MANY:
                raise FewstepError(
                    f"The column {name!r} has {len(categories)} different texts, as an identifier has; at most {_MANY} "
                    "can be distinguished. Leave it out, or turn it into numbers."
                )
            return Column(name, "category", categories=categories)
        values = values[np.isfinite(values)]
        if not len(values):
            raise _nothing_in(name)
        with np.errstate(over="ignore", invalid="ignore"):
            spread, rounding = float(values.std()), 1e-12 * float(np.abs(values).max())
        if not np.isfinite(spread):
            raise FewstepError(
                f"The column {name!r} holds {values[np.abs(values).argmax()]:g}, too large to be scaled. Correct it, "
                "or leave the cell empty."
            )
        scale, ends = spread if spread > rounding else 1.0, (float(values.min()), float(values.max()))
        return Column(name, cells.kind, float(values.mean()), scale, low=ends[0], high=ends[1])

    def encode(self, frame: Frame, *, missing: Missing, strict: bool) -> np.ndarray:
        """The column of a table as numbers, (rows, width). `strict` refuses categories that training never saw; they
        are else none of those it saw."""
        cells = read_cells(frame, self.name, self.kind)
        empty = _empty(cells.values)
        if empty.any() and missing == "refuse":
            raise FewstepError(
                f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {self.name!r}; "
                f"{int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out. For a feature, "
                "training with `missing='mean'` makes a model that takes the mean instead."
            )
        if self.kind != "category":
            return np.where(empty, 0.0, (cells.values - self.mean) / self.scale)[:, None]
        if strict:
            self._check_categories(frame, cells.values, empty)
        return (cells.values[:, None] == np.asarray(self.categories, object)[None]).astype(float)

    def codes(self, frame: Frame) -> np.ndarray:
        """The number of each row's category."""
        cells = read_cells(frame, self.name, "category")
        if (empty := _empty(cells.values)).any():
            raise FewstepError(
                f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {self.name!r}, which is what "
                f"is learned; {int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out."
            )
        self._check_categories(frame, cells.values, empty)
        return np.asarray([self.categories.index(cell) for cell in cells.values], np.int32)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Numbers in the user's unit."""
        return values * self.scale + self.mean

    def _check_categories(self, frame: Frame, values: np.ndarray, skipped: np.ndarray) -> None:
        strange = [row for row in np.flatnonzero(~skipped) if values[row] not in self.categories]
        if strange:
            raise FewstepError(
                f"{frame.where(int(strange[0]))} holds {values[strange[0]]!r} in the column {self.name!r}, which no "
                f"training task had. Known: {', '.join(self.categories)}."
            )


def _nothing_in(name: str) -> FewstepError:
    return FewstepError(f"The column {name!r} has no value in any training task. Leave it out.")


def empty_cells(cells: Cells) -> np.ndarray:
    """Where there is nothing."""
    return _empty(cells.values)


def _empty(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return np.asarray([value is None for value in values], bool)
    return ~np.isfinite(values)


def _text(column: np.ndarray) -> np.ndarray:
    """Every cell as text, None where there is nothing; whole numbers without a point, as they were written."""

    def one(cell: object) -> str | None:
        if isinstance(cell, float | np.floating) and float(cell).is_integer():
            cell = int(cell)
        text = str(cell).strip()
        return None if text.lower() in _NOTHING else text

    texts = np.empty(len(column), object)
    texts[:] = [one(cell) for cell in column.tolist()]
    return texts


def _parsed(text: np.ndarray, parse: Callable[[str], float]) -> np.ndarray:
    values = np.full(len(text), np.nan)
    for row, cell in enumerate(text):
        if cell is not None:
            try:
                values[row] = parse(cell)
            except ValueError:
                continue
    return values


def _day(cell: str) -> float:
    if len(cell) < 8 or not cell[:4].isdigit():
        raise ValueError(cell)
    moment = datetime.fromisoformat(cell)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / 86_400


def _days(column: np.ndarray) -> np.ndarray:
    return np.where(np.isnat(column), np.nan, column.astype("datetime64[us]").astype(np.int64) / 86_400e6)
