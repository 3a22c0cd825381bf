"""What depends on the inner step: tables with one entry per step, and the count of the steps taken."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PyTree

from fewstep._errors import FewstepError
from fewstep._rule import Flat


class Count(NamedTuple):
    """How many inner steps were taken before this one."""

    taken: Int[Array, ""]


def at_step(table: PyTree, number: int | Int[Array, ""]) -> PyTree:
    """The entries of an inner step, counted from 0; after the last entry, the last."""
    entry = lambda leaf: jax.lax.dynamic_index_in_dim(leaf, jnp.minimum(number, leaf.shape[0] - 1), keepdims=False)
    return jax.tree.map(entry, table)


def by_step(step: Callable[[Flat, Flat, Int[Array, ""]], Flat]) -> optax.GradientTransformation:
    """The transformation that makes steps out of steps, parameters and the number of the inner step."""

    def update(steps: Flat, count: Count, params: Flat, **extra: Any) -> tuple[Flat, Count]:
        return step(steps, params, count.taken), Count(count.taken + 1)

    return optax.GradientTransformationExtraArgs(lambda params: Count(jnp.asarray(0)), update)


def check_entries(inner_steps: int) -> int:
    """How many entries a table has: one per inner step in training, and one where none is taken."""
    if inner_steps < 0:
        raise FewstepError(f"inner_steps is {inner_steps}. Give the number of inner steps in training, such as 5.")
    return max(1, inner_steps)
