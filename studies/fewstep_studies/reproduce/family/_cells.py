"""The grid of the family: every rule on sine waves, ten on CIFAR-FS, and what a step of each costs."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from fewstep import rules
from fewstep.experiments import Experiment
from fewstep.problems import option
from fewstep_studies.reproduce._images import image_experiment
from fewstep_studies.reproduce._measurement import ImageTest, Training
from fewstep_studies.reproduce._rows import Changes, Setting
from fewstep_studies.reproduce._study import Cell, P, TrainingOptions
from fewstep_studies.reproduce._training import curve_experiment

REFERENCE = "maml"  # what costs are compared with
SINE, CIFAR = "sine waves", "CIFAR-FS"
INNER_STEPS = (1, 5)  # on sine waves, in training and test
# Links that are a method by themselves, aliases, and chains: the rest of the rules.
OTHERS = (
    "fomaml", "reptile", "cavia", "covariant", "curvature", "gap", "proximal", "sparse", "maml+learned_loss",
    "mtnet+rates",
)  # fmt: skip
ON_IMAGES = (
    "maml", "fomaml", "meta_sgd", "anil", "boil", "tnet", "mtnet", "mtnet+rates", "curvature", "alfa",
)  # fmt: skip
LOOK = ("maml", "mtnet")  # what a quick run takes
WAYS, QUERIES, IMAGE_STEPS = 5, 15, (1, 10)  # of every test on images

_SINE: Changes = {
    "meta_batch": 4, "init": "he", "inner_lr": 0.01, "inner_clip": 10.0, "outer_lr": 0.002, "schedule": "cosine",
    "clip_norm": 1.0,
}  # fmt: skip
# These two have settings of their own for the outer step, and a context takes larger steps than weights.
_OWN: Mapping[str, Changes] = {
    "reptile": {"inner_clip": 0.0, "outer_lr": 1.0, "schedule": "linear", "clip_norm": 0.0},
    "meta_lstm": {"outer_lr": 0.001, "schedule": "constant", "clip_norm": 0.25},
    "cavia": {"inner_lr": 0.1},
}
_IMAGES: Changes = {
    "ways": WAYS, "shots": 1, "queries": 5, "meta_batch": 4, "filters": 32, "inner_steps": 1, "inner_lr": 0.4,
    "inner_clip": 10.0, "outer_lr": 0.002, "schedule": "cosine", "clip_norm": 1.0, "seeds": 1, "devices": 1, "chunk": 1,
    "validation_tasks": 50,
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FamilyOptions(TrainingOptions):
    """Sine waves by steps, images by minutes."""

    minutes: float = option(20.0, "Minutes of training of each row of images, on one core.", min=0.0)

    def length(self) -> str:
        """How long each training is, in words."""
        return f"{super().length()} on sine waves, {self.minutes:g} minutes on one core on CIFAR-FS"


class Timing(NamedTuple):
    """The plan of a cell that measures what a step of several methods costs on the same tasks, in turns."""

    experiments: Mapping[str, Experiment]

    @property
    def length(self) -> int:
        """It counts as one step."""
        return 1

    @property
    def work(self) -> int:
        """Some five seconds for each method, in tasks."""
        return 10_000 * len(self.experiments)


AnyPlan = Training | Timing


def cells(options: FamilyOptions) -> list[Cell[AnyPlan]]:
    """Trainings on sine waves, then on images, then what a step of each costs."""
    sine = {steps: {name: _sine(options, name, steps) for name in sine_methods(options)} for steps in INNER_STEPS}
    images = {name: _on_images(options, name) for name in (LOOK[:1] if options.quick else ON_IMAGES)}
    trainings = [
        *(_sine_cell(name, steps, it) for steps, of_steps in sine.items() for name, it in of_steps.items()),
        *(_image_cell(name, it) for name, it in images.items()),
    ]
    timed = {_group("sine", steps): of_steps for steps, of_steps in sine.items()} | {"cifar-fs": images}
    return [*trainings, *(_timing(name, experiments) for name, experiments in timed.items())]


def with_plan(cell: Cell[Any], plan: P) -> Cell[P]:
    """The cell with a plan of one kind."""
    return Cell(cell.name, cell.label, cell.setting, plan, cell.ours, cell.groups)


def sine_methods(options: FamilyOptions) -> tuple[str, ...]:
    """Every rule, and the others."""
    return LOOK if options.quick else (*rules.RULES, *OTHERS)


def _sine(options: FamilyOptions, method: str, inner_steps: int) -> Experiment:
    own = {**_SINE, **_OWN.get(method, {}), "inner_steps": inner_steps, "queries": 10}
    return curve_experiment(options, method, "sinusoid", **own)


def _on_images(options: FamilyOptions, method: str) -> Experiment:
    return image_experiment(options, method, "cifar-fs", **_IMAGES)


def _group(kind: str, steps: int) -> str:
    return f"{kind}-{steps}step{'s'[: steps > 1]}"


def _sine_cell(method: str, steps: int, experiment: Experiment) -> Cell[AnyPlan]:
    name = f"{_group('sine', steps)}-{method}"
    setting: Setting = {"tasks": SINE, "inner steps": steps}
    return Cell(name, method, setting, Training(experiment, (steps,)), groups=("sine", method))


def _image_cell(method: str, experiment: Experiment) -> Cell[AnyPlan]:
    test = ImageTest(((WAYS, 1, QUERIES),), IMAGE_STEPS, episodes=False)
    plan = Training(experiment, IMAGE_STEPS, images=test)
    return Cell(f"cifar-fs-{method}", method, {"tasks": CIFAR}, plan, groups=("cifar-fs", method))


def _timing(name: str, experiments: Mapping[str, Experiment]) -> Cell[AnyPlan]:
    """With one seed, from the start: with a small outer step no method diverges, which would end its steps early. A
    multi-step loss, which lasts for a part of a training, counts in the first step only."""
    small: Changes = {"seeds": 1, "outer_lr": 1e-6, "steps": 1_000_000}
    timed = {
        method: it.replace(**small, multi_step=min(1, it.multi_step)) for method, it in experiments.items()
    }  # fmt: skip
    return Cell(f"timing-{name}", "timing", {"tasks": name}, Timing(timed), groups=("timing", ""))
