"""Many small real data sets, learned from 3, 5 and 10 points each: our rules beside strong and simple baselines."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from fewstep.reproduce._rows import read_record
from fewstep.reproduce._study import Cell, Options, Runner, Study, option
from fewstep.reproduce.curves import _measure
from fewstep.reproduce.curves._rows import figures, rows, tables
from fewstep.reproduce.curves._sets import entries
from fewstep.runs import Progress

BASELINES = "baselines"


@dataclasses.dataclass(frozen=True)
class CurvesOptions(Options):
    """How much is run: splits of each set, outer steps of our methods."""

    steps: int = option(3000, "Outer steps of our methods.", min=1)
    splits: int = 5

    def size(self) -> str:
        """The size in words."""
        return f"{self.splits} splits by task, {self.steps:,} steps"


class Comparison(NamedTuple):
    """The plan of a cell: a data set in one of its splits, and a method, or all baselines."""

    set: str
    split: int
    method: str
    length: int = 1
    work: int = 1


def cells(options: CurvesOptions) -> list[Cell[Comparison]]:
    """Split by split, every set with every method."""
    labels = {method: label for label, method in _measure.OURS.items()} | {BASELINES: BASELINES}
    return [
        Cell(f"{name}-{split}-{method}", label, {}, Comparison(name, split, method), groups=(name, method))
        for split in range(options.splits) for name in entries() for method, label in labels.items()
    ]  # fmt: skip


def run(cell: Cell[Comparison], path: Path, options: CurvesOptions, progress: Progress) -> dict[str, _measure.Scores]:
    """The scores of each method in the cell, by its label."""
    plan = cell.plan
    progress.begin(0, 1)
    table = _measure.prepared(entries()[plan.set], options.seed + plan.split)
    if plan.method == BASELINES:
        return _measure.measure_baselines(table, options.seed, progress.say)
    return {cell.label: _measure.measure_ours(table, plan.method, options.steps, options.seed)}


def _read(stored: dict[str, Any]) -> dict[str, _measure.Scores]:
    return {
        label: read_record(_measure.Scores, scores)._replace(
            by_shots={shots: read_record(_measure.Score, score) for shots, score in scores["by_shots"].items()}
        )
        for label, scores in stored.items()
    }


STUDY = Study(
    "curves",
    "Many small data sets, learned from a few points each",
    "Each task is learned up to ten times from other points; three seeds of a method answer together.",
    "Baselines are fitted to the same training tasks; what they leave open is chosen on validation tasks.",
    "The root of the mean squared error on held-out tasks, in the unit of the target: all methods are evaluated on the "
    "same rows. ± is the 95% interval over the tasks of all splits.",
    Runner(run, _read), cells, rows, figures, full=CurvesOptions(),
    quick=CurvesOptions(splits=1, steps=200, quick=True), free=("only",), places=("data_dir",), tables=tables,
)  # fmt: skip
