r"""Measures of a layer: alignment with the labels, silhouette, scatter.

    H* = <A, B> / (|A| |B|),   A = H K,   B = H Y Y^T        (the authors': centered on one side)
    CKA: the same with A = H K H and B = H Y Y^T H

All from sums over blocks of rows; rows without a label (zeros in Y) count for nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fewstep._kernels._hsic import Labels
from fewstep._kernels._kernel import Rows, above_zero, map_blocks, over_blocks, squared_distances


class Alignment(NamedTuple):
    """How alike a kernel and that of the labels are: 1 is best."""

    normalized: Float[Array, ""]
    cka: Float[Array, ""]


def alignment(kernel: Callable[[Rows, Rows], Array], x: Rows, labels: Labels, size: int) -> Alignment:
    """Both alignments of `kernel(rows, others)` with the one-hot labels, by blocks of `size` rows."""
    here = jnp.sum(labels, 1)
    centered = center(labels)

    def part(rows: Array, is_here: Array, own_labels: Array) -> tuple[Array, ...]:
        block = kernel(rows, x) * is_here[:, None] * here[None]
        sums = jnp.sum(block, 1)
        by_class = block @ labels
        return (
            jnp.sum(block**2),
            jnp.sum(sums**2),
            jnp.sum(sums),
            jnp.sum(own_labels * by_class),
            jnp.sum(own_labels * (block @ centered)),
        )

    squares, of_sums, total, cross, both = over_blocks(part, (x, here, centered), size)
    count, inner, outer = jnp.sum(here), centered.T @ centered, labels.T @ labels
    one_sided = (squares - of_sums / count) * jnp.sum(inner * outer)
    two_sided = (squares - 2 * of_sums / count + (total / count) ** 2) * jnp.sum(inner * inner)
    bound = squares * jnp.sum(outer**2)
    return Alignment(_cosine(cross, one_sided, bound), _cosine(both, two_sided, bound))


def _cosine(product: Array, squares: Array, bound: Array) -> Array:
    """The product over the root of the squares, which are at most `bound`; 0 where they are only rounding."""
    there = squares > 1e3 * jnp.finfo(squares.dtype).eps * bound
    return jnp.where(there, product / jnp.sqrt(jnp.where(there, squares, 1)), 0)


def linear_alignment(features: Rows, labels: Labels) -> Alignment:
    """Both alignments of the kernel that the products of the features are; no n x n matrix is computed."""
    here = jnp.sum(labels, 1, keepdims=True)
    own_rows, centered = features * here, center(labels)
    sums = jnp.sum(own_rows, 0)
    gram, inner, outer = own_rows.T @ own_rows, centered.T @ centered, labels.T @ labels
    between = gram - sums[:, None] * sums[None] / jnp.sum(here)
    cross, both = jnp.sum((own_rows.T @ centered) * (own_rows.T @ labels)), jnp.sum((own_rows.T @ centered) ** 2)
    bound = jnp.sum(gram**2) * jnp.sum(outer**2)
    one_sided, two_sided = jnp.sum(gram * between) * jnp.sum(inner * outer), jnp.sum(between**2) * jnp.sum(inner**2)
    return Alignment(_cosine(cross, one_sided, bound), _cosine(both, two_sided, bound))


def one_hot(codes: np.ndarray) -> Labels:
    """Labels from the numbers of the classes, in double precision."""
    return np.eye(int(codes.max()) + 1)[codes]


def center(labels: Labels, *, balance: bool = False) -> Labels:
    """One-hot labels less their mean; rows without a label stay zero. `balance`: all classes count alike."""
    here = jnp.sum(labels, 1, keepdims=True)
    counts = jnp.sum(labels, 0)
    centered = (labels - counts[None] / jnp.sum(here)) * here
    return centered * jnp.sqrt(jnp.mean(counts) / jnp.maximum(counts, 1))[None] if balance else centered


def silhouette(x: Rows, labels: Labels, size: int) -> Float[Array, ""]:
    """The mean over all rows of (b - a) / max(a, b): a is the mean distance to the row's own class, b to the nearest
    other. A row alone in its class has 0, and so has every row where there is no other class."""
    counts = jnp.sum(labels, 0)

    def part(rows: Array, own_labels: Array) -> Array:
        sums = jnp.sqrt(squared_distances(rows, x)) @ labels
        within = jnp.sum(sums * own_labels, 1) / jnp.maximum(jnp.sum(own_labels * counts[None], 1) - 1, 1)
        is_other = (own_labels == 0) & (counts[None] > 0)
        other = jnp.min(jnp.where(is_other, sums / jnp.maximum(counts[None], 1), jnp.inf), 1)
        alone = jnp.sum(own_labels * counts[None], 1) <= 1
        scores = (other - within) / above_zero(jnp.maximum(within, other))
        return jnp.where(alone | jnp.isinf(other), 0, scores)

    return jnp.sum(map_blocks(part, (x, labels), size)) / jnp.sum(counts)


def scatter_ratio(x: Rows, labels: Labels, size: int) -> Float[Array, ""]:
    """The authors' T: the sum of distances within classes, divided by that between classes."""
    here = jnp.sum(labels, 1)

    def part(rows: Array, own_labels: Array) -> tuple[Array, Array]:
        distances = jnp.sqrt(squared_distances(rows, x))
        return jnp.sum(own_labels * (distances @ labels)), jnp.sum(distances @ here * jnp.sum(own_labels, 1))

    within, all_pairs = over_blocks(part, (x, labels), size)
    return within / (all_pairs - within)


def trace_ratio(x: Rows, labels: Labels) -> Float[Array, ""]:
    """Equation 6: Tr(S_w) / Tr(S_b), the scatter about the class means and that of the class means."""
    counts = jnp.sum(labels, 0)
    means = (labels.T @ x) / jnp.maximum(counts, 1)[:, None]
    here = jnp.sum(labels, 1, keepdims=True)
    within = jnp.sum(jnp.square((x - labels @ means) * here))
    middle = jnp.sum(x * here, 0) / jnp.sum(here)
    return within / jnp.sum(counts[:, None] * jnp.square(means - middle[None]))
