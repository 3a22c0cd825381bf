r"""The spectral layer, W*: the Iterative Spectral Method.

    maximize  sum_ij Gamma_ij k(W^T r_i, W^T r_j)   over W with orthonormal columns

The gradient vanishes where the columns of W are eigenvectors of

    Phi = R^T (Diag(Psi 1) - Psi) R,      Psi_ij = Gamma_ij k(W^T r_i, W^T r_j)

so W is set to the eigenvectors of the smallest eigenvalues, again and again, until the eigenvalues stay. They need not:
in late layers the iteration can run into a cycle of two weights. It ends then as well, with the better of them.

Reference: Wu, Miller, Chang, Sznaier & Dy, Solving Interpretable Kernel Dimension Reduction, NeurIPS 2019.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fewstep._kernels._hsic import Labels
from fewstep._kernels._kernel import AnyArray, Rows, Waves, above_zero, gaussian, over_blocks, random_features

TOLERANCE, ROUNDS = 0.01, 200  # of the eigenvalues, as in the authors' code
RISE, PATIENCE = 1e-3, 4  # it ends, too, when the dependence has risen by no more than this in so many rounds
Matrix = Float[Array, "d d"]
Weight = Float[AnyArray, "d width"]


class Solution(NamedTuple):
    """The end of the iteration; columns of `weight` from the width on are zero. `change` is of the eigenvalues."""

    weight: Matrix
    values: Float[Array, " d"]
    rounds: Int[Array, ""]
    change: Float[Array, ""]


class _Best(NamedTuple):
    """The weight of the largest dependence so far, and the rounds since that last rose."""

    weight: Matrix
    dependence: Float[Array, ""]
    rounds_since: Int[Array, ""]


def solve(
    x: Rows, centered: Labels, sigma: Float[Array, ""], width: Int[Array, ""], waves: Waves | None, size: int
) -> Solution:
    """The weight of a layer. `waves`: random features instead of the kernel; `size`: the rows of a block."""
    is_used = jnp.arange(x.shape[1]) < width
    matrix = matrix_of(x, centered, sigma, waves, size)

    def goes_on(state: tuple[Solution, _Best]) -> Array:
        last, best = state
        more = (last.change >= TOLERANCE) & (last.rounds < ROUNDS) & (best.rounds_since < PATIENCE)
        return (last.rounds < 2) | more

    def iterate(state: tuple[Solution, _Best]) -> tuple[Solution, _Best]:
        last, best = state
        phi, dependence = matrix(last.weight)
        values, weight = _smallest(phi, is_used)
        change = jnp.linalg.norm(values - last.values) / above_zero(jnp.linalg.norm(last.values))
        return Solution(weight, values, last.rounds + 1, change), _better(best, last.weight, dependence)

    values, weight = _smallest(_first(x, centered), is_used)
    first = Solution(weight, values, jnp.asarray(0), jnp.asarray(jnp.inf, x.dtype))
    last, best = jax.lax.while_loop(goes_on, iterate, (first, _Best(weight, -first.change, jnp.asarray(0))))
    return last._replace(weight=jnp.where(last.change < TOLERANCE, last.weight, best.weight))


def _first(x: Rows, centered: Labels) -> Matrix:
    """Phi for a kernel of ones: Psi = Gamma, whose rows sum to 0. It has no more directions than classes; a little of
    the scatter of all rows chooses the others, where else rounding would."""
    sums, scatter = x.T @ centered, x.T @ x
    little = 1e-6 * jnp.sum(sums**2) / above_zero(jnp.trace(scatter))
    return jnp.asarray(-(sums @ sums.T) - little * scatter)


def _better(best: _Best, weight: Matrix, dependence: Array) -> _Best:
    rose = dependence > best.dependence + RISE * jnp.abs(dependence)
    higher = dependence > best.dependence
    return _Best(
        jnp.where(higher, weight, best.weight), jnp.maximum(dependence, best.dependence),
        jnp.where(rose, 0, best.rounds_since + 1),
    )  # fmt: skip


def matrix_of(
    x: Rows, centered: Labels, sigma: Float[AnyArray, ""], waves: Waves | None, size: int
) -> Callable[[Weight], tuple[Matrix, Float[Array, ""]]]:
    """Phi and the dependence as a function of the weight."""
    if waves is None:
        return partial(_exact, x, centered, sigma, size)
    return partial(_rough, x, centered, sigma, waves, size)


def _smallest(matrix: Matrix, is_used: Array) -> tuple[Array, Array]:
    """The smallest eigenvalues and their vectors, as many as are used, zeros for the rest.

    The sum of a vector's cubes is not negative, which settles its sign.
    """
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2, symmetrize_input=False)
    vectors = jnp.where(jnp.sum(vectors**3, 0) < 0, -1, 1)[None] * vectors
    return jnp.where(is_used, values, 0), jnp.where(is_used[None], vectors, 0)


def _exact(x: Rows, centered: Labels, sigma: AnyArray, size: int, weight: Weight) -> tuple[Matrix, Array]:
    """With the kernel itself, by blocks of its rows."""
    projected = x @ weight

    def part(rows: Array, projection: Array, labels: Array) -> tuple[Array, Array]:
        psi = gaussian(projection, projected, sigma) * (labels @ centered.T)
        sums = jnp.sum(psi, 1)
        return rows.T @ (sums[:, None] * rows - psi @ x), jnp.sum(sums)

    return over_blocks(part, (x, projected, centered), size)


def _rough(x: Rows, centered: Labels, sigma: AnyArray, waves: Waves, size: int, weight: Weight) -> tuple[Matrix, Array]:
    """With random features f: Psi = Z Z^T, where the row i of Z is the product of all labels and features of i.

    A block is taken in single precision, whose rounding is far below the error of the features, and twice as fast;
    blocks are summed in that of the rows.
    """
    single, dtype = (lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), tree)), x.dtype
    waves, sigma, projected = single(waves), single(sigma), single(x @ weight)
    features = lambda projection: random_features(projection, waves, sigma)
    sums = over_blocks(
        lambda projection, labels: (features(projection).T @ labels).astype(dtype), (projected, single(centered)), size
    )

    def part(rows: Array, projection: Array, labels: Array) -> tuple[Array, Array]:
        f = features(projection)
        total = jnp.sum((f @ single(sums)) * labels, 1)
        both = (labels[:, :, None] * f[:, None]).reshape(len(rows), -1)
        return (rows.T @ (total[:, None] * rows)).astype(dtype), (rows.T @ both).astype(dtype)

    diagonal, cross = over_blocks(part, (single(x), projected, single(centered)), size)
    return diagonal - cross @ cross.T, jnp.sum(sums**2)


def residual(matrix: Matrix, weight: Weight) -> Float[Array, ""]:
    """How far a weight is from the fixed point: |Phi W - W (W^T Phi W)| / |Phi W|."""
    image = matrix @ weight
    return jnp.linalg.norm(image - weight @ (weight.T @ image)) / jnp.linalg.norm(image)
