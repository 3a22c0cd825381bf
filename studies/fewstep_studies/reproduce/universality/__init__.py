"""The universality of one gradient step, built, measured and drawn, as one command.

Reference: Finn & Levine, Meta-Learning and Universality: Deep Representations and Gradient Descent can Approximate any
Learning Algorithm, ICLR 2018.
"""

import dataclasses
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax

from fewstep.problems import option
from fewstep.runs import Progress
from fewstep.universality.construct import construct
from fewstep.universality.plan import Plan
from fewstep.universality.targets import EXAMPLES, TARGETS, target_of
from fewstep_studies.reproduce._rows import Result, Row, read_record
from fewstep_studies.reproduce._study import Cell, Options, Results, Runner, Study, Table
from fewstep_studies.reproduce.universality import _figures, _measure
from fewstep_studies.reproduce.universality._measure import Measurement

LOSSES = "losses"


@dataclasses.dataclass(frozen=True)
class UniversalityOptions(Options):
    """What is built: the targets, and the bins of x and of x*."""

    bins: int = option(8, "Bins of x and of x*.", min=1)
    examples: int | None = option(None, "Examples that the step sees (default: 1; nearest-neighbor 2).", min=1)
    target: tuple[str, ...] = option(
        tuple(TARGETS),
        "Learners to express, or FILE.py:FUNCTION of yours, called as function(x, y, x_star) with x of shape "
        "(examples, 1), y (examples, 1) and x_star (1,), all from -1 to 1.",
    )

    def series(self, examples: int) -> tuple[int, ...]:
        """Numbers of bins to compare: up to twice `bins`, with several examples up to `bins`; each example has a bin
        of its own."""
        most = (1 if self.quick or examples > 1 else 2) * self.bins
        return tuple(sorted({self.bins, *(count for count in (2, 4, 8, 16, 32) if examples <= count <= most)}))

    def size(self) -> str:
        """The size in words."""
        examples = f", {self.examples} examples" if self.examples else ""
        return f"{self.bins} bins of x and of x*, {self.bins**2 + 2:,} layers{examples}"


class Construct(NamedTuple):
    """The plan of a cell: a construction that is to be a target, or the check of losses. The layers do not depend on
    the target, so what is measured of them with ReLUs is done once, and so is the training of a read-out."""

    target: str
    plan: Plan
    relu: bool = False
    readout: bool = False
    length: int = 1
    work: int = 1


def cells(options: UniversalityOptions) -> list[Cell[Construct]]:
    """One per target, and one for the losses."""
    grid = []
    for name in options.target:
        target_of(name)  # refuses what is unknown before anything is built
        plan = Plan(bins=options.bins, examples=EXAMPLES.get(name, 1) if options.examples is None else options.examples)
        last = name == options.target[-1] and not options.quick
        grid.append(Cell(name, name, {}, Construct(name, plan, name == options.target[0], last)))
    return [*grid, Cell(LOSSES, LOSSES, {}, Construct("", Plan(bins=options.bins)))]


def run(cell: Cell[Construct], path: Path, options: UniversalityOptions, progress: Progress) -> Measurement:
    """What is measured of a cell, in double precision."""
    name, plan = cell.plan.target, cell.plan.plan
    progress.begin(0, 1)
    with jax.enable_x64(True):
        if cell.name == LOSSES:
            return Measurement(_measure.loss_rows())
        target = target_of(name)
        built = construct(target, plan, seed=options.seed)
        rows = [*_measure.layers_rows(name, built), *_measure.step_rows(name, target, plan, built, quick=options.quick)]
        rows += _measure.relu_rows(name, target, plan, built) if cell.plan.relu else []
        rows += _measure.bins_rows(name, target, plan, options.series(plan.examples), smooth=name == "ridge")
        rows += [_measure.perceptron_row(name, target, plan)] if cell.plan.readout else []
        return Measurement(rows, _figures.pictures(target, built))


def rows(results: Results[UniversalityOptions, Construct, Measurement]) -> list[Row]:
    """The rows of all cells."""
    return [row for _, measurement in results.pairs for row in measurement.rows]


def figures(results: Results[UniversalityOptions, Construct, Measurement]) -> list[_figures.Figure]:
    """Each target beside what the step makes of it, the error against bins, and a small construction inside."""
    built = [(cell.plan, measurement) for cell, measurement in results.pairs if measurement.pictures]
    plots = [_figures.side_by_side(plan.target, plan.plan, measurement.pictures) for plan, measurement in built]
    if built:
        small = min((plan for plan, _ in built), key=lambda plan: plan.plan.examples)
        with jax.enable_x64(True):
            plots.append(_figures.information(target_of(small.target), small.plan))
        plots.append(_figures.against_bins(rows(results)))
    return plots


def tables(result: Result) -> list[Table]:
    """What the proof says, and what was measured."""
    head = ["target", "what", "measured", "the proof says", ""]
    body = [[row.method, row.metric, f"{row.mean:.3g}", str(row.published), row.verdict] for row in result.rows]
    return [Table("universality", head, body, "What the proof says, and what was measured")]


STUDY = Study(
    "universality", Runner(run, partial(read_record, Measurement)), cells, rows, figures, full=UniversalityOptions(),
    quick=UniversalityOptions(bins=4, quick=True), exact=True, tables=tables,
)  # fmt: skip
