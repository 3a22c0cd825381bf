"""The cells of one column: numbers, dates or text, as they are written in files and kept in frames."""

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._dates import DateOrder, days_of, read_dates
from fewstep.tables._frame import Frame

Kind = Literal["number", "date", "category"]
_NOTHING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "nat", "<na>"})
TRUTHS = {"false": 0, "true": 1}
_NUMBER_LIKE = re.compile(r"[+-]?\d[\d.,'\u00a0\u202f ]*([eE][+-]?\d+)?")


class Cells(NamedTuple):
    """A column read: numbers with NaN where there is none, or text with None. `date_order` is how dates such as
    31/05/2024 are written in it."""

    kind: Kind
    values: np.ndarray
    date_order: DateOrder = ""

    @property
    def is_category(self) -> bool:
        """Text rather than numbers."""
        return self.kind == "category"

    @property
    def is_date(self) -> bool:
        """Days since 1970."""
        return self.kind == "date"


def read_cells(frame: Frame, name: str, kind: Kind | None = None, date_order: DateOrder = "") -> Cells:
    """The cells of a column, of a given kind or of the one they look like.

    Text that looks like numbers is numbers, dates (2024-05-31, 2024-05-31 12:00, 31/05/2024) are days since 1970, other
    text is categories; and so is what the table declares to be. A column that is mostly numbers or dates but not all is
    refused, with the line. Times with an offset are converted to UTC.
    """
    column = frame.column(name)
    if kind == "category" or (kind is None and name in frame.categories):
        return Cells("category", text_of(column))
    if column.dtype.kind in "fiubMm":
        return _of_kind(frame, name, kind, _refuse_infinite(frame, name, _typed(column)))
    text = text_of(column)
    there = np.flatnonzero([cell is not None for cell in text])
    if kind is not None and not len(there):
        return Cells(kind, np.full(len(text), np.nan))
    numbers = _numbers(frame, name, text)
    if kind == "number":  # as frames have true and false
        numbers = np.asarray([TRUTHS.get(str(cell).lower(), n) for cell, n in zip(text, numbers, strict=True)], float)
    if kind != "date" and not np.isnan(numbers[there]).any():
        _refuse_infinite(frame, name, Cells("number", numbers))
    if kind != "date" and np.isfinite(numbers[there]).all() and len(there):
        return Cells("number", numbers)
    values, looks = numbers, kind or "number"
    if kind in (None, "date"):
        dates, order = read_dates(frame, name, text, date_order, known=kind is not None)
        if np.isfinite(dates[there]).all() and len(there):
            return Cells("date", dates, order)
        if kind == "date" or np.isfinite(dates[there]).sum() > np.isfinite(numbers[there]).sum():
            values, looks = dates, "date"
    read = np.isfinite(values[there]).mean() if len(there) else 0.0
    if kind is None and read < 0.5:
        return Cells("category", text)
    row = int(there[~np.isfinite(values[there])][0]) if len(there) else 0
    raise FewstepError(
        f"{frame.where(row)} holds {text[row]!r} in the column {name!r}, which is not a {looks}; "
        f"{round(read * len(there))} of {len(there)} cells are. Correct it, or leave the cell empty; or, if they are "
        "all categories, say so: `categories` (in a data frame, by the type category)."
    )


def written(cells: Cells) -> np.ndarray:
    """Cells as a column of a table holds them: what `read_cells` reads as just these."""
    if not cells.is_date:
        return cells.values
    there = np.isfinite(cells.values)
    moments = np.round(np.where(there, cells.values, 0.0) * 86_400e6).astype(np.int64).astype("datetime64[us]")
    return np.where(there, moments, np.datetime64("NaT", "us"))


def empty_cells(cells: Cells) -> np.ndarray:
    """Where there is nothing."""
    if cells.values.dtype == object:
        return np.asarray([value is None for value in cells.values], bool)
    return ~np.isfinite(cells.values)


def text_of(column: np.ndarray) -> np.ndarray:
    """Every cell as text, None where there is nothing; whole numbers without a point, as they were written."""

    def one(cell: object) -> str | None:
        if isinstance(cell, float | np.floating) and float(cell).is_integer():
            cell = int(cell)
        text = str(cell).strip()
        return None if text.lower() in _NOTHING else text

    texts = np.empty(len(column), object)
    texts[:] = [one(cell) for cell in column.tolist()]
    return texts


def _numbers(frame: Frame, name: str, text: np.ndarray) -> np.ndarray:
    """Text as numbers, NaN where it is none; with decimal commas only in a file whose cells no comma separates."""
    numbers = _parsed(text, float)
    odd = [row for row, cell in enumerate(text) if cell is not None and np.isnan(numbers[row])]
    if not odd or not any("," in text[row] or "'" in text[row] for row in odd):
        return numbers
    if not all(_NUMBER_LIKE.fullmatch(text[row]) for row in odd):
        return numbers
    points = _parsed(text, lambda cell: float(cell.replace(",", ".")))
    row = odd[0]
    if not np.isnan(points[odd]).any() and frame.decimal_commas:
        mixed = [n for n, cell in enumerate(text) if cell is not None and "." in cell]
        if not mixed:
            return points
        raise FewstepError(
            f"The column {name!r} has numbers with a comma, such as {text[row]!r} ({frame.where(row)}), and with a "
            f"point, such as {text[mixed[0]]!r} ({frame.where(mixed[0])}). Write all with the same decimal sign, and "
            "without a separator of thousands."
        )
    raise FewstepError(
        f"{frame.where(row)} holds {text[row]!r} in the column {name!r}: a decimal comma, or a thousands separator? "
        "Write 3.5 for three and a half and 1234 without a separator (a decimal comma is read in a file whose cells "
        "semicolons or tabs separate); or, if these are categories, say so: `categories`."
    )


def _parsed(text: np.ndarray, parse: Callable[[str], float]) -> np.ndarray:
    values = np.full(len(text), np.nan)
    for row, cell in enumerate(text):
        if cell is not None:
            try:
                values[row] = parse(cell)
            except ValueError:
                continue
    return values


def _typed(column: np.ndarray) -> Cells:
    """A column that is numbers or dates already; lengths of time are days."""
    if column.dtype.kind == "m":
        return Cells("number", np.where(np.isnat(column), np.nan, column / np.timedelta64(1, "D")))
    return Cells("date", days_of(column)) if column.dtype.kind == "M" else Cells("number", column.astype(float))


def _refuse_infinite(frame: Frame, name: str, cells: Cells) -> Cells:
    """The cells, none of which is infinite. Raises `FewstepError` if one is."""
    if len(rows := np.flatnonzero(np.isinf(cells.values))):
        raise FewstepError(
            f"{frame.where(int(rows[0]))} holds {frame.column(name)[rows[0]]} in the column {name!r}, which is "
            f"infinite; {len(rows)} of {frame.rows} rows are. Correct it, or leave the cell empty."
        )
    return cells


def _of_kind(frame: Frame, name: str, kind: Kind | None, cells: Cells) -> Cells:
    """Cells that are of the kind that training had in their column; empty ones are of any."""
    if kind is None or cells.kind == kind:
        return cells
    empty = empty_cells(cells)
    if empty.all():
        return Cells(kind, cells.values)
    row = int(np.flatnonzero(~empty)[0])
    kinds = {"number": "numbers", "date": "dates, such as 2024-05-31"}
    raise FewstepError(
        f"{frame.where(row)} holds {frame.column(name)[row]} in the column {name!r}, a {cells.kind} where training had "
        f"{kinds[kind]}. Give it as the training's table did."
    )
