r"""SNAIL: a task is a sequence, read by causal convolutions and attention.

    tokens (f(x_1), y_1) ... (f(x_K), y_K), (f(x*), ?)   ->   blocks   ->   y*

A convolution looks two steps back, with gaps that double from one to the next, and adds what it found, tanh times a
gate, to the channels it was given; an attention adds what it read of all steps before.

Reference: Mishra, Rohaninejad, Chen & Abbeel, A Simple Neural Attentive Meta-Learner, ICLR 2018.
"""

from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep import losses
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._sequence import Sizes, by_sequence


class Blocks(NamedTuple):
    """The blocks of a SNAIL, in order: `attention` pairs of key and value widths; `convolutions` channels of each run
    of convolutions between them. One of the two begins."""

    convolutions: tuple[int, ...]
    attention: tuple[tuple[int, int], ...]
    attention_first: bool


CURVES = Blocks((16, 16), ((8, 8), (8, 8)), attention_first=False)  # as in the universality paper's sine experiment
IMAGES = Blocks((128, 128), ((64, 32), (256, 128), (512, 256)), attention_first=True)  # as in SNAIL's Omniglot


def snail(
    network: Network,
    sizes: Sizes,
    loss: Loss = losses.squared_error,
    *,
    longest: int = 16,
    blocks: Blocks = CURVES,
) -> Learner:
    """The learner SNAIL. `network` gives features of an input.

    **Arguments:** `sizes` of features and outputs; `longest`, the length that the gaps of the convolutions double up
    to: at least the examples of a task and one.
    """
    gaps = [2**power for power in range(max(1, (longest - 1).bit_length()))]
    order = _order(blocks)

    def init(key: Key[Array, ""]) -> Meta:
        width, weights = sizes.token, {}
        for number, (kind, size) in enumerate(order):
            key, own = jax.random.split(key)
            weights[f"{kind}_{number}"], width = _BEGIN[kind](own, width, size, gaps)
        return {"snail": {**weights, "last": _dense.dense(key, width, sizes.outputs, gain=0.1)}}

    def read(meta: Meta, rows: Float[Array, "steps d"], there: Bool[Array, " steps"]) -> Float[Array, " outputs"]:
        for number, (kind, size) in enumerate(order):
            weights = meta["snail"][f"{kind}_{number}"]
            rows = (
                _convolve(weights, rows, there, gaps)
                if kind == "convolutions"
                else _attend(weights, rows, there, size[0])
            )
        return _dense.apply(meta["snail"]["last"], rows[-1])

    return by_sequence(network, sizes, loss, init, read)


def _order(blocks: Blocks) -> list[tuple[str, tuple[int, ...]]]:
    runs = [("convolutions", (channels,)) for channels in blocks.convolutions]
    reads = [("attention", pair) for pair in blocks.attention]
    first, second = (reads, runs) if blocks.attention_first else (runs, reads)
    order = [part for pair in zip(first, second, strict=False) for part in pair]
    return order + first[len(second) :] + second[len(first) :]


def _new_convolutions(
    key: Key[Array, ""], width: int, size: tuple[int, ...], gaps: list[int]
) -> tuple[dict[str, _dense.Weights], int]:
    channels = size[0]
    keys = jax.random.split(key, len(gaps))
    widths = [width + number * channels for number in range(len(gaps) + 1)]
    weights = {
        f"gap_{g}": _dense.dense(k, 2 * w, 2 * channels)
        for g, k, (w, _) in zip(gaps, keys, pairwise(widths), strict=True)
    }
    return weights, widths[-1]


def _new_attention(
    key: Key[Array, ""], width: int, size: tuple[int, ...], gaps: list[int]
) -> tuple[dict[str, _dense.Weights], int]:
    keys, outputs = jax.random.split(key, 3), {"query": size[0], "key": size[0], "value": size[1]}
    weights = {name: _dense.dense(k, width, n) for k, (name, n) in zip(keys, outputs.items(), strict=True)}
    return weights, width + size[1]


_BEGIN = {"convolutions": _new_convolutions, "attention": _new_attention}


def _convolve(
    weights: dict[str, _dense.Weights], rows: Float[Array, "steps d"], there: Bool[Array, " steps"], gaps: list[int]
) -> Float[Array, "steps more"]:
    """Padding stays 0, as what lies before the first step."""
    for gap in gaps:
        before = jnp.concatenate([jnp.zeros_like(rows[:gap]), rows])[: len(rows)]
        value, gate = jnp.split(_dense.apply(weights[f"gap_{gap}"], jnp.concatenate([before, rows], axis=1)), 2, axis=1)
        rows = jnp.concatenate([rows, jnp.where(there[:, None], jnp.tanh(value) * jax.nn.sigmoid(gate), 0.0)], axis=1)
    return rows


def _attend(
    weights: dict[str, _dense.Weights], rows: Float[Array, "steps d"], there: Bool[Array, " steps"], width: int
) -> Float[Array, "steps more"]:
    """Each step reads itself and those before it that are not padding."""
    query, key, value = (_dense.apply(weights[name], rows) for name in ("query", "key", "value"))
    steps = jnp.arange(len(rows))
    visible = (steps[:, None] >= steps[None]) & (there[None] | (steps[:, None] == steps[None]))
    attention = jax.nn.softmax(jnp.where(visible, query @ key.T / width**0.5, -jnp.inf), axis=1)
    return jnp.concatenate([rows, jnp.where(there[:, None], attention @ value, 0.0)], axis=1)
