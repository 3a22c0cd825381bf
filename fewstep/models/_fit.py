"""Trains a model in memory, and chooses which of its parameters to keep."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from fewstep._rule import Meta
from fewstep.experiments import Built
from fewstep.models._model import Model
from fewstep.training import TrainState


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

    def note(state: TrainState, rows: list[Any]) -> None:
        for row in rows:
            if row.validation is not None:
                history.append((row.step, float(np.mean(row.validation))))
                watch(*history[-1])

    state = built.train(on_segment=note).state
    return Model(built, kept_metas(built, state), int(state.step)), history
