"""Columns of a table as arrays: numbers, and labels."""

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables import Frame


def to_numbers(frame: Frame, names: list[str]) -> np.ndarray:
    """These columns as numbers, in this order. Raises `FewstepError` for text and empty cells."""
    if missing := [name for name in names if name not in frame.columns]:
        raise FewstepError(
            f"{frame.name} has no column {missing[0]!r}, which the model was fitted with. It has: "
            f"{', '.join(frame.columns)}."
        )
    values = np.stack([_to_floats(frame, name) for name in names], axis=1)
    if (bad := ~np.isfinite(values)).any():
        row, column = np.argwhere(bad)[0].tolist()
        raise FewstepError(
            f"{frame.where(row)} has no finite number in the column {names[column]!r}; {bad.any(1).sum()} of "
            f"{frame.rows} rows lack one. Fill them in, or leave these rows out."
        )
    return values


def to_labels(frame: Frame, name: str) -> np.ndarray:
    """A column as labels: integers if all are written as such, else text: 01 and 1 are two labels."""
    cells = ["" if cell is None else str(cell) for cell in frame.column(name).tolist()]
    if "" in cells:
        raise FewstepError(f"{frame.where(cells.index(''))} has no label in {name!r}. Leave the row out.")
    if all(map(_is_integer, cells)):
        integers = np.asarray([int(cell) for cell in cells])
        return integers if integers.dtype.kind == "i" else np.asarray(cells)  # some may be too long for a number
    return np.asarray(cells)


def _to_floats(frame: Frame, name: str) -> np.ndarray:
    values = np.full(frame.rows, np.nan)
    for row, cell in enumerate(frame.columns[name]):
        try:
            values[row] = np.nan if cell in ("", None) else float(cell)
        except (TypeError, ValueError):
            raise FewstepError(
                f"{frame.where(row)} holds {cell!r} in the column {name!r}, which is not a number. Turn text into "
                "numbers; a column can be left out of fit with `drop`."
            ) from None
    return values


def _is_integer(cell: str) -> bool:
    try:
        return str(int(cell)) == cell
    except ValueError:
        return False
