"""The log of a training, metrics.csv: one line per seed and `log_every` steps."""

import csv
import io
from collections.abc import Iterable, Sequence

from fewstep.models import LogLine
from fewstep.training import Row

NAME = "metrics.csv"
Line = list[str]
_COLUMNS = ("step", "seed", "loss", "gradient_norm", "validation")


def to_lines(rows: Iterable[Row], seeds: Sequence[int]) -> list[Line]:
    """Rows as lines, one per seed."""
    scores = lambda row, n: "" if row.validation is None else str(row.validation[n])
    return [
        [*map(str, (row.step, seed, row.loss[n], row.gradient_norm[n])), scores(row, n)]
        for row in rows
        for n, seed in enumerate(seeds)
    ]


def to_csv(lines: Iterable[Line], *, head: bool = True) -> str:
    """Lines as a file, or as what is added to one."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([*([_COLUMNS] if head else []), *lines])
    return text.getvalue()


def from_csv(text: str) -> list[Line]:
    """The lines of a file; a last one that was not written whole is left out."""
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    return [row for row in rows if len(row) == len(_COLUMNS) and row[0].isdigit()]


def to_numbers(lines: Iterable[Line]) -> list[LogLine]:
    """Lines as numbers."""
    return [
        LogLine(int(step), int(seed), float(loss), float(norm), float(score) if score else None)
        for step, seed, loss, norm, score in lines
    ]
