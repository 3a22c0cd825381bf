"""Validation while training: a fixed set of tasks, and the best meta-parameters on them."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from fewstep._episode import Tasks
from fewstep._learner import Learner, Loss
from fewstep._streams import VALIDATION
from fewstep.compute import light
from fewstep.evaluation._evaluate import task_scores
from fewstep.training import Best, TrainState

Validate: TypeAlias = Callable[[TrainState, PyTree], tuple[TrainState, Array]]


def make_validate(
    learner: Learner, tasks: Tasks, score: Loss, *, n_tasks: int, inner_steps: int, seed: int
) -> Validate:
    """The compiled `(state, data) -> (state, scores)` that judges a fixed set of tasks and remembers the best.

    `score(prediction, batch)` is lower for better, as a loss is.
    """
    key = jax.random.fold_in(jax.random.key(seed), VALIDATION)

    def keep(new: Array, old: Array, better: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    def validate(state: TrainState, data: PyTree) -> tuple[TrainState, Array]:
        judge = lambda meta: task_scores(learner, meta, tasks, data, key, n_tasks, (inner_steps,), score).mean()
        scores, old = jax.vmap(judge)(state.meta), state.best
        better = scores < old.score
        meta = jax.tree.map(lambda new, before: keep(new, before, better), state.meta, old.meta)
        steps = jnp.where(better, state.step, old.step)
        best = Best(meta, jnp.where(better, scores, old.score), steps, jnp.where(better, 0, old.stale + 1))
        return state._replace(best=best), scores

    return jax.jit(validate, donate_argnums=0, compiler_options=light())
