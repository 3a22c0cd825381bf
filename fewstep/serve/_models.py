"""The models that are served: loaded runs, and what each tells of itself."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep.experiments.build import inner_rate
from fewstep.experiments.learners import trained_ways
from fewstep.experiments.public import public_tasks
from fewstep.runs import Model, ensemble_of, load
from fewstep.serve._limits import Limits
from fewstep.serve._units import is_masked, moving_layers
from fewstep.tables._ensemble import Ensemble

_DRAWN = 256  # tasks that say where a curve is to be drawn


@dataclasses.dataclass(frozen=True)
class Served:
    """A loaded run under a name, with its bounds."""

    name: str
    model: Model
    limits: Limits

    @cached_property
    def kind(self) -> str:
        """`images`, `table`, or `curve`: rows of numbers."""
        experiment = self.model.run.experiment
        return "images" if experiment.has_images else "table" if experiment.has_table else "curve"

    @cached_property
    def image(self) -> tuple[int, ...]:
        """The shape of one image; empty for others."""
        return self.model.built.problem.image

    @cached_property
    def classes(self) -> bool:
        """Whether it tells classes apart."""
        return self.model.built.problem.metric == "accuracy"

    @cached_property
    def ensemble(self) -> Ensemble | None:
        """The columns, samples and intervals of a table's model."""
        return ensemble_of(self.model) if self.kind == "table" else None

    @cached_property
    def masked(self) -> bool:
        """Whether samples of masks differ."""
        return is_masked(self.model)

    @cached_property
    def samples(self) -> int:
        """The samples that are drawn if none are asked for."""
        return self.ensemble.samples if self.ensemble else 1

    @cached_property
    def ways(self) -> int | None:
        """The classes of a task in training."""
        return trained_ways(self.model.run.experiment)

    @cached_property
    def most_ways(self) -> int:
        """The most classes of a task: as trained, where the last layer has a unit for each."""
        try:
            self.learner(self.limits.ways)
        except FewstepError:
            return min(self.ways or self.limits.ways, self.limits.ways)
        return self.limits.ways

    @cached_property
    def metas(self) -> Any:
        """The meta-parameters of all whole seeds, one behind the other."""
        found = list(self.model.whole.values())
        if not found:
            raise FewstepError(f"Every seed of {self.name} has diverged. Train again with a smaller --inner-lr.")
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *found)

    @cached_property
    def seeds(self) -> int:
        """How many seeds answer together."""
        return jax.tree.leaves(self.metas)[0].shape[0]

    @cached_property
    def weights(self) -> int:
        """The multiplications of one forward pass of one row through all seeds, roughly: a convolution uses each of
        its numbers at many places."""
        places = self.image[0] * self.image[1] // 16 if self.image else 1
        return sum(leaf.size for leaf in jax.tree.leaves(self.metas)) * max(1, places)

    def learner(self, ways: int | None) -> Learner:
        """The learner for so many classes; images are normalized by the support, so that queries stay apart."""
        return self.model.built.make(ways, "support" if "support" in self.model.built.problem.norms else None)

    @cached_property
    def trained_points(self) -> int:
        """The points, or images, of a support set in training."""
        return self.model.run.experiment.shots * (self.ways or 1)

    @cached_property
    def ranges(self) -> tuple[list[float] | None, list[float] | None]:
        """Where curves lie, in x and y; nothing for others."""
        if self.kind != "curve":
            return None, None
        tasks = self.model.built.problem.tasks(1, 32)

        @jax.jit
        def drawn(key: jax.Array) -> jax.Array:
            return jax.vmap(lambda key: tasks.sample(tasks.data, key).query.y)(jax.random.split(key, _DRAWN))

        y = np.asarray(drawn(jax.random.key(0)))
        low, high = np.asarray(tasks.data["x_range"]).tolist()
        return [low, high], [float(y.min()), float(y.max())]

    @property
    def _inner_rate(self) -> float | None:
        """The step size on a task; nothing where rates are learned, or where no step is taken."""
        rule = self.model.built.rule
        steps = rule is not None and self.model.built.steps and not rule.sets_step_size
        return inner_rate(self.model.run.experiment) if steps else None

    @cached_property
    def description(self) -> dict[str, Any]:
        """The model as clients see it."""
        experiment, problem = self.model.run.experiment, self.model.built.problem
        x_range, y_range = self.ranges
        schema = problem.schema
        return {
            "name": self.name, "kind": self.kind, "rule": experiment.method, "tasks": public_tasks(experiment.tasks),
            "x_width": int(np.prod(self.image)) if self.image else problem.widths[0],
            "y_width": self.ways or problem.widths[1],
            "image": list(self.image) or None, "ways": self.ways, "shots": experiment.shots,
            "inner_steps": self.model.inner_steps if self.model.built.steps else 0,
            "inner_lr": self._inner_rate, "steps_trained": self.model.step, "seeds": self.seeds,
            "metric": problem.metric, "x_range": x_range, "y_range": y_range, "masked": self.masked,
            "layers": [{"name": layer.path, "units": layer.width} for layer in moving_layers(self.model)],
            "columns": None if schema is None else {"x": list(schema.names), "y": schema.target.name},
            "limits": {name: getattr(self.limits, name) for name in ("points", "queries", "steps", "samples", "work")}
            | {"ways": self.most_ways if self.kind == "images" else self.limits.ways},
            "trained": {
                "seed": experiment.seed, "steps": experiment.steps, "meta_batch": experiment.meta_batch,
                "queries": experiment.queries, "hidden": experiment.hidden, "filters": experiment.filters,
            },
        }  # fmt: skip


def load_models(runs: Sequence[Path | str], limits: Limits) -> dict[str, Served]:
    """The models of run folders, or of the package, by name. Raises `FewstepError` for two of one name."""
    found: dict[str, Served] = {}
    for run in runs:
        name = Path(run).resolve().name if Path(run).exists() else str(run)
        if name in found:
            raise FewstepError(f"Two runs are named {name}, and a model's name is its folder's. Rename one of them.")
        model = load(run)
        found[name] = Served(name, model, limits.of_images() if model.run.experiment.has_images else limits)
        _ = found[name].metas  # what is wrong with a run is said before the service starts
    return found
