"""An experiment: everything that decides what a training does, in one flat place; the command line is made of it."""

import dataclasses
import json
from typing import Annotated, Any, Literal

import tyro

from fewstep._errors import FewstepError
from fewstep.rules import RULES
from fewstep.tasks import TASKS

Pair = tuple[float, float]
_METHODS = (
    f"A rule ({', '.join(RULES)}), a chain of links such as mtnet+rates or metric+mask+rates, "
    "or an alias: fomaml, reptile."
)
NO_HINT = tyro.conf.arg(help_behavior_hint="")  # the help text says itself what leaving it out means


@dataclasses.dataclass(frozen=True)
class Experiment:
    """What to train, on what, and how. Stored with every run."""

    method: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="METHOD", help=_METHODS)]
    """A rule, a chain such as mtnet+rates, or an alias."""
    tasks: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASKS", help=f"One of {', '.join(TASKS)}.")]
    """The name of the tasks."""

    seed: int = 0
    """Seed of the first weights, the tasks and the masks."""
    seeds: int = 1
    """How many seeds to train together: SEED, SEED + 1, ..."""
    steps: int = 60_000
    """Outer steps in all. Raise it to train a finished run further."""
    meta_batch: int = 4
    """Tasks in each outer step."""

    shots: int = 10
    """Points of a task that are learned from."""
    queries: int = 10
    """Points of a task that judge what was learned."""
    hidden: tuple[int, ...] = (40, 40)
    """Widths of the network's hidden layers."""

    inner_steps: Annotated[int | None, NO_HINT] = None
    """Gradient steps on each task in training (default: 1; reptile: 5)."""
    inner_lr: Annotated[float | None, NO_HINT] = None
    """Step size on a task, or where learned rates begin (default: 0.01; meta_sgd: drawn from 0.005 to 0.1)."""
    inner_optimiser: Annotated[Literal["sgd", "adam"] | None, NO_HINT] = None
    """Optimiser on a task (default: sgd; reptile: adam without momentum, as in its paper)."""
    temperature: Annotated[float | None, NO_HINT] = None
    """Temperature of the masks' relaxation (default: 1)."""
    draw: Annotated[Literal["sample", "expected", "threshold"] | None, NO_HINT] = None
    """How masks come from their probabilities (default: sample)."""

    outer: Annotated[Literal["unrolled", "first_order", "reptile"] | None, NO_HINT] = None
    """How the outer gradient is taken (default: unrolled; fomaml and reptile say themselves)."""
    minibatch: Annotated[int | None, NO_HINT] = None
    """Points of each inner step of reptile (default: 10)."""
    outer_optimiser: Annotated[Literal["adam", "sgd"] | None, NO_HINT] = None
    """Outer optimiser (default: adam; reptile: sgd)."""
    outer_lr: Annotated[float | None, NO_HINT] = None
    """Outer step size (default: 0.001; reptile: 1)."""
    schedule: Annotated[Literal["constant", "linear", "cosine"] | None, NO_HINT] = None
    """How the outer step size falls to 0 over all steps (default: constant; reptile: linear)."""
    clip_value: Annotated[float | None, NO_HINT] = None
    """Clip each entry of the outer gradient to this size."""
    clip_norm: Annotated[float | None, NO_HINT] = None
    """Clip the outer gradient to this norm."""
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
    validation_tasks: int = 100
    """Tasks in that set."""
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

    def __post_init__(self) -> None:
        least = {
            "seed": 0, "seeds": 1, "steps": 0, "meta_batch": 1, "shots": 1, "queries": 1, "inner_steps": 0,
            "minibatch": 1, "devices": 1, "chunk": 1, "log_every": 1, "validate_every": 1, "validation_tasks": 2,
            "patience": 1, "order": 0,
        }  # fmt: skip
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise FewstepError(f"{option(name)} is {value}. It must be at least {low}.")
        for name in ("inner_lr", "outer_lr", "temperature", "clip_value", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise FewstepError(f"{option(name)} is {value}. It must be finite and not negative, such as 0.01.")
        if self.hidden and min(self.hidden) < 1:
            raise FewstepError(f"--hidden is {self.hidden}. A layer needs at least 1 unit.")

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
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return Experiment(**(values | lists))


def option(name: str) -> str:
    """A field's name as the command line spells it."""
    return "--" + name.replace("_", "-")
