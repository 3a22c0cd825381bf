"""A study is a published table or figure as a grid of trainings, and what is made of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from fewstep.experiments import Experiment
from fewstep.reproduce._figure import Figure

SHOTS = 10  # of every training here
LEGEND = (
    "± is the 95 % interval over test tasks, each the mean over seeds; std is over seeds. A row meets the paper unless "
    "it is worse by more than the 95 % interval of the difference."
)
INNER = (0, 1, 2, 3, 5, 10, 20, 30, 50, 100)
Row = dict[str, Any]
Judged = dict[str, Any]


class Scale(NamedTuple):
    """How large a study is run: the paper's size by default; `quick` leaves cells out and says so everywhere; `only`
    names the cells to take; `budget` is the time in seconds that each cell is trained for, instead of `steps`; fewer
    steps than `paper_steps`, or test tasks than `paper_tasks`, are not held against the paper."""

    seeds: int = 5
    seed: int = 0
    steps: int = 60_000
    n_tasks: int = 600
    quick: bool = False
    only: tuple[str, ...] = ()
    budget: float | None = None
    shots: tuple[int, ...] = ()
    paper_steps: int = 60_000
    paper_tasks: int = 600

    def describe(self) -> str:
        """The scale in words."""
        seeds = "one seed" if self.seeds == 1 else f"{self.seeds} seeds"
        length = f"{self.steps:,} steps" if self.budget is None else f"{self.budget / 60:g} minutes a row"
        size = f"{length}, {seeds}, {self.n_tasks} test tasks"
        kind = "quick run, not the paper's size: " if self.quick else "" if self.full else "not the paper's size: "
        return kind + size

    @property
    def full(self) -> bool:
        """Whether the trainings and the test are at least as large as the paper's."""
        return not self.quick and self.steps >= self.paper_steps and self.n_tasks >= self.paper_tasks

    @property
    def inner_steps(self) -> tuple[int, ...]:
        """The numbers of inner steps to judge after."""
        return (0, 1, 10, 100) if self.quick else INNER

    def experiment(self, method: str, tasks: str, **options: Any) -> Experiment:
        """An experiment of this scale; validation on 200 tasks draws the training curves."""
        every = max(1, self.steps // 60)
        sizes = {"seeds": self.seeds, "seed": self.seed, "steps": self.steps, "log_every": every, "shots": SHOTS}
        return Experiment(method, tasks, validate_every=every, validation_tasks=200, **(sizes | options))


QUICK = Scale(seeds=1, steps=5000, n_tasks=100, quick=True)


class Cell(NamedTuple):
    """One training of a grid: its folder's name, the method as people call it, its setting; `ours` is not in a paper.

    It is judged after each of `steps` with the shots of its training, and after one step with the other `shots`; a cell
    of images at the ways, shots and queries of each of its `tests`, its rows after `steps_at_test`, the paper's
    number first. `elsewhere` are other tasks that it is tested on too: what differs from its own, by a name;
    `seen_too`: it is judged on the support as well.
    """

    name: str
    label: str
    setting: dict[str, Any]
    experiment: Experiment
    steps: tuple[int, ...]
    shots: tuple[int, ...] = ()
    ours: bool = False
    tests: tuple[tuple[int, int, int], ...] = ()
    elsewhere: tuple[tuple[str, dict[str, Any]], ...] = ()
    seen_too: bool = False
    steps_at_test: tuple[int, ...] = (0,)


class Study(NamedTuple):
    """A published result: `cells(scale)` to train, then `rows` for the table and `figures` for the report.

    `rows(cells, judged)`, `figures(cells, judged, speed)` and `cost(cells, judged, speed)` get the cells and what was
    measured of each, in the same order; `speed` is what was measured of all side by side, for studies with a `cost`.
    `scale` is the paper's size and `quick` that of a look. A study `by_row` takes hours a row: its folder gathers rows
    that were trained in several goes, and its result tells of all that are there. `needs` is what its command
    cannot do without. `pages(cells, judged)` are pages beside the report, by the names of their files.
    """

    name: str
    title: str
    protocol: str
    reading: str
    legend: str
    cells: Callable[[Scale], list[Cell]]
    rows: Callable[[list[Cell], list[Judged]], list[Row]]
    figures: Callable[[list[Cell], list[Judged], Judged], list[Figure]]
    cost: Callable[[list[Cell], list[Judged], Judged], list[Row]] | None = None
    scale: Scale = Scale()
    quick: Scale = QUICK
    by_row: bool = False
    needs: str = ""
    pages: Callable[[list[Cell], list[Judged]], dict[str, str]] | None = None


def name(cell: Cell) -> str:
    """A cell's label with its setting, and a star if it is ours."""
    setting = (f"{key.replace('_', '-')} {value:g}" for key, value in cell.setting.items())
    return ", ".join([cell.label, *setting]) + (" *" if cell.ours else "")
