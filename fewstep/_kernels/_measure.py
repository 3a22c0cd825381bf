r"""What a layer has reached: alignment with the labels, silhouette, scatter.

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

    def part(rows: Array, own: Array, mine: Array) -> tuple[Array, ...]:
        block = kernel(rows, x) * own[:, None] * here[None]
        sums = jnp.sum(block, 1)
        seen = block @ labels
        return (
            jnp.sum(block**2),
            jnp.sum(sums**2),
            jnp.sum(sums),
            jnp.sum(mine * seen),
            jnp.sum(mine * (block @ centered)),
        )

    squares, of_sums, total, crossed, both = over_blocks(part, (x, here, centered), size)
    count, inner, outer = jnp.sum(here), centered.T @ centered, labels.T @ labels
    one_sided = (squares - of_sums / count) * jnp.sum(inner * outer)
    two_sided = (squares - 2 * of_sums / count + (total / count) ** 2) * jnp.sum(inner * inner)
    most = squares * jnp.sum(outer**2)
    return Alignment(_cosine(crossed, one_sided, most), _cosine(both, two_sided, most))


def _cosine(product: Array, squares: Array, most: Array) -> Array:
    """The product over the root of the squares, which are at most `most`; 0 where they are only rounding."""
    there = squares > 1e3 * jnp.finfo(squares.dtype).eps * most
    return jnp.where(there, product / jnp.sqrt(jnp.where(there, squares, 1)), 0)


def linear_alignment(features: Rows, labels: Labels) -> Alignment:
    """Both alignments of the kernel that the products of the features are; nothing of n x n is made."""
    here = jnp.sum(labels, 1, keepdims=True)
    own, centered = features * here, center(labels)
    sums = jnp.sum(own, 0)
    plain, inner, outer = own.T @ own, centered.T @ centered, labels.T @ labels
    between = plain - sums[:, None] * sums[None] / jnp.sum(here)
    crossed, both = jnp.sum((own.T @ centered) * (own.T @ labels)), jnp.sum((own.T @ centered) ** 2)
    most = jnp.sum(plain**2) * jnp.sum(outer**2)
    one_sided, two_sided = jnp.sum(plain * between) * jnp.sum(inner * outer), jnp.sum(between**2) * jnp.sum(inner**2)
    return Alignment(_cosine(crossed, one_sided, most), _cosine(both, two_sided, most))


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

    def part(rows: Array, mine: Array) -> Array:
        sums = jnp.sqrt(squared_distances(rows, x)) @ labels
        own = jnp.sum(sums * mine, 1) / jnp.maximum(jnp.sum(mine * counts[None], 1) - 1, 1)
        other = jnp.min(jnp.where((mine > 0) | (counts[None] == 0), jnp.inf, sums / jnp.maximum(counts[None], 1)), 1)
        alone = jnp.sum(mine * counts[None], 1) <= 1
        worth = (other - own) / above_zero(jnp.maximum(own, other))
        return jnp.where(alone | jnp.isinf(other), 0, worth)

    return jnp.sum(map_blocks(part, (x, labels), size)) / jnp.sum(counts)


def scatter_ratio(x: Rows, labels: Labels, size: int) -> Float[Array, ""]:
    """The authors' T: the sum of distances within classes, divided by that between classes."""
    here = jnp.sum(labels, 1)

    def part(rows: Array, mine: Array) -> tuple[Array, Array]:
        apart = jnp.sqrt(squared_distances(rows, x))
        return jnp.sum(mine * (apart @ labels)), jnp.sum(apart @ here * jnp.sum(mine, 1))

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
