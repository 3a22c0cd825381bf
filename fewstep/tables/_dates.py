"""Dates as they are written: ISO, or day and month in an order that the column itself shows; and parts of a date."""

import re
from datetime import UTC, datetime, time
from typing import Literal

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._frame import Frame

DateOrder = Literal["", "day-first", "month-first"]
DateParts = tuple[str, ...]
PARTS = ("days", "day-of-year", "weekday")  # what of a date may be a feature; `days` are those since 1970
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
YEAR = 365.25
_WRITTEN = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T]+(\d.*))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_FIRST: DateOrder = "day-first"
_MONTH_FIRST: DateOrder = "month-first"


def read_dates(
    frame: Frame, name: str, text: np.ndarray, order: DateOrder = "", *, known: bool = False
) -> tuple[np.ndarray, DateOrder]:
    """Text as days since 1970, NaN where it is no date, and the order of day and month that was found in it.

    `order` is taken where the column does not show it; `known` says that the column is known to hold dates.
    """
    values = np.full(len(text), np.nan)
    matches = {row: match for row, cell in enumerate(text) if cell and (match := _WRITTEN.fullmatch(cell))}
    for row, cell in enumerate(text):
        if cell is not None and row not in matches:
            values[row] = _iso(cell)
    count = sum(cell is not None for cell in text)
    if not matches or len(matches) + np.isfinite(values).sum() < (1 if known else count / 2):
        return values, ""
    found = _order(frame, name, matches, order or frame.date_order, known=known)
    for row, match in matches.items():
        values[row] = _day(match, found)
    return values, found


def days_of(column: np.ndarray) -> np.ndarray:
    """Moments as days since 1970."""
    return np.where(np.isnat(column), np.nan, column.astype("datetime64[us]").astype(np.int64) / 86_400e6)


def day_of_year(days: np.ndarray) -> np.ndarray:
    """The day of the year, from 1 on, of days since 1970; times of day are fractions."""
    whole = np.floor(np.nan_to_num(days)).astype(np.int64).astype("datetime64[D]")
    begin = whole.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return days - begin + 1


def weekday(days: np.ndarray) -> np.ndarray:
    """The name of the day of the week of days since 1970, None where there is none."""
    numbers = (np.floor(np.nan_to_num(days)).astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    names = np.asarray(WEEKDAYS, object)[numbers]
    names[~np.isfinite(days)] = None
    return names


def _iso(cell: str) -> float:
    if len(cell) < 8 or not cell[:4].isdigit():
        return np.nan
    try:
        moment = datetime.fromisoformat(cell)
    except ValueError:
        return np.nan
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds() / 86_400


def _order(frame: Frame, name: str, matches: dict[int, re.Match[str]], given: DateOrder, *, known: bool) -> DateOrder:
    """Whether the day or the month stands first: as a number above 12 shows, else as given; points put the day first.
    Raises `FewstepError` where nothing decides, or where two rows differ."""
    day_first = next((row for row, match in matches.items() if int(match[1]) > 12), None)
    month_first = next((row for row, match in matches.items() if int(match[3]) > 12), None)
    where = lambda row: f"{frame.where(row)} holds {matches[row].string!r} in the column {name!r}"
    if day_first is not None and month_first is not None:
        other = f"{frame.where(month_first)} {matches[month_first].string!r}"
        raise FewstepError(
            f"{where(day_first)}, and {other}: no one order of day and month fits both. Write the dates as 2024-05-31."
        )
    shown: DateOrder = _DAY_FIRST if day_first is not None else _MONTH_FIRST if month_first is not None else ""
    if shown and given and shown != given:
        row = day_first if day_first is not None else month_first
        assert row is not None
        what = "training had" if known else "`date_order` says"
        raise FewstepError(f"{where(row)}, which is {shown}, and {what} {given}. Write the dates as 2024-05-31.")
    if shown or given:
        return shown or given
    if all(match[2] == "." for match in matches.values()):
        return _DAY_FIRST
    row = next(iter(matches))
    day, month, year = int(matches[row][1]), int(matches[row][3]), matches[row][4]
    fix = (
        "Write the dates as 2024-05-31."
        if known else "Say which: `date_order='day-first'` or `date_order='month-first'`."
    )  # fmt: skip
    raise FewstepError(
        f"{where(row)}, which may be {year}-{month:02}-{day:02} (day first) or {year}-{day:02}-{month:02} (month "
        f"first), and no row of the column shows which. {fix}"
    )


def _day(match: re.Match[str], order: DateOrder) -> float:
    first, second, year = int(match[1]), int(match[3]), int(match[4])
    day, month = (first, second) if order == _DAY_FIRST else (second, first)
    try:
        at = time.fromisoformat(match[5].strip()) if match[5] else time()
        moment = datetime.combine(datetime(year, month, day), at)
    except ValueError:
        return np.nan
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH).total_seconds() / 86_400
