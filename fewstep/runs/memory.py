"""What is left of a fit: plain data, which can be copied and saved, and from which the model is rebuilt."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._network import flatten
from fewstep._rule import Meta
from fewstep.experiments.build import Built, build, inner_steps
from fewstep.experiments.experiment import Experiment
from fewstep.problems.tables import problem_of_rows
from fewstep.runs.train import validation
from fewstep.tables import Rows, Schema
from fewstep.tables._ensemble import Ensemble
from fewstep.tables._interval import Calibration
from fewstep.training import train


class Fitted(NamedTuple):
    """The experiment and the schema as JSON, the arrays of each seed by path, the calibration, the curve of the
    validation, and the share of held-out values in 90 % intervals that were calibrated without their task."""

    experiment: str
    schema: str
    metas: tuple[dict[str, np.ndarray], ...]
    calibration: dict[str, Any] | None
    history: tuple[tuple[int, float], ...]
    coverage: float | None = None

    def ensemble(self, network: Callable[..., Any] | None = None) -> Ensemble:
        """The model, ready to learn a task."""
        built = _built(self.experiment, self.schema, network)
        experiment = Experiment.from_json(self.experiment)
        shape = jax.eval_shape(lambda: built.learner.init(jax.random.key(0)))
        learner = _learner(self.experiment, self.schema, network)
        metas = tuple(_restored(shape, flat) for flat in self.metas)
        known = Calibration.from_dict(self.calibration) if self.calibration else None
        return Ensemble(learner, metas, inner_steps(experiment), built.samples, _schema(self.schema), known)


def fit(
    experiment: Experiment,
    schema: Schema,
    parts: dict[str, Rows],
    network: Callable[..., Any] | None = None,
    watch: Callable[[int, float], None] = lambda step, score: None,
) -> Fitted:
    """Trains several seeds together, keeps the best of each on the validation tasks, and calibrates on these."""
    told = experiment.to_json()
    built = build(experiment, problem_of_rows(experiment, schema, parts.__getitem__, network))
    validate, held_out = validation(built)
    history: list[tuple[int, float]] = []

    def after(state: Any, rows: list[Any]) -> None:
        for row in rows:
            if row.validation is not None:
                history.append((row.step, float(np.mean(row.validation))))
                watch(*history[-1])

    trained = train(
        built.learner, built.training, steps=experiment.steps, optimizer=built.optimizer,
        meta_batch=experiment.meta_batch, outer=built.outer, log_every=experiment.log_every,
        seed=list(range(experiment.seed, experiment.seed + experiment.seeds)), validate=validate,
        validation_data=held_out, validate_every=experiment.validate_every, patience=experiment.patience,
        on_segment=after,
    )  # fmt: skip
    best = trained.state.best
    finite = np.isfinite(np.asarray(best.score))
    metas = tuple(
        {path: np.asarray(leaf[n]) for path, leaf in flatten(best.meta if finite[n] else trained.state.meta).items()}
        for n in range(experiment.seeds)
    )
    made = Fitted(told, json.dumps(schema.to_dict()), metas, None, tuple(history))
    if set(parts["validation"].names) & set(parts["train"].names):  # errors on what it was trained on say nothing
        return made
    calibrated, covered = made.ensemble(network).calibrated(parts["validation"], experiment.shots)
    known = calibrated.calibration
    return made._replace(calibration=None if known is None else known.to_dict(), coverage=covered)


@lru_cache(maxsize=16)
def _built(experiment: str, schema: str, network: Callable[..., Any] | None) -> Built:
    """The parts of an experiment, without rows: enough to adapt."""

    def nothing(split: str) -> Rows:
        raise AssertionError(f"no {split} rows are kept")

    asked = Experiment.from_json(experiment)
    return build(asked, problem_of_rows(asked, _schema(schema), nothing, network))


@lru_cache(maxsize=16)
def _learner(experiment: str, schema: str, network: Callable[..., Any] | None) -> Any:
    """One learner for all that ask, so that what was compiled for it is found again."""
    return _built(experiment, schema, network).learner


def _schema(told: str) -> Schema:
    return Schema.from_dict(json.loads(told))


def _restored(shape: Meta, flat: dict[str, np.ndarray]) -> Meta:
    return jax.tree.unflatten(jax.tree.structure(shape), [jnp.asarray(flat[path]) for path in flatten(shape)])
