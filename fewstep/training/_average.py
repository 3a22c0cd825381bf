"""An exponential moving average of the meta-parameters, kept by the outer optimizer: a step carries nothing else."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from fewstep._errors import FewstepError
from fewstep._rule import Meta
from fewstep.training._segment import TrainState


class Averaged(NamedTuple):
    """The state of an optimizer that keeps an average: its own, the average, and the steps taken."""

    inner: PyTree
    average: Meta
    steps: Int[Array, ""]


def averaging(optimizer: optax.GradientTransformation, decay: float) -> optax.GradientTransformation:
    """The optimizer, which keeps an average beside what it moves: `average = decay average + (1 - decay) meta`.

    In the first steps the decay is smaller, (1 + step) / (10 + step), so that the start is soon forgotten.
    """
    if not 0 < decay < 1:
        raise FewstepError(
            f"ema is {decay}. It is the decay of an average: give a number between 0 and 1 such as 0.999."
        )

    def update(grads: Meta, state: Averaged, meta: Meta) -> tuple[Meta, Averaged]:
        updates, inner = optimizer.update(grads, state.inner, meta)
        share = 1 - jnp.minimum(decay, (1 + state.steps) / (10 + state.steps))
        average = optax.incremental_update(optax.apply_updates(meta, updates), state.average, share)
        same = lambda new, old: new.astype(old.dtype)
        return updates, Averaged(inner, jax.tree.map(same, average, state.average), state.steps + 1)

    return optax.GradientTransformation(lambda meta: Averaged(optimizer.init(meta), meta, jnp.asarray(0)), update)


def average_of(state: TrainState) -> Meta | None:
    """The average of each seed, if the optimizer keeps one."""
    return state.optimizer.average if isinstance(state.optimizer, Averaged) else None
