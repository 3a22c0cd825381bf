"""A model that is served: a loaded run, and what the service needs to know about it and about its kind of problem."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._network import Layer
from fewstep.experiments import Experiment
from fewstep.experiments.build import inner_rate
from fewstep.experiments.learners import trained_ways
from fewstep.experiments.public import public_tasks
from fewstep.problems.problem import Problem
from fewstep.runs import Model, ensemble_of
from fewstep.serve.limits import Limits
from fewstep.serve.schema import Query, Support, TaskResponse
from fewstep.serve.task import Adaptation, Answer, Examples, Prediction, Rows
from fewstep.tables._ensemble import Ensemble


class Shapes(NamedTuple):
    """The part of a model's description that depends on the kind of problem."""

    x_width: int
    y_width: int
    image: list[int] | None = None
    x_range: list[float] | None = None
    y_range: list[float] | None = None
    columns: dict[str, Any] | None = None
    max_ways: int | None = None


Sampler = Callable[[int, int], TaskResponse]  # a random task, by seed and shots


class ServingKind(NamedTuple):
    """All that serving asks about a kind of problem.

    `parse_support` and `parse_query` turn the parts of a request into arrays, and raise a `Refusal` for what does not
    fit; `format` makes an answer in the client's units; `shapes` describes the model. `task_source` names the data that
    random tasks come from, or refuses; `make_sampler` loads them. `row_values` is how many numbers one row may hold.

    `bounds` caps the service's limits; `row_buckets` are the numbers of rows that programs are compiled for, and
    `first_queries` those compiled before the service is ready; `band_samples` are samples of the masks that a client is
    likely to ask for. `sequential`: the tasks of one call are adapted one after the other, for one of them keeps a
    processor busy. `decode_aside`: bodies are decoded on a worker thread, a few at a time.
    """

    name: str
    parse_support: Callable[["ServedModel", Support], Examples]
    parse_query: Callable[["ServedModel", Query], Rows]
    format: Callable[["ServedModel", Adaptation, Rows, Answer], Prediction]
    shapes: Callable[["ServedModel"], Shapes]
    task_source: Callable[["ServedModel"], str]
    make_sampler: Callable[["ServedModel", str], Sampler]
    row_values: Callable[["ServedModel"], int]
    row_buckets: tuple[int, ...] = (16, 64, 256, 1024)
    first_queries: tuple[int, ...] = (16,)
    bounds: Mapping[str, int] = {}
    band_samples: tuple[int, ...] = ()
    sequential: bool = False
    decode_aside: bool = False


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A loaded run under a name, with its limits."""

    name: str
    kind: ServingKind
    source: Model
    limits: Limits

    @property
    def experiment(self) -> Experiment:
        """How it was trained."""
        return self.source.run.experiment

    @property
    def problem(self) -> Problem:
        """What its tasks ask for."""
        return self.source.built.problem

    @cached_property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of one row of x."""
        return self.problem.image or (self.problem.widths[0],)

    @cached_property
    def has_classes(self) -> bool:
        """Whether it predicts probabilities of classes."""
        return self.problem.metric == "accuracy"

    @cached_property
    def ensemble(self) -> Ensemble | None:
        """The columns, samples and intervals of a table's model."""
        return ensemble_of(self.source) if self.problem.schema is not None else None

    @cached_property
    def masked(self) -> bool:
        """Whether samples of masks differ."""
        rule = self.source.built.rule
        return rule is not None and any("mask" in part.name for part in rule.links)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that detail is reported for; none for a learner without gradient steps."""
        return self.source.built.network.layers if self.source.built.rule is not None else ()

    @cached_property
    def samples(self) -> int:
        """The samples that are drawn if the client does not say."""
        return self.ensemble.samples if self.ensemble else 1

    @cached_property
    def ways(self) -> int | None:
        """The classes of a task in training."""
        return trained_ways(self.experiment)

    @cached_property
    def metas(self) -> Any:
        """The meta-parameters of all seeds that did not diverge, stacked."""
        metas = list(self.source.whole.values())
        if not metas:
            raise FewstepError(f"Every seed of {self.name} has diverged. Train again with a smaller `inner_lr`.")
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *metas)

    @cached_property
    def seeds(self) -> int:
        """How many seeds answer together."""
        return jax.tree.leaves(self.metas)[0].shape[0]

    @cached_property
    def weights(self) -> int:
        """The multiplications of one forward pass of one row through all seeds, roughly: a convolution uses each of
        its numbers at many places."""
        image = self.problem.image
        places = image[0] * image[1] // 16 if image else 1
        return sum(leaf.size for leaf in jax.tree.leaves(self.metas)) * max(1, places)

    def learner(self, ways: int | None) -> Learner:
        """The learner for so many classes; images are normalized by the support, so that queries stay independent."""
        return self.source.built.make(ways, "support" if "support" in self.problem.norms else None)

    @property
    def _inner_rate(self) -> float | None:
        """The step size on a task; None where rates are learned, or where no step is taken."""
        rule = self.source.built.rule
        steps = rule is not None and self.source.built.steps and not any(part.paces for part in rule.links)
        return inner_rate(self.experiment) if steps else None

    @cached_property
    def description(self) -> dict[str, Any]:
        """The model as clients see it."""
        experiment, shapes = self.experiment, self.kind.shapes(self)
        return {
            "name": self.name, "kind": self.kind.name, "rule": experiment.method,
            "tasks": public_tasks(experiment.tasks), "x_width": shapes.x_width, "y_width": shapes.y_width,
            "image": shapes.image, "ways": self.ways, "shots": experiment.shots,
            "inner_steps": self.source.inner_steps if self.source.built.steps else 0,
            "inner_lr": self._inner_rate, "steps_trained": self.source.step, "seeds": self.seeds,
            "metric": self.problem.metric, "x_range": shapes.x_range, "y_range": shapes.y_range, "masked": self.masked,
            "layers": [{"name": layer.path, "units": layer.width} for layer in self.layers],
            "columns": shapes.columns,
            "limits": {name: getattr(self.limits, name) for name in ("points", "queries", "steps", "samples", "work")}
            | {"ways": shapes.max_ways or self.limits.ways},
            "trained": {
                "seed": experiment.seed, "steps": experiment.steps, "meta_batch": experiment.meta_batch,
                "queries": experiment.queries, "hidden": experiment.hidden, "filters": experiment.filters,
            },
        }  # fmt: skip
