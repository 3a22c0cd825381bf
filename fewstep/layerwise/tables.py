"""Tables in CSV files: columns of numbers by name, and one of labels."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError, unknown


class Table(NamedTuple):
    """The cells of a table as text, by column."""

    path: Path
    columns: dict[str, list[str]]

    @property
    def rows(self) -> int:
        """How many."""
        return len(next(iter(self.columns.values())))

    def numbers(self, names: list[str]) -> np.ndarray:
        """These columns as numbers, in this order; an empty cell is NaN, and text is refused."""
        if missing := [name for name in names if name not in self.columns]:
            raise FewstepError(
                f"{self.path} has no column {missing[0]!r}, which the model was fitted with. It has: "
                f"{', '.join(self.columns)}."
            )
        return np.stack([self._column(name) for name in names], axis=1)

    def labels(self, name: str) -> np.ndarray:
        """A column as labels: whole numbers if all are, else text."""
        if name not in self.columns:
            raise unknown(f"column of {self.path}", name, self.columns)
        cells = [cell.strip() for cell in self.columns[name]]
        if "" in cells:
            raise FewstepError(
                f"Line {cells.index('') + 2} of {self.path} has no label in {name!r}. Leave the row out."
            )
        try:
            return np.asarray([int(cell) for cell in cells])
        except ValueError:
            return np.asarray(cells)

    def _column(self, name: str) -> np.ndarray:
        made = np.full(self.rows, np.nan)
        for number, cell in enumerate(self.columns[name]):
            try:
                made[number] = float(cell) if cell.strip() else np.nan
            except ValueError:
                raise FewstepError(
                    f"Line {number + 2} of {self.path} holds {cell!r} in the column {name!r}, which is not a number. "
                    f"Turn text into numbers, or leave the column out with --drop {name!r}."
                ) from None
        return made


def read_table(path: Path) -> Table:
    """A CSV file whose first line has the names of the columns."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(cell.strip() for cell in line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise FewstepError(f"Cannot read {path}: {reason}.") from None
    if len(lines) < 2:
        raise FewstepError(f"{path} has {len(lines)} lines. A table needs a line of names and at least one row.")
    names = [cell.strip() for cell in lines[0]]
    if len(set(names)) < len(names) or "" in names:
        raise FewstepError(f"The first line of {path} must name every column, each once. It is: {', '.join(names)}.")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(names):
            raise FewstepError(f"Line {number} of {path} has {len(line)} cells, the first line {len(names)}.")
    return Table(path, {name: list(column) for name, column in zip(names, zip(*lines[1:], strict=True), strict=True)})
