"""Tables in CSV files: columns of numbers by name, and one of labels."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError, unknown


class Table(NamedTuple):
    """The cells of a table as text, by column, and the line of the file that each row is on."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    @property
    def rows(self) -> int:
        """How many."""
        return len(next(iter(self.columns.values())))

    def numbers(self, names: list[str]) -> np.ndarray:
        """These columns as numbers, in this order; text and empty cells are refused."""
        if missing := [name for name in names if name not in self.columns]:
            raise FewstepError(
                f"{self.path} has no column {missing[0]!r}, which the model was fitted with. It has: "
                f"{', '.join(self.columns)}."
            )
        made = np.stack([self._column(name) for name in names], axis=1)
        if (bad := ~np.isfinite(made)).any():
            row, column = np.argwhere(bad)[0]
            raise FewstepError(
                f"Line {self.lines[row]} of {self.path} has no finite number in the column {names[column]!r}; "
                f"{bad.any(1).sum()} of {self.rows} rows lack one. Fill them in, or leave these rows out."
            )
        return made

    def labels(self, name: str) -> np.ndarray:
        """A column as labels: whole numbers if all are written as such, else text: 01 and 1 are two labels."""
        if name not in self.columns:
            raise unknown(f"column of {self.path}", name, self.columns)
        cells = [cell.strip() for cell in self.columns[name]]
        if "" in cells:
            raise FewstepError(
                f"Line {self.lines[cells.index('')]} of {self.path} has no label in {name!r}. Leave the row out."
            )
        return _whole(cells) if all(map(_is_whole, cells)) else np.asarray(cells)

    def _column(self, name: str) -> np.ndarray:
        made = np.full(self.rows, np.nan)
        for number, cell in enumerate(self.columns[name]):
            try:
                made[number] = float(cell) if cell.strip() else np.nan
            except ValueError:
                raise FewstepError(
                    f"Line {self.lines[number]} of {self.path} holds {cell!r} in the column {name!r}, which is not a "
                    "number. Turn text into numbers; a column can be left out of fit with `drop`."
                ) from None
        return made


def _is_whole(cell: str) -> bool:
    try:
        return str(int(cell)) == cell
    except ValueError:
        return False


def _whole(cells: list[str]) -> np.ndarray:
    """As whole numbers, unless one is too long for that."""
    made = np.asarray([int(cell) for cell in cells])
    return made if made.dtype.kind == "i" else np.asarray(cells)


def read_table(path: Path) -> Table:
    """A CSV file whose first line has the names of the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise FewstepError(f"Cannot read {path}: {reason}.") from None
    if len(lines) < 2:
        raise FewstepError(f"{path} has {len(lines)} lines. A table needs a line of names and at least one row.")
    names = [cell.strip() for cell in lines[0][1]]
    if len(set(names)) < len(names) or "" in names:
        raise FewstepError(f"The first line of {path} must name every column, each once. It is: {', '.join(names)}.")
    for number, line in lines[1:]:
        if len(line) != len(names):
            raise FewstepError(f"Line {number} of {path} has {len(line)} cells, the first line {len(names)}.")
    columns = zip(*(line for _, line in lines[1:]), strict=True)
    named = {name: list(column) for name, column in zip(names, columns, strict=True)}
    return Table(path, named, [number for number, _ in lines[1:]])
