r"""The spectral layer, W*: the Iterative Spectral Method.

    maximise  sum_ij Gamma_ij k(W^T r_i, W^T r_j)   over W with orthonormal columns

The gradient vanishes where the columns of W are eigenvectors of

    Phi = R^T (Diag(Psi 1) - Psi) R,      Psi_ij = Gamma_ij k(W^T r_i, W^T r_j)

so W is set to the eigenvectors of the smallest eigenvalues, again and again, until the eigenvalues stay.

Reference: Wu, Miller, Chang, Sznaier & Dy, Solving Interpretable Kernel Dimension Reduction, NeurIPS 2019.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fewstep.layerwise._hsic import Labels
from fewstep.layerwise._kernel import Rows, Waves, gaussian, over_blocks, random_features

TOLERANCE, ROUNDS = 0.01, 200  # of the eigenvalues, as in the authors' code
Matrix = Float[Array, "d d"]


class Found(NamedTuple):
    """What the iteration ends with; columns of `weight` from the width on are zero."""

    weight: Matrix
    values: Float[Array, " d"]
    rounds: Int[Array, ""]
    change: Float[Array, ""]


def solve(
    x: Rows, centred: Labels, sigma: Float[Array, ""], width: Int[Array, ""], waves: Waves | None, size: int
) -> Found:
    """The weight of a layer. `waves`: random features instead of the kernel; `size`: the rows of a block."""
    used = jnp.arange(x.shape[1]) < width
    matrix = (
        partial(_exact, x, centred, sigma, size) if waves is None else partial(_rough, x, centred, sigma, waves, size)
    )

    def going(state: Found) -> Array:
        return (state.rounds < 2) | ((state.change >= TOLERANCE) & (state.rounds < ROUNDS))

    def again(state: Found) -> Found:
        values, weight = _smallest(matrix(state.weight), used)
        change = jnp.linalg.norm(values - state.values) / jnp.maximum(jnp.linalg.norm(state.values), 1e-300)
        return Found(weight, values, state.rounds + 1, change)

    # The first weight is that of a kernel of ones: Psi = Gamma, whose rows sum to 0.
    sums = x.T @ centred
    values, weight = _smallest(-sums @ sums.T, used)
    return jax.lax.while_loop(going, again, Found(weight, values, jnp.asarray(0), jnp.asarray(jnp.inf, x.dtype)))


def _smallest(matrix: Matrix, used: Array) -> tuple[Array, Array]:
    """The smallest eigenvalues and their vectors, as many as are used, zeros for the rest."""
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2, symmetrize_input=False)
    return jnp.where(used, values, 0), jnp.where(used[None], vectors, 0)


def _exact(x: Rows, centred: Labels, sigma: Array, size: int, weight: Matrix) -> Matrix:
    """Phi with the kernel itself, by blocks of its rows."""
    projected = x @ weight

    def part(rows: Array, seen: Array, labels: Array) -> Array:
        psi = gaussian(seen, projected, sigma) * (labels @ centred.T)
        return rows.T @ (jnp.sum(psi, 1)[:, None] * rows - psi @ x)

    return over_blocks(part, (x, projected, centred), size)


def _rough(x: Rows, centred: Labels, sigma: Array, waves: Waves, size: int, weight: Matrix) -> Matrix:
    """Phi with random features f: Psi = Z Z^T, where the row i of Z is the product of all labels and features of i."""
    projected = x @ weight
    features = lambda seen: random_features(seen, waves, sigma)
    sums = over_blocks(lambda seen, labels: features(seen).T @ labels, (projected, centred), size)

    def part(rows: Array, seen: Array, labels: Array) -> tuple[Array, Array]:
        made = features(seen)
        total = jnp.sum((made @ sums) * labels, 1)
        both = (labels[:, :, None] * made[:, None]).reshape(len(rows), -1)
        return rows.T @ (total[:, None] * rows), rows.T @ both

    scaled, crossed = over_blocks(part, (x, projected, centred), size)
    return scaled - crossed @ crossed.T


def residual(matrix: Callable[[Matrix], Matrix], weight: Matrix) -> Float[Array, ""]:
    """How far a weight is from the fixed point: |Phi W - W (W^T Phi W)| / |Phi W|."""
    moved = matrix(weight) @ weight
    return jnp.linalg.norm(moved - weight @ (weight.T @ moved)) / jnp.linalg.norm(moved)
