r"""The closed-form layer, W_s: every class is the mean of its rows in the kernel's space.

    z_c(x) = sum_{i in class c} k(r_i, x) / n_c,        n_c = |sum_{i in class c} phi(r_i)|

From the second layer on, each class has a second column: the sum over its rows that the layer before gave to another
class. The bandwidth is the first of a falling list at which the dependence on the labels rises.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding; the authors' code of 2021.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fewstep._kernels import (
    Alignment,
    AnyArray,
    Labels,
    Rows,
    Waves,
    alignment,
    best_bandwidth,
    center,
    gaussian,
    map_blocks,
    over_blocks,
    random_features,
)
from fewstep.layerwise._rows import Blocks

FLOOR = 0.01  # of the bandwidth that a layer is judged with


class Embedding(NamedTuple):
    """A layer: rows of the layer below, or random features, and the share of each in each column."""

    rows: Rows | None
    shares: Float[AnyArray, "rows columns"]
    waves: Waves | None
    sigma: Float[AnyArray, ""]


class Search(NamedTuple):
    """The state of the search for a bandwidth."""

    place: Int[Array, ""]
    improved: Bool[Array, ""]
    features: Rows
    bandwidth: Float[Array, ""]
    alignment: Alignment


def forward(layer: Embedding, x: Rows, size: int) -> Float[Array, "rows columns"]:
    """A whole layer, by blocks of rows of `x`."""
    if (waves := layer.waves) is not None:
        return map_blocks(lambda rows: random_features(rows, waves, layer.sigma) @ layer.shares, (x,), size)
    below = jnp.asarray(layer.rows)
    return map_blocks(lambda rows: gaussian(rows, below, layer.sigma) @ layer.shares, (x,), size)


def embed(x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigma: Array, size: int) -> Embedding:
    """The layer of one bandwidth. `wrong` are the labels of the rows that went wrong below, zeros for the rest."""
    if waves is None:
        norms = over_blocks(lambda rows, own: jnp.sum(own * (gaussian(rows, x, sigma) @ labels), 0), (x, labels), size)
        return Embedding(x, jnp.concatenate([labels / _root(norms), wrong], 1), None, sigma)
    sums = over_blocks(
        lambda rows, own, bad: random_features(rows, waves, sigma).T @ jnp.concatenate([own, bad], 1),
        (x, labels, wrong), size,
    )  # fmt: skip
    classes = labels.shape[1]
    norms = jnp.sum(sums[:, :classes] ** 2, 0)
    return Embedding(None, sums / jnp.concatenate([_root(norms), jnp.ones((1, classes))], 1), waves, sigma)


def search(
    x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigmas: Float[Array, " tries"], min_hsic: Array,
    samples: tuple[Array, Array], blocks: Blocks,
) -> tuple[Search, Embedding]:  # fmt: skip
    """The layer of the first bandwidth that raises the dependence above `min_hsic`; else `improved` is false."""
    (few, many), size = samples, blocks.size
    few_labels = center(labels[few])

    def evaluate(place: Array | int) -> Search:
        features = forward(embed(x, labels, wrong, waves, sigmas[place], size), x, size)
        bandwidth = jnp.maximum(best_bandwidth(features[few], few_labels), FLOOR)
        dependence = alignment(lambda a, b: gaussian(a, b, bandwidth), features[many], labels[many], blocks.sample_size)
        return Search(jnp.asarray(place), dependence.normalized > min_hsic, features, bandwidth, dependence)

    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(evaluate, 0))
    goes_on = lambda state: ~state.improved & (state.place + 1 < sigmas.size)
    last = jax.lax.while_loop(goes_on, lambda state: evaluate(state.place + 1), blank._replace(place=jnp.asarray(-1)))
    return last, embed(x, labels, wrong, waves, sigmas[last.place], size)


def mistakes(features: Rows, labels: Labels) -> Labels:
    """The labels of the rows whose largest class column is another class's, zeros for the rest."""
    predictions = jnp.argmax(features[:, : labels.shape[1]], 1)
    return labels * (predictions != jnp.argmax(labels, 1))[:, None]


def _root(norms: Array) -> Array:
    return jnp.sqrt(jnp.maximum(norms, jnp.finfo(norms.dtype).tiny))[None]
