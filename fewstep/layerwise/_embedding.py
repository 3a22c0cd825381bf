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

from fewstep._kernels._hsic import Labels, best_bandwidth
from fewstep._kernels._kernel import Held, Rows, Waves, gaussian, map_blocks, over_blocks, random_features
from fewstep._kernels._measure import Alignment, alignment, center
from fewstep.layerwise._rows import Cut

FLOOR = 0.01  # of the bandwidth that a layer is judged with


class Embedding(NamedTuple):
    """A layer: rows of the layer below, or random features, and the share of each in each column."""

    rows: Rows | None
    shares: Float[Held, "rows columns"]
    waves: Waves | None
    sigma: Float[Held, ""]


class Search(NamedTuple):
    """The state of the search for a bandwidth."""

    place: Int[Array, ""]
    raised: Bool[Array, ""]
    made: Rows
    judged: Float[Array, ""]
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
    x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigmas: Float[Array, " tries"], least: Array,
    looks: tuple[Array, Array], parts: Cut,
) -> tuple[Search, Embedding]:  # fmt: skip
    """The layer of the first bandwidth that raises the dependence above `least`; if none does, `raised` is false."""
    (few, some), size = looks, parts.size
    of_few = center(labels[few])

    def judge(place: Array | int) -> Search:
        made = forward(embed(x, labels, wrong, waves, sigmas[place], size), x, size)
        judged = jnp.maximum(best_bandwidth(made[few], of_few), FLOOR)
        reached = alignment(lambda a, b: gaussian(a, b, judged), made[some], labels[some], parts.look)
        return Search(jnp.asarray(place), reached.normalized > least, made, judged, reached)

    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(judge, 0))
    going = lambda state: ~state.raised & (state.place + 1 < sigmas.size)
    last = jax.lax.while_loop(going, lambda state: judge(state.place + 1), blank._replace(place=jnp.asarray(-1)))
    return last, embed(x, labels, wrong, waves, sigmas[last.place], size)


def mistaken(made: Rows, labels: Labels) -> Labels:
    """The labels of the rows whose largest class column is another class's, zeros for the rest."""
    given = jnp.argmax(made[:, : labels.shape[1]], 1)
    return labels * (given != jnp.argmax(labels, 1))[:, None]


def _root(norms: Array) -> Array:
    return jnp.sqrt(jnp.maximum(norms, jnp.finfo(norms.dtype).tiny))[None]
