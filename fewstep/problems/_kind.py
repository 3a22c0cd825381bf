"""A kind of problem is a value: what its tasks are, and how a user's data become tasks and answers go back."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from markupsafe import Markup

from fewstep._episode import Tasks
from fewstep._learner import Loss
from fewstep._network import Network
from fewstep.files import JSON
from fewstep.problems._base import Base
from fewstep.problems._held_out import Answers
from fewstep.problems._options import Options, Values
from fewstep.problems._rows import ScoreRow
from fewstep.tables import Rows

Cell: TypeAlias = str | int | float | bool | None
Fields: TypeAlias = Mapping[str, JSON]  # of a request
Facts: TypeAlias = dict[str, JSON]
Part = Literal["support", "query"]
Say = Callable[[str], None]


class Problem(NamedTuple):
    """What the tasks of a kind ask for, with all options chosen.

    - `tasks(shots, queries, split="train", ways=None)` is the task distribution in any size;
    - `network(outputs=None, norm=None)` fits the tasks (`outputs=None`: as many as they need, of images its features);
    - `loss` is minimized, `score` is reported in units of `metric`, `validation` is lower for better;
    - `x` is the shape of one row of x, `outputs` the numbers that are predicted for it; with `classes` these are logits
      of the classes, `ways` of them in each task if every task has its own, else those that `labels` names;
    - `norms` are the statistics to evaluate by, those of the training first;
    - `splits` says that training, validation and test tasks are made of different data, and `held_out(split)` are the
      tasks of a split where they are a list, and not drawn anew;
    - `with_validation()` is the same problem, trained on the validation tasks too, and `whole(rows)` are training tasks
      with all their rows, at most so many;
    - `base` is a prediction from each row alone that learners stand on;
    - `scale` is the unit of y, or 1 where it has several `targets`, each with its unit; `digits` after the point are
      worth showing, `samples` of a random mask answer together;
    - `labeled()` are features of all training rows and the numbers of their classes, where these are good before any
      training;
    - `rejects` says that a query may be of none of a task's classes;
    - `ends` are the smallest and the largest value of a number of x, where it has such;
    - `details` are the kind's own.
    """

    tasks: Callable[..., Tasks]
    network: Callable[..., Network]
    loss: Loss
    score: Loss
    metric: str
    validation: Loss
    x: tuple[int, ...]
    outputs: int
    classes: bool = False
    labels: tuple[str, ...] = ()
    ways: int | None = None
    norms: tuple[str | None, ...] = (None,)
    splits: bool = False
    held_out: Callable[[str], Rows] | None = None
    with_validation: Callable[[], "Problem"] | None = None
    whole: Callable[[int], Tasks] | None = None
    base: Base | None = None
    scale: float = 1.0
    targets: Mapping[str, float] = {}
    digits: int | None = None
    samples: int = 1
    labeled: Callable[[], tuple[np.ndarray, np.ndarray]] | None = None
    rejects: bool = False
    ends: tuple[float, float] | None = None
    all_classes: Callable[[], Tasks] | None = None
    n_classes: Callable[[], int] = lambda: 0
    details: Options = None

    @property
    def support_norm(self) -> str | None:
        """The statistics that let each query be answered for itself: those of the support, where there is a choice."""
        return "support" if "support" in self.norms else None


class Given(NamedTuple):
    """A support or query set as a user gave it: rows as the network takes them, and what belongs to them.

    `labels` are the names of a support's classes; `rows` are the columns that go back with the answer; `tasks` names
    the task of each row where there are several; `distance` is how far each lies outside of what training had, and
    `notes` says so in words. Rows that are `ignored` are not learned from.
    """

    x: np.ndarray
    y: np.ndarray
    labels: tuple[str, ...] = ()
    rows: dict[str, Sequence[Cell]] = {}  # noqa: RUF012
    tasks: np.ndarray | None = None
    distance: np.ndarray = np.zeros(0)
    notes: tuple[str, ...] = ()
    ignored: np.ndarray = np.zeros(0, bool)

    @property
    def learned(self) -> "Given":
        """The rows of a support that are learned from."""
        return self.only(np.flatnonzero(~self.ignored)) if self.ignored.any() else self

    def only(self, which: np.ndarray) -> "Given":
        """Some of the rows."""
        cells: dict[str, Sequence[Cell]] = {name: [column[n] for n in which] for name, column in self.rows.items()}
        part = lambda array: array[which] if len(array) else array
        return self._replace(
            x=self.x[which], y=part(self.y), rows=cells, tasks=None, distance=part(self.distance),
            ignored=part(self.ignored),
        )  # fmt: skip


class Answer(NamedTuple):
    """What a model answers at some rows: the mean of its members, an interval, and their standard deviation.

    The interval is calibrated if the model is, and else the smallest and the largest member; or, if it is `predictive`,
    that of a normal distribution with the standard deviation that the model reports itself. `fit` is how well each row
    fits the best of the classes, where a model can tell that it fits none.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray
    calibrated: bool = False
    fit: np.ndarray = np.zeros(0)
    predictive: bool = False


class Written(NamedTuple):
    """An answer in the user's units and names: as columns of a table, and as arrays by name where these differ."""

    columns: dict[str, Sequence[Cell]]
    arrays: dict[str, JSON] = {}  # noqa: RUF012


class Sketch(NamedTuple):
    """What a kind draws with: `answer(support, x, steps)` of a model, for the picture of a task in a report."""

    name: str
    color: str
    answer: Callable[..., Answer]
    shots: int
    steps: int


class Plan(NamedTuple):
    """How a trained model is evaluated: on which tasks, and how many of them. `None` stands for the kind's own."""

    shots: tuple[int, ...]
    n_tasks: int | None = None
    queries: int | None = None
    ways: int | None = None
    split: str = "test"
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of problem. Only `name` and `problem` are needed; the rest serves rows of numbers as it is.

    - `tasks` are the names it answers to; one that ends in a colon, such as `table:`, is followed by a path;
    - `options(tasks)` is the frozen dataclass of its own options, `network(tasks)` that of its network's;
    - `defaults(tasks, method, given)` are defaults of other options that differ for it, such as the number of steps;
    - `problem(tasks, options, network)` makes the `Problem` of chosen options;
    - `pin(tasks, options, begun)` adds to the options what the data say, as the run that was `begun` has it;
    - `note(problem)` is what a user should know of the data before a training;
    - `read(problem, source, part)` makes a `Given` of a user's file or folder, or of the fields of a request;
    - `write(problem, query, answer)` gives an answer in the user's units and names, `units(problem, y)` only numbers;
    - `baselines(problem, plan, say)` are the scores of simple methods on the same tasks;
    - `pooled(problem, plan)` are the answers on held-out tasks, by the number of shots, of a model that does not learn
      from a task: what learning is compared with;
    - `draw(problem, sketches)` gives the parts of a report that show tasks and answers;
    - `example(problem, max_shots)` gives a function of a seed and a number of shots that draws a task as a client would
      send it: `{"support": fields}`, and a "query" or a "curve" beside it;
    - `features` says that its network gives features where no number of outputs is asked for;
    - `heavy` says that one task fills a processor's cache, so that tasks are taken one after the other;
    - `prepare(problem)` readies what reading a request takes, such as an encoder; where it is given, reading takes a
      while, and a service does it on a thread of its own;
    - `describe(problem)` are facts that clients and exported models need;
    - `strictness(problem, unknown)` is the problem that refuses categories which training never saw ("refuse"), or
      takes them as none of the known ("allow");
    - `members` are the methods of which `auto` keeps the best, where tasks are drawn anew; where they are a list, it
      mixes the answers of its own;
    - `encoded(encoder)` is the kind of the same tasks behind a pretrained encoder by name, which the option `encoder`
      asks for; "" where it was not given.
    """

    name: str
    tasks: tuple[str, ...]
    problem: Callable[[str, Options, Options], Problem]
    options: Callable[[str], type]
    network: Callable[[str], type]
    defaults: Callable[[str, str, Values], Values]
    read: Callable[[Problem, "Path | Fields", Part], Given]
    write: Callable[[Problem, Given, Answer], Written]
    draw: Callable[[Problem, list[Sketch]], list[Markup]]
    features: bool = False
    heavy: bool = False
    prepare: Callable[[Problem], None] | None = None
    pin: Callable[[str, Options, Options], Options] = lambda tasks, options, begun: options
    note: Callable[[Problem], str] = lambda problem: ""
    units: Callable[[Problem, np.ndarray], np.ndarray] = lambda problem, y: y
    baselines: Callable[[Problem, Plan, Say], dict[str, list[ScoreRow]]] | None = None
    pooled: Callable[[Problem, Plan], dict[int, Answers]] | None = None
    example: Callable[[Problem, int], Callable[[int, int], Facts]] | None = None
    describe: Callable[[Problem], Facts] = lambda problem: {}
    strictness: Callable[[Problem, Literal["refuse", "allow"]], Problem] | None = None
    members: tuple[str, ...] = ()
    encoded: Callable[[str], "Kind"] | None = None

    def behind(self, encoder: str) -> "Kind":
        """The kind behind an encoder by name; itself where there is none."""
        return self if self.encoded is None else self.encoded(encoder)
