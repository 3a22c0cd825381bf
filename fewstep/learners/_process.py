"""What neural processes share: they read the whole support at once, and answer with a mean and a standard deviation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep import losses
from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._sequence import Sizes, labels_of

Layers = list[_dense.Weights]
Memory = dict[str, Array]


def neural_process(
    sizes: Sizes,
    init: Callable[[Key[Array, ""]], Meta],
    read: Callable[[Meta, Array, Array], Memory],
    answer: Callable[[Meta, Memory, Array], Array],
    min_sd: float,
) -> Learner:
    """The learner that reads a support and answers each row of a query for itself.

    **Arguments:** `read(meta, rows, there)` keeps what it needs of the support's rows (x, y), of which those that are
    `there` count; `answer(meta, memory, x)` gives the `heads_of(sizes)` numbers of each row of x: logits of classes, or
    means and standard deviations, the latter before `min_sd + softplus`.
    """

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        rows = jnp.concatenate([_flat(support.x), labels_of(support, sizes).astype(support.x.dtype)], axis=1)
        once = Adapted(read(meta, rows, support.weight > 0), ())
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def both(meta: Meta, adapted: Adapted, x: Array) -> tuple[Array, Array]:
        raw = answer(meta, adapted.fast, _flat(jnp.asarray(x)))
        mean, sd = jnp.split(raw, 2, axis=1)
        return mean, min_sd + jax.nn.softplus(sd)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        return answer(meta, adapted.fast, _flat(jnp.asarray(x))) if sizes.classes else both(meta, adapted, x)[0]

    def spread(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        return both(meta, adapted, x)[1]

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        adapted, query = adapt(meta, key, episode.support, 0), episode.query
        if sizes.classes:
            return losses.cross_entropy(predict(meta, adapted, query.x), query)
        return losses.weighted_mean(-log_likelihood(*both(meta, adapted, query.x), query.y), query.weight)

    return Learner(init, loss, adapt, predict, spread=None if sizes.classes else spread)


def log_likelihood(
    mean: Float[Array, "rows d"], sd: Float[Array, "rows d"], y: Float[Array, "rows d"]
) -> Float[Array, " rows"]:
    """The logarithm of the density of each row, the mean over its columns."""
    return jnp.mean(-jnp.square((y - mean) / sd) / 2 - jnp.log(sd) - jnp.log(2 * jnp.pi) / 2, axis=1)


def heads_of(sizes: Sizes) -> int:
    """How many numbers answer for a row: a logit for each class, or mean and deviation of each output."""
    return sizes.outputs * (1 if sizes.classes else 2)


def perceptron(key: Key[Array, ""], widths: tuple[int, ...], gain: float = 1.0) -> Layers:
    """Dense layers from width to width; `gain` of the last."""
    keys = jax.random.split(key, len(widths) - 1)
    gains = [2**0.5] * (len(widths) - 2) + [gain]
    return [_dense.dense(k, a, b, g) for k, a, b, g in zip(keys, widths[:-1], widths[1:], gains, strict=True)]


def forward(layers: Layers, x: Float[Array, "rows d"]) -> Float[Array, "rows e"]:
    """The perceptron, with rectified units between its layers."""
    for layer in layers[:-1]:
        x = jax.nn.relu(_dense.apply(layer, x))
    return _dense.apply(layers[-1], x)


def attend(
    query: Float[Array, "rows d"], key: Float[Array, "others d"], value: Float[Array, "others d"],
    visible: Bool[Array, " others"], heads: int, own: tuple[Array, Array] | None = None,
) -> Float[Array, "rows d"]:  # fmt: skip
    """Attention of several heads to the rows that are visible, and to `own` key and value of each row, if given."""
    split = lambda rows: rows.reshape(len(rows), heads, -1)
    q, k, v = split(query) / (query.shape[1] / heads) ** 0.5, split(key), split(value)
    scores = jnp.where(visible[None, None], jnp.einsum("qhd,khd->hqk", q, k), _FAR)
    if own is None:
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(query.shape)
    alone = jnp.sum(q * split(own[0]), axis=2).T[:, :, None]
    shares = jax.nn.softmax(jnp.concatenate([scores, alone], axis=2))
    read = jnp.einsum("hqk,khd->qhd", shares[:, :, :-1], v)
    return (read + shares[:, :, -1].T[:, :, None] * split(own[1])).reshape(query.shape)


_FAR = -1e30  # not infinity: where nothing is visible, the shares are finite


def _flat(x: Array) -> Float[Array, "rows d"]:
    return x.reshape(x.shape[0], -1).astype(jnp.result_type(float))
