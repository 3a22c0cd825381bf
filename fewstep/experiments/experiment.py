"""An experiment: everything that decides what a training does, in one flat place; the command line is made of it."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.learners import FITTING, LEARNERS, OF_CLASSES, PROCESSES
from fewstep.rules import RULES
from fewstep.tasks import IMAGES, TASKS

Pair = tuple[float, float]
_METHODS = (
    f"A rule ({', '.join(RULES)}), a chain of links such as mtnet+rates or metric+mask+rates, "
    f"an alias (fomaml, reptile), or a learner without inner gradient: {', '.join(LEARNERS)}."
)
NO_HINT = tyro.conf.arg(help_behavior_hint="")  # the help text says itself what leaving it out means
_TASKS = (
    f"One of {', '.join(TASKS)}, {', '.join(IMAGES)}; folder:PATH for a folder or zip with a folder a class; or "
    "table:PATH for a CSV or Parquet file of many small data sets."
)
AUTO = -(1 << 62)  # a size that was not given, and that nobody would give: the tasks say which it is
_SIZES = {"seeds": 1, "steps": 60_000, "meta_batch": 4, "shots": 10, "queries": 10, "validation_tasks": 100}
_IMAGE_SIZES = _SIZES | {"steps": 40_000, "meta_batch": 16, "shots": 1, "queries": 5, "validation_tasks": 200}
_TABLE_SIZES = _SIZES | {"seeds": 3, "steps": 3000, "meta_batch": 8, "shots": 5, "queries": 20, "validation_tasks": 200}
_OMNIGLOT_SIZES = _IMAGE_SIZES | {"meta_batch": 32, "queries": 1}


_checked = ContextVar("checked", default=True)


@contextmanager
def unchecked() -> Iterator[None]:
    """Experiments are made as they are told: while a command line is read, whose reader would wrap what is refused."""
    token = _checked.set(False)
    try:
        yield
    finally:
        _checked.reset(token)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What to train, on what, and how. Stored with every run."""

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD", help=_METHODS)]
    """A rule, a chain such as mtnet+rates, an alias, or a learner."""
    tasks: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASKS", help=_TASKS)]
    """The name of the tasks, or where their images are."""

    seed: int = 0
    """Seed of the first weights, the tasks and the masks."""
    seeds: Annotated[int, NO_HINT] = AUTO
    """How many seeds to train together: SEED, SEED + 1, ... (default: 1; tables: 3, which answer together)."""
    steps: Annotated[int, NO_HINT] = AUTO
    """Outer steps in all (default: 60000; images: 40000; tables: 3000, gaussian and mixed 1500). Raise it to train a
    finished run further, if its schedule is constant."""
    meta_batch: Annotated[int, NO_HINT] = AUTO
    """Tasks in each outer step (default: 4; images: 16; omniglot: 32; tables: 8, gaussian and mixed
    16; prototypes and their like: 2)."""

    shots: Annotated[int, NO_HINT] = AUTO
    """Points of a task that are learned from, images a class (default: 10; images: 1; tables: 5)."""
    least_shots: Annotated[int | None, NO_HINT] = None
    """Draw in training how many rows of a table are learned from, between this and --shots (default: always as many
    as --shots)."""
    queries: Annotated[int, NO_HINT] = AUTO
    """Points of a task that judge what was learned, images a class (default: 10; images: 5; omniglot: 1;
    tables: 20)."""
    hidden: Annotated[tuple[int, ...] | None, NO_HINT] = None
    """Widths of the perceptron's hidden layers (default: 40 40; tables: 64 64)."""
    network: Annotated[str | None, NO_HINT] = None
    """A network of yours instead, FILE.py:FUNCTION, called as function(x, outputs) with some rows of x; it returns what
    fewstep.network or one of fewstep.interop makes of a model."""
    loss: Annotated[str | None, NO_HINT] = None
    """What is minimized: squared_error, absolute_error, huber or cross_entropy, or FILE.py:FUNCTION of yours, called as
    function(prediction, batch) (default: squared_error; classes: cross_entropy)."""
    bias_inputs: Annotated[int | None, NO_HINT] = None
    """Learned numbers that the perceptron gets beside its input, adapted like its weights (default: 0)."""

    inner_steps: Annotated[int | None, NO_HINT] = None
    """Gradient steps on each task in training (default: 1; reptile and tables: 5)."""
    inner_lr: Annotated[float | None, NO_HINT] = None
    """Step size on a task, or where learned rates begin (default: 0.01; meta_sgd: drawn from 0.005 to 0.1; tables:
    0.03; images: 0.4; omniglot: 2). On images it is a step on the mean cross entropy; papers that sum over classes
    print lr / ways."""
    inner_optimizer: Annotated[Literal["sgd", "adam"] | None, NO_HINT] = None
    """Optimizer on a task (default: sgd; reptile: adam without momentum, as in its paper)."""
    inner_clip: Annotated[float | None, NO_HINT] = None
    """Clip the gradient on a task to this norm (default: not at all; tables: 5)."""
    temperature: Annotated[float | None, NO_HINT] = None
    """Temperature of the masks' relaxation (default: 1)."""
    draw: Annotated[Literal["sample", "expected", "threshold"] | None, NO_HINT] = None
    """How masks come from their probabilities (default: sample)."""

    outer: Annotated[Literal["unrolled", "first_order", "reptile"] | None, NO_HINT] = None
    """How the outer gradient is taken (default: unrolled; fomaml and reptile say themselves)."""
    minibatch: Annotated[int | None, NO_HINT] = None
    """Points of each inner step of reptile (default: 10)."""
    outer_optimizer: Annotated[Literal["adam", "sgd"] | None, NO_HINT] = None
    """Outer optimizer (default: adam; reptile: sgd)."""
    outer_lr: Annotated[float | None, NO_HINT] = None
    """Outer step size (default: 0.001; images: 0.002; gaussian and mixed on tables: 0.01; reptile: 1)."""
    schedule: Annotated[Literal["constant", "linear", "cosine"] | None, NO_HINT] = None
    """How the outer step size falls to 0 over all steps (default: constant; images and tables: cosine; reptile:
    linear)."""
    clip_value: Annotated[float | None, NO_HINT] = None
    """Clip each entry of the outer gradient to this size."""
    clip_norm: Annotated[float | None, NO_HINT] = None
    """Clip the outer gradient to this norm (default: not at all; tables: 10)."""
    remat: bool = False
    """Compute inner steps again on the way back: each then costs memory for the adapted weights only."""
    devices: Annotated[int | None, NO_HINT] = None
    """Devices to spread tasks over (default: chosen by the size of a task)."""
    chunk: Annotated[int | None, NO_HINT] = None
    """Tasks a device takes at once (default: chosen by the size of a task)."""

    log_every: int = 100
    """Steps between rows of metrics.csv; each row is the mean over them."""
    validate_every: int = 1000
    """Steps between validations on a fixed set of tasks; the best parameters are kept beside the last."""
    validation_tasks: Annotated[int, NO_HINT] = AUTO
    """Tasks in that set (default: 100; images and tables: 200)."""
    validation_ways: Annotated[int | None, NO_HINT] = None
    """Classes of a task of images in that set (default: as in training)."""
    patience: Annotated[int | None, NO_HINT] = None
    """Stop after this many validations without a better score."""

    amplitude: Annotated[Pair | None, NO_HINT] = None
    """Range of a sine wave's amplitude (default: 0.1 5)."""
    frequency: Annotated[Pair | None, NO_HINT] = None
    """Range of a sine wave's frequency (default: 0.8 1.2)."""
    phase: Annotated[Pair | None, NO_HINT] = None
    """Range of a sine wave's phase (default: 0 pi)."""
    x_range: Annotated[Pair | None, NO_HINT] = None
    """Range of x (default: -5 5 for sinusoid, -2 2 for polynomial)."""
    order: Annotated[int | None, NO_HINT] = None
    """Order of a polynomial (default: 2)."""
    coefficient: Annotated[Pair | None, NO_HINT] = None
    """Range of a polynomial's coefficients (default: -1 1)."""
    divisor: Annotated[float | None, NO_HINT] = None
    """What a polynomial's x is divided by (default: 2)."""
    conditioned: bool = False
    """Tell the network which curve it is: what was drawn for it stands beside x. With --inner-steps 0, a network that
    needs not learn the task."""

    task: Annotated[str | None, NO_HINT] = None
    """Column of a table that names the task a row belongs to: the child, the station, the shop."""
    x: Annotated[tuple[str, ...] | None, NO_HINT] = None
    """Columns of a table to predict from: numbers, ISO dates (as days), or text (as categories)."""
    y: Annotated[str | None, NO_HINT] = None
    """Column of a table to predict: numbers, or text for classes."""
    categories: Annotated[tuple[str, ...] | None, NO_HINT] = None
    """Columns of --x that are categories though they look like numbers, such as codes and grades (default: none)."""
    classify: bool = False
    """Take a target of numbers as classes."""
    missing: Annotated[Literal["refuse", "mean"] | None, NO_HINT] = None
    """What to do about empty cells: refuse them (default), or take the mean of the training tasks for a feature, and
    leave rows without a target out."""
    outliers: Annotated[Literal["drop", "clip", "keep"] | None, NO_HINT] = None
    """What to do about values that cannot be measurements, such as 9999 for a missing one: leave their rows out
    (drop, the default), take the nearest other value (clip), or nothing (keep). The first two are reported."""

    ways: Annotated[int | None, NO_HINT] = None
    """Classes of a task of images (default: 5)."""
    image_size: Annotated[int | None, NO_HINT] = None
    """Height and width that images are brought to (default: omniglot 28; cifar-fs, fc100, folders 32; others 84)."""
    color: Annotated[Literal["gray", "rgb"] | None, NO_HINT] = None
    """Channels of the images of a folder (default: rgb)."""
    skip_bad: bool = False
    """Leave out images of a folder that are damaged, and list them, instead of stopping at the first."""
    rotate: Annotated[Literal["none", "episode", "classes"] | None, NO_HINT] = None
    """Turn images by 90 degrees: a rotation drawn for each class of a task, or four classes made of each (default:
    none; omniglot: episode)."""
    shear: Annotated[float | None, NO_HINT] = None
    """Shear images: 1 moves the upper edge by half a height (default: not at all)."""
    zoom: Annotated[float | None, NO_HINT] = None
    """Scale what is in the images: below 1 it is smaller (default: not at all)."""
    split: Annotated[str | None, NO_HINT] = None
    """Which of the named splits into training, validation and test classes (default for omniglot: vinyals)."""
    split_seed: Annotated[int | None, NO_HINT] = None
    """Seed of the split of a folder's classes, 64 : 16 : 20 of a hundred, or of a table's tasks, 65 : 15 : 20
    (default: 0)."""
    filters: Annotated[int | None, NO_HINT] = None
    """Filters of each of the convolutions (default: 64)."""
    blocks: Annotated[int | None, NO_HINT] = None
    """Blocks of the network, each halving the image (default: 4)."""
    down: Annotated[Literal["stride", "pool"] | None, NO_HINT] = None
    """How a block halves the image (default: omniglot stride; others pool)."""
    head: Annotated[Literal["average", "flatten"] | None, NO_HINT] = None
    """What the linear layer sees: the mean of the last map, or all of it (default: flatten; omniglot: average)."""
    norm: Annotated[Literal["transductive", "support", "layer", "group"] | None, NO_HINT] = None
    """Whose statistics normalize: each batch's own, so the query set's too (transductive, the default, as in the
    papers); the support set's; or each image's, over all units or in groups."""
    norm_scale: bool = False
    """Learn a scale beside the shift of each normalization."""
    adapt_norm: bool = False
    """Adapt shift and scale of the normalizations to a task too; else they are meta-learned only."""
    start: Annotated[Literal["he", "paper"] | None, NO_HINT] = None
    """First weights: as of He, or as in the MT-net code, which is small (default: paper; tables: he; images: he, with a
    small last layer)."""
    full_context: bool = False
    """Full-context embeddings in matching networks."""
    classes: Annotated[dict[str, tuple[str, ...]] | None, tyro.conf.Suppress] = None
    """The classes of a folder, or the tasks of a table, in training, validation and test: drawn when the run is made,
    and kept with it."""
    schema: Annotated[dict[str, Any] | None, tyro.conf.Suppress] = None
    """The columns of a table as the training tasks have them: kinds, categories, scales."""
    source: Annotated[dict[str, Any] | None, tyro.conf.Suppress] = None
    """The table when the run was made: where it was, its rows, and a digest of them."""

    def __post_init__(self) -> None:
        for name, size in self._sizes().items():
            if getattr(self, name) == AUTO:
                object.__setattr__(self, name, size)
        if _checked.get():
            self.check()

    def check(self) -> None:
        """Raises `FewstepError` for a number that is out of its range."""
        least = {
            "seed": 0, "seeds": 1, "steps": 0, "meta_batch": 1, "shots": 1, "queries": 1, "inner_steps": 0,
            "minibatch": 1, "devices": 1, "chunk": 1, "log_every": 1, "validate_every": 1, "validation_tasks": 2,
            "patience": 1, "order": 0, "bias_inputs": 0, "least_shots": 1,
            "ways": 2, "validation_ways": 2, "image_size": 1, "split_seed": 0, "filters": 1,
            "blocks": 1,
        }  # fmt: skip
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise FewstepError(f"{option(name)} is {value}. It must be at least {low}.")
        for name in ("inner_lr", "inner_clip", "outer_lr", "temperature", "clip_value", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise FewstepError(f"{option(name)} is {value}. It must be finite and not negative, such as 0.01.")
        if self.hidden and min(self.hidden) < 1:
            raise FewstepError(f"`hidden` is {self.hidden}. A layer needs at least 1 unit.")

    @property
    def has_images(self) -> bool:
        """Whether its tasks are images."""
        return self.tasks in IMAGES or self.tasks.startswith("folder:")

    @property
    def has_table(self) -> bool:
        """Whether its tasks are those of a table."""
        return self.tasks.startswith("table:")

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the perceptron's hidden layers."""
        return self.hidden or ((64, 64) if self.has_table else (40, 40))

    def _sizes(self) -> dict[str, int]:
        sizes = _OMNIGLOT_SIZES if self.tasks == "omniglot" else _IMAGE_SIZES if self.has_images else _SIZES
        sizes = _TABLE_SIZES if self.has_table else sizes
        if self.has_table and self.method in PROCESSES:
            sizes = sizes | {"steps": FITTING.steps, "meta_batch": FITTING.meta_batch}
        return sizes | ({"meta_batch": 2} if self.method in OF_CLASSES else {})

    def to_json(self) -> str:
        """The experiment as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "Experiment":
        """The experiment that `to_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        known = {field.name for field in dataclasses.fields(Experiment)}
        if extra := sorted(set(values) - known):
            raise FewstepError(f"The configuration has {', '.join(extra)}, which this version does not know.")
        lists: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        if classes := values.get("classes"):
            lists["classes"] = {split: tuple(names) for split, names in classes.items()}
        return Experiment(**(values | lists))


def option(name: str) -> str:
    """A field's name as messages have it: as Python spells it. The command line prints such names as its flags."""
    return f"`{name}`"


def flag(name: str) -> str:
    """A field's name as the command line spells it."""
    return "--" + name.replace("_", "-")
