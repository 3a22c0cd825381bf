"""Trains a model in memory, and chooses which of its parameters to keep."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from fewstep._rule import Meta
from fewstep.experiments import Built, Experiment, build, network_options
from fewstep.models._evaluate import calibrate_by, calibrate_model
from fewstep.models._model import Model
from fewstep.problems import Answers, problem_of_rows, with_fitted_base
from fewstep.tables import Table
from fewstep.training import Row, TrainState

HeldOut = Mapping[int, Answers]


def kept_metas(built: Built, state: TrainState, keep: str | None = None) -> dict[int, Meta]:
    """The meta-parameters of each seed: the last ones, or the best on the validation tasks, where there are such."""
    metas = built.kept(state, keep).metas
    return {s: jax.tree.map(lambda leaf, n=n: leaf[n], metas) for n, s in enumerate(built.experiment.seed_list)}


class FittedTable(NamedTuple):
    """A model of a table in memory, the scores of its validations by step, and the share of held-out values inside 90%
    intervals that were calibrated without their task."""

    model: Model
    history: list[tuple[int, float]]
    coverage: float | None


def fit_table(
    experiment: Experiment, table: Table, network: Callable[..., object] | None = None,
    watch: Callable[[int, float], None] = lambda step, score: None, like: Model | None = None,
) -> FittedTable:  # fmt: skip
    """Trains on a table in memory, and calibrates on its validation tasks, unless these are trained on too. `like` is
    what the same experiment left on a table of the same shapes: nothing is compiled again."""
    options = with_fitted_base(experiment.groups[0], table)
    experiment = experiment.replace(fitted_base=options.fitted_base) if options.fitted_base else experiment
    problem = problem_of_rows(options, network_options(experiment, network), table.schema, lambda: table)
    built, history = build(experiment, problem, like=None if like is None else like.built), []

    def note(state: TrainState, rows: list[Row]) -> None:
        for row in rows:
            if row.validation is not None:
                history.append((row.step, float(np.mean(row.validation))))
                watch(*history[-1])

    state, answers = _trained(built, note)
    model = Model(built, kept_metas(built, state), int(state.step))
    held_out = table.parts["validation"]
    if set(held_out.names) & set(table.parts["train"].names):  # errors on what it was trained on say nothing
        return FittedTable(model, history, None)
    calibration, coverage = calibrate_model(model, held_out) if answers is None else calibrate_by(model, answers)
    return FittedTable(dataclasses.replace(model, calibration=calibration), history, coverage)


def _trained(built: Built, note: Callable[[TrainState, list[Row]], None]) -> tuple[TrainState, HeldOut | None]:
    """The state after training, or after a fit, with what it answered on held-out tasks if it says so."""
    if built.method.fit is None:
        return built.train(on_segment=note).state, None
    state, fitted = built.fit(lambda name, part: part.kept(_trained(part, note)[0]))
    return state, fitted.answers
