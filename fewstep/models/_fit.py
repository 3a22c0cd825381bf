"""Trains a model in memory, and chooses which of its parameters to keep."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from fewstep._rule import Meta
from fewstep.experiments import Built, Experiment, build, network_options
from fewstep.models._evaluate import calibrate_model
from fewstep.models._model import Model
from fewstep.problems import problem_of_rows
from fewstep.tables import Table
from fewstep.training import Row, TrainState


def kept_metas(built: Built, state: TrainState, keep: str | None = None) -> dict[int, Meta]:
    """The meta-parameters of each seed: the last ones, or the best on the validation tasks, where there are such."""
    seeds = built.experiment.seed_list
    best = (keep or built.experiment.keep) == "best"
    scores = np.asarray(state.best.score)
    stacks = [state.best.meta if best and np.isfinite(scores[n]) else state.meta for n in range(len(seeds))]
    return {seed: jax.tree.map(lambda leaf, n=n: leaf[n], stacks[n]) for n, seed in enumerate(seeds)}


def fit_model(
    built: Built, watch: Callable[[int, float], None] = lambda step, score: None
) -> tuple[Model, list[tuple[int, float]]]:
    """Trains what was built, without a folder: the model, and the mean score of each validation by its step."""
    history: list[tuple[int, float]] = []

    def note(state: TrainState, rows: list[Row]) -> None:
        for row in rows:
            if row.validation is not None:
                history.append((row.step, float(np.mean(row.validation))))
                watch(*history[-1])

    state = built.train(on_segment=note).state
    return Model(built, kept_metas(built, state), int(state.step)), history


class FittedTable(NamedTuple):
    """A model of a table in memory, the scores of its validations by step, and the share of held-out values inside 90%
    intervals that were calibrated without their task."""

    model: Model
    history: list[tuple[int, float]]
    coverage: float | None


def fit_table(
    experiment: Experiment, table: Table, network: Callable[..., object] | None = None,
    watch: Callable[[int, float], None] = lambda step, score: None,
) -> FittedTable:  # fmt: skip
    """Trains on a table in memory, and calibrates on its validation tasks, unless these are trained on too."""
    options = network_options(experiment, network)
    problem = problem_of_rows(experiment.groups[0], options, table.schema, lambda: table)
    model, history = fit_model(build(experiment, problem), watch)
    held_out = table.parts["validation"]
    if set(held_out.names) & set(table.parts["train"].names):  # errors on what it was trained on say nothing
        return FittedTable(model, history, None)
    calibration, coverage = calibrate_model(model, held_out)
    return FittedTable(dataclasses.replace(model, calibration=calibration), history, coverage)
