"""A model that is served: a loaded run under a name, its limits, and its description for clients."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import jax

from fewstep._errors import FewstepError
from fewstep._network import Layer
from fewstep.experiments import Experiment
from fewstep.models import Model
from fewstep.problems import Facts, Kind, Problem
from fewstep.runs import load
from fewstep.serve.limits import Limits
from fewstep.serve.schema import LayerSize, ModelDescription, ModelLimits
from fewstep.serve.task import Settings


class Sizes(NamedTuple):
    """The numbers of `rows` that programs are compiled for; the `queries` and, with details, the `samples` of masks of
    those that are compiled before anybody asks for them; and `bounds` of the service's limits."""

    rows: tuple[int, ...]
    queries: tuple[int, ...]
    samples: tuple[int, ...] = ()
    bounds: Mapping[str, int] = {}


_USUAL = Sizes((16, 64, 256, 1024), (16,))
_PLOTTED = _USUAL._replace(queries=(16, 256), samples=(16,))  # a few points, or those of a plotted curve and its band
_ENCODED = Sizes((16, 64, 128), (16,), bounds={"points": 128, "queries": 128})  # each passes through an encoder
_HEAVY = Sizes(
    (8, 16, 32, 64, 128, 256),  # a convolution of padding costs as much as that of an image
    (8,), bounds={"points": 256, "queries": 256, "samples": 16, "work": 16_384},  # each row is many numbers
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model under a name, with its limits."""

    name: str
    model: Model
    limits: Limits

    @property
    def experiment(self) -> Experiment:
        """How it was trained."""
        return self.model.experiment

    @property
    def kind(self) -> Kind:
        """The kind of its problem."""
        return self.model.kind

    @property
    def problem(self) -> Problem:
        """What its tasks ask for."""
        return self.model.problem

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes of its programs."""
        return _sizes_of(self.model)

    @property
    def heavy(self) -> bool:
        """Whether one task fills a processor's cache: of images, or of maps that an encoder's last blocks take."""
        return self.sizes is _HEAVY

    @cached_property
    def masked(self) -> bool:
        """Whether it has masks, whose samples may differ."""
        rule = self.model.built.rule
        return rule is not None and (rule.draws or rule.units is not None)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that detail is reported for; none for a learner without gradient steps."""
        return self.model.built.network.layers if self.model.built.rule is not None else ()

    @cached_property
    def seeds(self) -> int:
        """How many seeds answer together."""
        return len(self.model.finite)

    @cached_property
    def row_values(self) -> int:
        """The numbers of one example."""
        return math.prod(self.problem.x) + self.problem.outputs

    @cached_property
    def weights(self) -> int:
        """The multiplications of one forward pass of one row through all seeds, roughly: a convolution uses each of
        its numbers at many places."""
        x = self.problem.x
        places = x[0] * x[1] // 16 if len(x) > 1 else 1
        return sum(leaf.size for leaf in jax.tree.leaves(self.model.stacked)) * max(1, places)

    def is_calibrated_for(self, settings: Settings) -> bool:
        """Whether it has a calibration, and that is for these settings: the training's steps, at their size."""
        usual = self.model.steps, 1.0, self.model.samples
        return self.model.calibration is not None and (settings.steps, settings.pace, settings.samples) == usual

    @cached_property
    def _facts(self) -> Facts:
        return self.kind.describe(self.problem)

    @property
    def _inner_rate(self) -> float | None:
        """The step size on a task; None where rates are learned, or where no step is taken."""
        rule = self.model.built.rule
        fixed = rule is not None and self.model.built.steps and not rule.sets_step_size
        return self.experiment.value("inner_lr") if fixed and self.experiment.has("inner_lr") else None

    @property
    def _image(self) -> tuple[int, ...] | None:
        """The shape of an image as clients send it in x."""
        if (own := self._facts.get("image")) is not None:
            return tuple(own)
        return self.problem.x if len(self.problem.x) > 1 and self.kind.prepare is None else None

    @property
    def _max_ways(self) -> int:
        """The limit; where the last layer has one unit per class, at most as many as in training."""
        limit, ways = self.limits.ways, self.problem.ways
        if ways is None:
            return limit
        try:
            self.model.learner(limit)
        except FewstepError:
            return min(ways, limit)
        return limit

    @cached_property
    def description(self) -> ModelDescription:
        """The model as clients see it."""
        experiment, problem, model, limits = self.experiment, self.problem, self.model, self.limits
        options = ("seed", "steps", "meta_batch", "queries", "hidden", "filters")
        return ModelDescription(
            name=self.name, kind=self.kind.name, rule=experiment.public_method, tasks=experiment.public_tasks,
            x_width=math.prod(problem.x), y_width=problem.outputs, image=self._image,
            ways=problem.ways, shots=experiment.shots, inner_steps=model.steps, inner_lr=self._inner_rate,
            steps_trained=model.step, seeds=self.seeds, metric=problem.metric, x_range=self._facts.get("x_range"),
            y_range=self._facts.get("y_range"), masked=self.masked, columns=self._facts.get("columns"),
            layers=[LayerSize(layer.path, layer.width) for layer in self.layers],
            limits=ModelLimits(
                limits.points, limits.queries, limits.steps, limits.samples, limits.work, self._max_ways
            ),
            trained={name: experiment.value(name) if experiment.has(name) else None for name in options},
        )  # fmt: skip


def _sizes_of(model: Model) -> Sizes:
    if model.kind.heavy:
        return _HEAVY
    if model.kind.prepare is not None:
        return _HEAVY if len(model.problem.x) > 1 else _ENCODED
    return _PLOTTED if "x_range" in model.kind.describe(model.problem) else _USUAL


def load_models(runs: Sequence[Path | str], limits: Limits) -> dict[str, ServedModel]:
    """The models of run folders, or of the package, by name. Raises `FewstepError` for two of one name."""
    models: dict[str, ServedModel] = {}
    for run in runs:
        name = Path(run).resolve().name if Path(run).exists() else Path(run).name
        if name in models:
            raise FewstepError(f"Two runs are named {name}, and a model's name is its folder's. Rename one of them.")
        model = load(run)
        _ = model.stacked  # so that a run of which every seed diverged is refused before the service starts
        models[name] = ServedModel(name, model, limits.cap(**_sizes_of(model).bounds))
    return models
