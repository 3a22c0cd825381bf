r"""The Gaussian kernel, by blocks of rows, and random features in its place.

    k(a, b) = exp(-|a - b|^2 / (2 sigma^2)) \approx f(a) . f(b),   f(a) = sqrt(2/D) cos(a Omega / sigma + phase)

No function here holds more of an n x n kernel than a block of its rows.

Reference: Rahimi & Recht, Random Features for Large-Scale Kernel Machines, NeurIPS 2007.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

AnyArray = Array | np.ndarray  # fitted networks are NumPy arrays, whatever type they are used in
Rows = Float[AnyArray, "rows d"]
Sums = TypeVar("Sums")


class Waves(NamedTuple):
    """The parameters of random features: frequencies for a bandwidth of 1, and phases."""

    omega: Float[AnyArray, "d features"]
    phase: Float[AnyArray, " features"]


def above_zero(x: Array) -> Array:
    """What can be divided by: at least the smallest normal number of its type."""
    return jnp.maximum(x, jnp.finfo(x.dtype).tiny)


def squared_distances(a: Rows, b: Float[AnyArray, "others d"]) -> Float[Array, "rows others"]:
    """|a_i - b_j|^2, never below 0."""
    squares = jnp.sum(a * a, 1)[:, None] + jnp.sum(b * b, 1)[None] - 2 * a @ b.T
    return jnp.maximum(squares, 0)


def gaussian(a: Rows, b: Float[AnyArray, "others d"], sigma: Float[AnyArray, ""]) -> Float[Array, "rows others"]:
    """The kernel between two sets of rows."""
    return jnp.exp(-squared_distances(a, b) / (2 * jnp.square(sigma)))


def draw_waves(rng: np.random.Generator, width: int, features: int, dtype: np.dtype) -> Waves:
    """Random frequencies and phases."""
    omega = rng.standard_normal((width, features))
    return Waves(omega.astype(dtype), rng.uniform(0, 2 * np.pi, features).astype(dtype))


def random_features(x: Rows, waves: Waves, sigma: Float[AnyArray, ""]) -> Float[Array, "rows features"]:
    """Features whose products are the kernel, in the mean over the waves."""
    turns = x @ waves.omega / sigma + waves.phase[None]
    return jnp.sqrt(2 / waves.phase.size) * jnp.cos(turns)


def over_blocks(part: Callable[..., Sums], rows: tuple[AnyArray, ...], size: int) -> Sums:
    """The sum of `part(block of each)` over blocks of that many rows; the rows divide by it."""
    count = rows[0].shape[0] // size
    blocks = tuple(array.reshape(count, size, *array.shape[1:]) for array in rows)
    if count == 1:
        return part(*(block[0] for block in blocks))
    shapes = jax.eval_shape(part, *(block[0] for block in blocks))
    start = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
    return jax.lax.scan(lambda total, block: (jax.tree.map(jnp.add, total, part(*block)), None), start, blocks)[0]


def map_blocks(part: Callable[..., Array], rows: tuple[AnyArray, ...], size: int) -> Array:
    """`part(block of each)` for blocks of that many rows, one below the other; the rows divide by it."""
    count = rows[0].shape[0] // size
    blocks = tuple(array.reshape(count, size, *array.shape[1:]) for array in rows)
    outputs = jax.lax.map(lambda block: part(*block), blocks)
    return outputs.reshape(-1, *outputs.shape[2:])
