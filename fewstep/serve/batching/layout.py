"""Adapted parameters as one row of numbers, so that they are cheap to keep and to stack with those of other tasks."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta


class Layout(NamedTuple):
    """How adapted parameters lie in a row: their tree, and the shape and type of each array."""

    tree: Any
    arrays: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def width(self) -> int:
        """The length of a row."""
        return sum(math.prod(shape) for shape, _ in self.arrays)


def layout_of(learner: Learner, meta: Meta, support: Batch) -> Layout:
    """The layout after adapting to a support set of this size."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    adapted = jax.eval_shape(lambda m, k, s: learner.adapt(m, k, s, 0), meta, key, support)
    leaves, tree = jax.tree.flatten(adapted)
    return Layout(tree, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves))


def to_row(adapted: Adapted) -> Array:
    """All arrays one after the other. Whole numbers among them are labels, which a float holds exactly."""
    leaves = [leaf.reshape(-1).astype(jnp.float32) for leaf in jax.tree.leaves(adapted)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


def from_row(layout: Layout, row: Array) -> Adapted:
    """The inverse of `to_row`."""
    leaves, begin = [], 0
    for shape, dtype in layout.arrays:
        end = begin + math.prod(shape)
        leaves.append(row[begin:end].reshape(shape).astype(dtype))
        begin = end
    return jax.tree.unflatten(layout.tree, leaves)
