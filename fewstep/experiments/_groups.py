"""The options of every experiment in groups: of the training, of the inner steps, of the outer step, of the machine."""

import dataclasses
from typing import Literal

from fewstep.outers import OUTERS
from fewstep.problems import option

Rate = float | tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Training:
    """How long and how often."""

    seed: int = option(0, "Seed of the first weights, the tasks and the masks.", min=0)
    seeds: int = option(1, "How many seeds to train together: SEED, SEED + 1, ...; they answer together.", min=1)
    steps: int = option(
        60_000, "Outer steps in all. Raise it to train a finished run further, if its schedule is constant.", min=0
    )
    meta_batch: int = option(4, "Tasks in each outer step.", min=1)
    log_every: int = option(100, "Steps between rows of metrics.csv; each row is the mean over them.", min=1)
    validate_every: int = option(1000, "Steps between validations on a fixed set of tasks.", min=1)
    validation_tasks: int = option(100, "Tasks in that set.", min=2)
    patience: int = option(0, "Stop after this many validations without a better score; 0: never.", min=0)
    keep: Literal["last", "best", "average"] = option(
        "last", "The parameters to use afterwards: the last ones, the best on the validation tasks, or the moving "
        "average of --ema. All are saved."
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Fit:
    """A method that is not trained by outer steps."""

    seed: int = option(0, "Seed of whatever is drawn.", min=0)
    steps: int = option(1, "The fit counts as one step.", min=0, hidden=True)
    rounds: tuple[int, ...] = option(
        (), "Trees of the base, and of the forest on features of the support, instead of the best numbers on the "
        "validation tasks."
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Portfolio:
    """Several methods in one go."""

    members: tuple[str, ...] = option((), "Methods to train (default: those that suit the tasks).")
    member_seeds: int = option(1, "Seeds of each member that is trained by outer steps.", min=1)
    effort: float = option(1.0, "Outer steps of each member, relative to its own number.", min=0.0)
    refit: bool = option(True, "Train the members that have weight again in the end, on the validation tasks too.")
    seconds: float = option(0.0, "Seconds in all, by which the steps are planned; 0: no limit.", min=0.0, hidden=True)
    seed: int = option(0, "Seed of whatever is drawn.", min=0)
    steps: int = option(1, "The whole counts as one step.", min=0, hidden=True)


@dataclasses.dataclass(frozen=True)
class InnerSteps:
    """How a task is learned by gradient steps."""

    inner_steps: int = option(1, "Gradient steps on each task in training.", min=0)
    inner_lr: Rate = option(
        0.01, "Step size on a task, or where learned rates begin; two numbers: drawn between them. It is a step on the "
        "mean loss; papers that sum over classes print lr / ways.", min=0.0,
    )  # fmt: skip
    inner_optimizer: Literal["sgd", "adam"] = option("sgd", "Optimizer on a task; adam is without momentum.")
    inner_clip: float = option(
        0.0, "Clip the gradient on a task to this norm; 0: not at all. By default 100 over the number of inner steps, "
        "if they are several.", min=0.0,
    )  # fmt: skip
    remat: bool = option(
        False, "Compute inner steps again in the backward pass: each then costs memory for the adapted weights only."
    )
    multi_step: int = option(
        0, "In so many outer steps the loss after every inner step counts, the last one more and more; 0: never.", min=0
    )
    outer: str = option("unrolled", f"How the outer gradient is taken: {', '.join(OUTERS)}, or FILE.py:FUNCTION.")


@dataclasses.dataclass(frozen=True)
class FewSteps:
    """The options of a learner whose gradient steps have no rule to choose."""

    inner_steps: int = option(1, "Gradient steps on each task.", min=0)
    inner_lr: float = option(0.1, "Step size on a task.", min=0.0)


@dataclasses.dataclass(frozen=True)
class OuterStep:
    """How the meta-parameters are moved."""

    outer_optimizer: Literal["adam", "sgd"] = option("adam", "Outer optimizer.")
    outer_lr: float = option(0.001, "Outer step size.", min=0.0)
    schedule: Literal["constant", "linear", "cosine"] = option(
        "constant", "How the outer step size falls to 0 over all steps."
    )
    schedule_steps: int = option(
        0, "Steps over which it falls, if fewer are taken; 0: those that are taken.", min=0, hidden=True
    )
    clip_value: float = option(0.0, "Clip each entry of the outer gradient to this size; 0: not at all.", min=0.0)
    clip_norm: float = option(0.0, "Clip the outer gradient to this norm; 0: not at all.", min=0.0)
    ema: float = option(
        0.0, "Decay of a moving average of the meta-parameters, such as 0.999, evaluated beside the last; 0: none.",
        min=0.0,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Machine:
    """How tasks are spread over the machine."""

    devices: int = option(0, "Devices to spread tasks over; 0: chosen by the size of a task.", min=0)
    chunk: int = option(0, "Tasks that a device takes at once; 0: chosen by the size of a task.", min=0)
