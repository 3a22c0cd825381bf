"""Points and directions that are trees of arrays."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree


def uphill(point: PyTree, gradient: PyTree, far: float) -> PyTree:
    """The point that lies so far from another along its gradient; how it depends on the gradient is not derived."""
    size = optax.tree.norm(gradient)
    scale = jax.lax.stop_gradient(far / jnp.where(size > 0, size, 1.0))
    moved = lambda leaf, slope: leaf + (scale * jax.lax.stop_gradient(slope)).astype(leaf.dtype)
    return jax.tree.map(moved, point, gradient)


def weighted_sum(weights: Array, trees: PyTree) -> PyTree:
    """The sum over the first axis of trees that are stacked, each times its weight."""
    return jax.tree.map(lambda leaves: jnp.tensordot(weights, leaves, 1), trees)
