"""Cholesky's factor and triangular solves of small matrices, as loops over columns.

On a CPU, JAX calls LAPACK for each matrix, which takes longer than these loops for matrices of some dozen rows that are
mapped over tasks. Programs with many such calls were also seen to wait forever (jaxlib 0.10.2); these make none.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def cholesky(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower factor of a matrix that is symmetric and positive definite."""
    rows = jnp.arange(matrix.shape[0])

    def column(number: Array | int, factor: Array) -> Array:
        rest = matrix[:, number] - factor @ factor[number]
        return factor.at[:, number].set(jnp.where(rows >= number, rest / jnp.sqrt(rest[number]), 0.0))

    return jax.lax.fori_loop(0, matrix.shape[0], column, jnp.zeros_like(matrix))


def solve_lower(factor: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The solution of `factor @ x = right` with a lower triangular factor."""

    def row(number: Array | int, x: Array) -> Array:
        return x.at[number].set((right[number] - factor[number] @ x) / factor[number, number])

    return jax.lax.fori_loop(0, factor.shape[0], row, jnp.zeros_like(right))


def solve_factored(factor: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The solution of `factor @ factor.T @ x = right`."""
    half, last = solve_lower(factor, right), factor.shape[0] - 1

    def row(number: Array | int, x: Array) -> Array:
        place = last - number
        return x.at[place].set((half[place] - factor[:, place] @ x) / factor[place, place])

    return jax.lax.fori_loop(0, factor.shape[0], row, jnp.zeros_like(right))


def solve_positive(matrix: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The solution of `matrix @ x = right` with a symmetric positive definite matrix."""
    return solve_factored(cholesky(matrix), right)
