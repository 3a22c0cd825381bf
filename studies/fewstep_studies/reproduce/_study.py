"""A study is a published table or figure as a grid of cells, and what is made of what was measured of them."""

import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from markupsafe import Markup

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.problems import option
from fewstep.runs import Progress
from fewstep_studies.reproduce._figure import Figure
from fewstep_studies.reproduce._rows import Cost, Result, Row, Setting
from fewstep_studies.reproduce._speed import Speed


@dataclasses.dataclass(frozen=True)
class Options:
    """What every study takes: fields made by `option`, which users can set; other fields are the study's own."""

    seed: int = option(0, "The first of the seeds.", min=0)
    quick: bool = option(False, "A look in about a minute: a small size, marked as such in every output.")
    only: tuple[str, ...] = option((), "Cells of the grid to take, by the names of their folders or parts of them.")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, low = getattr(self, field.name), field.metadata.get("min")
            if low is not None and value is not None and value < low:
                raise FewstepError(f"`{field.name}` is {value}. It must be at least {low}.")

    def size(self) -> str:
        """The size in words."""
        return f"seed {self.seed}"


@dataclasses.dataclass(frozen=True)
class TrainingOptions(Options):
    """Of studies whose cells are trainings: the paper's size by default."""

    seeds: int = option(5, "Seeds, trained together.", min=1)
    steps: int = option(60_000, "Outer steps of each training.", min=1)
    n_tasks: int = option(600, "Test tasks.", min=2)

    def size(self) -> str:
        """The size in words."""
        return f"{self.length()}, {'one seed' if self.seeds == 1 else f'{self.seeds} seeds'}, {self.n_tasks} test tasks"

    def length(self) -> str:
        """How long each training is, in words."""
        return f"{self.steps:,} steps"

    @property
    def inner_steps(self) -> tuple[int, ...]:
        """The numbers of inner steps to evaluate after."""
        return (0, 1, 10, 100) if self.quick else (0, 1, 2, 3, 5, 10, 20, 30, 50, 100)


@dataclasses.dataclass(frozen=True)
class ImageOptions(TrainingOptions):
    """Of studies of images, which are trained row by row: `budget` in seconds takes the place of `steps`."""

    budget: float | None = option(None, "Train each row for so long, such as 30m or 2h, instead of a number of steps.")
    shots: tuple[int, ...] = option((), "Rows of so many shots.")

    def length(self) -> str:
        """How long each training is, in words."""
        return super().length() if self.budget is None else f"{self.budget / 60:g} minutes per row"


QUICK = TrainingOptions(seeds=1, steps=5000, n_tasks=100, quick=True)


_SIZES = ("steps", "n_tasks", "folds")


@runtime_checkable
class Plan(Protocol):
    """What a cell does; `length` counts the steps of its progress, `work` compares its effort with other cells'."""

    @property
    def length(self) -> int: ...

    @property
    def work(self) -> int: ...


class Texts(NamedTuple):
    """The texts of a study in `studies.toml`; `reading` says how its numbers are to be read."""

    title: str
    protocol: str
    reading: str
    legend: str


@cache
def _all_texts() -> dict[str, Texts]:
    stored = tomllib.loads(files("fewstep_studies.reproduce").joinpath("studies.toml").read_text(encoding="utf-8"))
    return {name: Texts(**texts) for name, texts in stored.items()}


O = TypeVar("O", bound=Options)  # noqa: E741
P = TypeVar("P", bound=Plan)
M = TypeVar("M")


@dataclasses.dataclass(frozen=True)
class Cell(Generic[P]):
    """One entry of a grid: its folder's name, the method as people call it, its setting; `ours` is not in a paper.

    `groups` are what it shares with others, such as a data set and a method: `only` takes these words as well.
    """

    name: str
    label: str
    setting: Setting
    plan: P
    ours: bool = False
    groups: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its label with its setting, and a star if it is ours."""
        setting = (f"{key.replace('_', '-')} {value:g}" for key, value in self.setting.items())
        return ", ".join([self.label, *setting]) + (" *" if self.ours else "")


Pairs = Sequence[tuple[Cell[P], M]]


@dataclasses.dataclass(frozen=True)
class Results(Generic[O, P, M]):
    """What was measured of each cell; `under_way`: of cells that are not finished; `speed`: of all side by side."""

    options: O
    pairs: Sequence[tuple[Cell[P], M]]
    under_way: Sequence[tuple[Cell[P], M]] = ()
    speed: Speed = dataclasses.field(default_factory=dict)

    @property
    def all(self) -> list[tuple[Cell[P], M]]:
        """Finished or not."""
        return [*self.pairs, *self.under_way]


@dataclasses.dataclass(frozen=True)
class Runner(Generic[O, P, M]):
    """How cells of one kind are run.

    `run(cell, path, options, progress)` measures a cell in its folder, or returns nothing if a signal stopped it;
    `read` makes the measurement of its JSON. `so_far(cell, path)` is what is there of one that is not finished.
    `fit(cell, path, options, say)` is the cell as it was begun or as a budget allows; `prepare` comes before all.
    """

    run: Callable[[Cell[P], Path, O, Progress], M | None]
    read: Callable[[JSON], M]
    so_far: Callable[[Cell[P], Path], M | None] = lambda cell, path: None
    fit: Callable[[Cell[P], Path, O, Callable[[str], None]], Cell[P]] = lambda cell, path, options, say: cell
    prepare: Callable[[list[Cell[P]]], None] = lambda cells: None


AnyCell = Cell[Any]  # where cells of several studies meet


class Table(NamedTuple):
    """A table of text; `mark` is its place in the docs, and a `brief` one is printed as well."""

    mark: str
    head: list[str]
    body: list[list[str]]
    title: str = ""
    legend: str = ""
    brief: bool = True


@dataclasses.dataclass(frozen=True)
class Study(Generic[O, P, M]):
    """A published result: `cells(options)` to run, then `rows` for the table and `figures` for the report.

    `full` is the paper's size and `quick` that of a look; a run of fewer steps, test tasks or folds than `paper` says,
    or else `full`, is not compared with the paper, unless the study is `exact`. Options that are `free` may differ from
    run to run in one folder, which then gathers the cells of all; those in `either` may be smaller than in `full` in a
    published result, whose rows say them; `context` is what it is held to beside the options.
    `places` are the options of the command that say where data are. `time` measures the cells side by side, `cost`
    makes a table of it; `tables` replace the table of rows, `pages` stand beside the report, `more` are further keys of
    the result.
    """

    name: str
    runner: Runner[O, P, M]
    cells: Callable[[O], list[Cell[P]]]
    rows: Callable[[Results[O, P, M]], list[Row]]
    figures: Callable[[Results[O, P, M]], list[Figure]]
    full: O
    quick: O
    paper: Mapping[str, int] | None = None
    exact: bool = False
    free: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    context: Callable[[], dict[str, str]] = dict
    places: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    time: Callable[[list[Cell[P]], O, Callable[[str], None]], Speed] | None = None
    cost: Callable[[Results[O, P, M]], list[Cost]] | None = None
    tables: Callable[[Result], list[Table]] | None = None
    pages: Callable[[Results[O, P, M]], dict[str, Markup]] | None = None
    more: Callable[[Results[O, P, M]], Mapping[str, JSON]] | None = None

    @property
    def texts(self) -> Texts:
        """What reports and the command line say of it."""
        return _all_texts()[self.name]

    @property
    def gathers(self) -> bool:
        """Whether its folder gathers cells that were run in several goes."""
        return "only" in self.free

    @property
    def by_row(self) -> bool:
        """Whether each row is trained for as long as is wanted of it."""
        return "steps" in self.free

    def is_full(self, options: O) -> bool:
        """Whether a run of these options is at least as large as the paper's."""
        sizes = {name: getattr(self.full, name, None) for name in _SIZES} if self.paper is None else self.paper
        return not options.quick and all(getattr(options, name) >= size for name, size in sizes.items() if size)

    def describe(self, options: O) -> str:
        """The size of a run in words."""
        kind = "quick run, not the paper's size: " if options.quick else "not the paper's size: "
        return ("" if self.is_full(options) else kind) + options.size()

    def usual(self, options: O) -> O:
        """The options that a run of this kind has unless others are given."""
        return self.quick if options.quick else self.full


AnyStudy = Study[Any, Any, Any]  # studies differ in their options, plans and measurements, and meet in one table
