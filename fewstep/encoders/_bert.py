"""The transformer of BERT: embeddings, then layers of attention and a perceptron, each normalized after its sum.

Reference: Devlin, Chang, Lee & Toutanova, BERT, NAACL 2019.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fewstep._network import Layer, Leaf
from fewstep.encoders._heads import dense_layer
from fewstep.networks.mlp import dense

Params = dict[str, dict[str, Array]]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": partial(jax.nn.gelu, approximate=False), "gelu_new": jax.nn.gelu, "relu": jax.nn.relu,
}  # fmt: skip
_NORM = "part of a normalization"
_HIDDEN = -1e9


class Sizes(NamedTuple):
    """The hyper-parameters of a BERT."""

    width: int
    inner: int
    heads: int
    layers: int
    positions: int
    vocabulary: int
    segments: int
    epsilon: float
    activation: str


def embed(params: Params, sizes: Sizes, ids: Int[Array, "rows tokens"]) -> Float[Array, "rows tokens width"]:
    """The sums of the embeddings of words, positions and the first kind of segment, normalized."""
    table = params["embeddings"]
    places = (table["positions"][: ids.shape[1]] + table["segment"][None])[None]
    return _normalize(params["embeddings_norm"], jnp.take(table["words"], ids, axis=0) + places, sizes.epsilon)


def run(
    params: Params, sizes: Sizes, hidden: Float[Array, "rows tokens width"], mask: Array, numbers: range
) -> Float[Array, "rows tokens width"]:
    """Some of the layers, by number, on hidden states; the mask is 1 at real tokens."""
    apart = jnp.where(mask > 0, 0.0, _HIDDEN)[:, None, None, :]
    for number in numbers:
        hidden = _layer(params, sizes, f"layer_{number}", hidden, apart)
    return hidden


def _layer(params: Params, sizes: Sizes, name: str, hidden: Array, apart: Array) -> Array:
    part = lambda kind: params[f"{name}_{kind}"]
    attended = _attend(part, sizes, hidden, apart)
    hidden = _normalize(part("attention_norm"), hidden + attended, sizes.epsilon)
    inner = ACTIVATIONS[sizes.activation](_dense(part("inner"), hidden))
    return _normalize(part("outer_norm"), hidden + _dense(part("outer"), inner), sizes.epsilon)


def _attend(part: Callable[[str], dict[str, Array]], sizes: Sizes, hidden: Array, apart: Array) -> Array:
    heads = lambda kind: _dense(part(kind), hidden).reshape(*hidden.shape[:2], sizes.heads, -1)
    query, key, value = heads("query"), heads("key"), heads("value")
    scores = jnp.einsum("rqhd,rkhd->rhqk", query, key) / (sizes.width / sizes.heads) ** 0.5
    shares = jax.nn.softmax(scores + apart, axis=-1)
    return _dense(part("mix"), jnp.einsum("rhqk,rkhd->rqhd", shares, value).reshape(hidden.shape))


def _dense(layer: dict[str, Array], x: Float[Array, "rows tokens inputs"]) -> Array:
    return dense(layer, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:2], -1)


def _normalize(layer: dict[str, Array], x: Array, epsilon: float) -> Array:
    apart = x - x.mean(-1, keepdims=True)
    scaled = apart * jax.lax.rsqrt(jnp.square(apart).mean(-1, keepdims=True) + epsilon)
    return scaled * layer["scale"][None, None] + layer["shift"][None, None]


def pool(hidden: Float[Array, "rows tokens width"], mask: Array, how: str, unit: bool) -> Float[Array, "rows width"]:
    """One row per text: the mean over its real tokens or the first token, of length 1 if `unit`."""
    count = jnp.maximum(mask.sum(1), 1.0)[:, None]
    rows = (hidden * mask[..., None]).sum(1) / count if how == "mean" else hidden[:, 0]
    return rows * jax.lax.rsqrt(jnp.square(rows).sum(-1, keepdims=True) + 1e-24) if unit else rows


def layers(sizes: Sizes, numbers: range) -> tuple[Layer, ...]:
    """The layer table of some of the layers."""
    table: list[Layer] = []
    for number in numbers:
        of = lambda kind, number=number: f"layer_{number}_{kind}"
        table += [dense_layer(of(kind), sizes.width) for kind in ("query", "key", "value", "mix")]
        table += [_norm(of("attention_norm")), dense_layer(of("inner"), sizes.inner)]
        table += [dense_layer(of("outer"), sizes.width), _norm(of("outer_norm"))]
    return tuple(table)


def _norm(name: str) -> Layer:
    return Layer(name, 0, (Leaf(f"{name}/scale", ()), Leaf(f"{name}/shift", ())), _NORM)
