"""Adapted parameters as one row of numbers, so that they are cheap to keep and to stack with those of other tasks."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta


class Layout(NamedTuple):
    """How adapted parameters lie in a row: their tree, and the shape and type of each array."""

    tree: jax.tree_util.PyTreeDef
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


def to_rows(adapted: Adapted) -> Array:
    """All arrays of each (seed, sample) one after the other. Whole numbers among them are labels, which a float holds
    exactly."""
    leaves = [leaf.reshape(*leaf.shape[:2], -1).astype(jnp.float32) for leaf in jax.tree.leaves(adapted)]
    return jnp.concatenate(leaves, axis=2)


def from_rows(layout: Layout, rows: Array) -> Adapted:
    """The inverse of `to_rows`."""
    leaves, begin = [], 0
    for shape, dtype in layout.arrays:
        end = begin + math.prod(shape)
        leaves.append(rows[:, :, begin:end].reshape(*rows.shape[:2], *shape).astype(dtype))
        begin = end
    return jax.tree.unflatten(layout.tree, leaves)
