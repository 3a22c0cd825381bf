r"""The dependence of a kernel on the labels, and the bandwidth that maximizes it.

    HSIC = sum_ij Gamma_ij k(r_i, r_j),        Gamma = H Y Y^T H,   H = I - 1 1^T / n

With the labels one-hot and centered, Yc = H Y, Gamma is Yc Yc^T: it is never computed. A row of zeros in Yc adds
nothing, so rows can be padded.

Reference: Gretton, Bousquet, Smola & Schoelkopf, Measuring Statistical Dependence with Hilbert-Schmidt Norms, ALT 2005.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fewstep._kernels._kernel import AnyArray, Rows, gaussian, over_blocks, squared_distances

_GRID, _ROUNDS = 48, 20  # bandwidths looked at, and refinements of the best
_GOLDEN = (5**0.5 - 1) / 2
Labels = Float[AnyArray, "rows classes"]


def hsic(x: Rows, centered: Labels, sigma: Float[AnyArray, ""], size: int) -> Float[Array, ""]:
    """The dependence, as the sum it is; blocks of `size` rows at a time."""

    def part(block: Array, labels: Array) -> Array:
        return jnp.sum(gaussian(block, x, sigma) * (labels @ centered.T))

    return over_blocks(part, (x, centered), size)


def best_bandwidth(x: Rows, centered: Labels) -> Float[Array, ""]:
    """The bandwidth of the largest dependence: the best of a grid around the mean distance, then refined.

    The authors' code starts a local search at the median; a grid does not stay at a local best.
    """
    squares = squared_distances(x, x)
    weight = centered @ centered.T
    labeled = jnp.any(centered != 0, axis=1).astype(x.dtype)
    mean = jnp.sqrt(labeled @ squares @ labeled) / jnp.maximum(jnp.sum(labeled), 1)
    value = lambda log: jnp.sum(weight * jnp.exp(-squares / (2 * jnp.exp(2 * log))))
    grid = jnp.log(jnp.maximum(mean, 1e-6)) + jnp.linspace(jnp.log(1e-3), jnp.log(10.0), _GRID)
    best = jnp.argmax(jax.lax.map(value, grid))
    step = grid[1] - grid[0]
    return jnp.exp(_golden(value, grid[best] - step, grid[best] + step))


def _golden(value: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The place of the largest value between two, by golden sections: one new value each."""

    def section(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        low, high, at_left, at_right = state
        lower = at_left < at_right
        low, high = jnp.where(lower, _left(low, high), low), jnp.where(lower, high, _right(low, high))
        new = value(jnp.where(lower, _right(low, high), _left(low, high)))
        return low, high, jnp.where(lower, at_right, new), jnp.where(lower, new, at_left)

    start = (low, high, value(_left(low, high)), value(_right(low, high)))
    low, high, *_ = jax.lax.fori_loop(0, _ROUNDS, section, start)
    return (low + high) / 2


def _left(low: Array, high: Array) -> Array:
    return high - _GOLDEN * (high - low)


def _right(low: Array, high: Array) -> Array:
    return low + _GOLDEN * (high - low)
