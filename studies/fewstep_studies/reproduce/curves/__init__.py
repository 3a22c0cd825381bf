"""Many small real data sets, learned from 3, 5 and 10 points each: our rules beside strong and simple baselines."""

import dataclasses
from functools import partial
from pathlib import Path

from fewstep.problems import option
from fewstep.runs import Progress
from fewstep_studies.reproduce._rows import read_record
from fewstep_studies.reproduce._study import Cell, Options, Runner, Study
from fewstep_studies.reproduce.curves import _measure
from fewstep_studies.reproduce.curves._measure import Comparison, Scores
from fewstep_studies.reproduce.curves._rows import figures, rows, tables
from fewstep_studies.reproduce.curves._sets import entries

BASELINES = "baselines"


@dataclasses.dataclass(frozen=True)
class CurvesOptions(Options):
    """How much is run: splits of each set, outer steps of our methods."""

    steps: int = option(3000, "Outer steps of our methods.", min=1)
    splits: int = 5

    def size(self) -> str:
        """The size in words."""
        return f"{self.splits} splits by task, {self.steps:,} steps"


def cells(options: CurvesOptions) -> list[Cell[Comparison]]:
    """Split by split, every set with every method."""
    labels = {method: label for label, method in _measure.OURS.items()} | {BASELINES: BASELINES}
    return [
        Cell(f"{name}-{split}-{method}", label, {}, Comparison(name, split, method), groups=(name, method))
        for split in range(options.splits) for name in entries() for method, label in labels.items()
    ]  # fmt: skip


def run(cell: Cell[Comparison], path: Path, options: CurvesOptions, progress: Progress) -> dict[str, Scores]:
    """The scores of each method in the cell, by its label."""
    plan = cell.plan
    progress.begin(0, 1)
    table = _measure.prepared(entries()[plan.set], options.seed + plan.split)
    if plan.method == BASELINES:
        return _measure.measure_baselines(table, options.seed, progress.say)
    return {cell.label: _measure.measure_ours(table, plan.method, options.steps, options.seed)}


STUDY = Study(
    "curves", Runner(run, partial(read_record, dict[str, Scores])), cells, rows, figures, full=CurvesOptions(),
    quick=CurvesOptions(splits=1, steps=200, quick=True), free=("only",), places=("data_dir",), tables=tables,
)  # fmt: skip
