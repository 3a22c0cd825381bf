"""A study is a published table or figure as a grid of cells, and what is made of what was measured of them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from fewstep.reproduce._figure import Figure
from fewstep.reproduce._options import Options
from fewstep.reproduce._rows import Cost, Result, Row, Setting
from fewstep.reproduce._speed import Speed
from fewstep.runs import Progress

LEGEND = (
    "± is the 95% interval over test tasks, each the mean over seeds; std is over seeds. A row meets the paper unless "
    "it is worse by more than the 95% interval of the difference."
)


@runtime_checkable
class Plan(Protocol):
    """What a cell does; `length` counts the steps of its progress, `work` compares its effort with other cells'."""

    @property
    def length(self) -> int: ...

    @property
    def work(self) -> int: ...


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
    read: Callable[[Any], M]
    so_far: Callable[[Cell[P], Path], M | None] = lambda cell, path: None
    fit: Callable[[Cell[P], Path, O, Callable[[str], None]], Cell[P]] = lambda cell, path, options, say: cell
    prepare: Callable[[list[Cell[P]]], None] = lambda cells: None


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

    `full` is the paper's size and `quick` that of a look; fewer of something than `paper` says is not compared with the
    paper, unless the study is `exact`. Options that are `free` may differ from run to run in one folder, which
    then gathers the cells of all; `context` is what such a folder is held to beside the options. `places` are the
    options of the command that say where data are. `time` measures the cells side by side, `cost` makes a table of it;
    `tables` replace the table of rows, `pages` stand beside the report and `more` are further keys of the result.
    """

    name: str
    title: str
    protocol: str
    reading: str
    legend: str
    runner: Runner[O, P, M]
    cells: Callable[[O], list[Cell[P]]]
    rows: Callable[[Results[O, P, M]], list[Row]]
    figures: Callable[[Results[O, P, M]], list[Figure]]
    full: O
    quick: O
    paper: Mapping[str, int] = dataclasses.field(default_factory=dict)
    exact: bool = False
    free: tuple[str, ...] = ()
    context: Callable[[], dict[str, str]] = dict
    places: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    time: Callable[[list[Cell[P]], O, Callable[[str], None]], Speed] | None = None
    cost: Callable[[Results[O, P, M]], list[Cost]] | None = None
    tables: Callable[[Result], list[Table]] | None = None
    pages: Callable[[Results[O, P, M]], dict[str, str]] | None = None
    more: Callable[[Results[O, P, M]], dict[str, Any]] | None = None

    @property
    def gathers(self) -> bool:
        """Whether its folder gathers cells that were run in several goes."""
        return "only" in self.free

    def is_full(self, options: O) -> bool:
        """Whether a run of these options is at least as large as the paper's."""
        return not options.quick and all(getattr(options, name) >= size for name, size in self.paper.items())

    def describe(self, options: O) -> str:
        """The size of a run in words."""
        kind = "quick run, not the paper's size: " if options.quick else "not the paper's size: "
        return ("" if self.is_full(options) else kind) + options.size()

    def usual(self, options: O) -> O:
        """The options that a run of this kind has unless others are given."""
        return self.quick if options.quick else self.full
