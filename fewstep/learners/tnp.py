r"""The transformer neural process TNP-D: support and query are rows of one sequence, read by a transformer.

    rows  embed(x_i, y_i, 1)  of the support,  embed(x*, 0, 0)  of the query   ->   blocks   ->   mean, deviation at x*

Each row attends to the rows of the support, a row of the query to itself as well. So no answer depends on another row
of the query or on the order of the support, and nothing that the support's rows become depends on the query: `adapt`
computes their keys and values once, and each answer attends to these.

Reference: Nguyen & Grover, Transformer Neural Processes: Uncertainty-Aware Meta Learning Via Sequence Modeling, ICML
2022. Ours normalizes before each part of a block, not after it; the deviation is a softplus, not an exponential.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._process import attend, forward, heads_of, neural_process, perceptron
from fewstep.learners._sequence import Sizes

_EMBEDDING = 4  # layers
Block = dict[str, Any]


def np(
    sizes: Sizes,
    *,
    width: Annotated[int, "Width of the transformer."] = 64,
    blocks: Annotated[int, "Blocks of the transformer."] = 6,
    heads: Annotated[int, "Heads of each attention."] = 4,
    ff: Annotated[int, "Width of the perceptron in each block."] = 128,
    min_sd: Annotated[float, "Smallest standard deviation that it answers with."] = 0.01,
) -> Learner:
    """The transformer neural process.

    **Arguments:** `sizes` of inputs and outputs, which are numbers or classes.

    Example::

        learner = np(Sizes(features=1, outputs=1, classes=False))
    """
    if heads < 1 or width % heads:
        raise FewstepError(f"width is {width} and heads is {heads}. A width must be a multiple of the heads: 64 of 4.")

    def init(key: Key[Array, ""]) -> Meta:
        of_embedding, of_blocks, of_head = jax.random.split(key, 3)
        return {"np": {
            "embedding": perceptron(of_embedding, (sizes.token, *[width] * _EMBEDDING)),
            "blocks": [_new_block(k, width, ff, blocks) for k in jax.random.split(of_blocks, blocks)],
            "last": _norm(width),
            "head": perceptron(of_head, (width, ff, heads_of(sizes)), gain=0.1),
        }}  # fmt: skip

    def read(meta: Meta, rows: Float[Array, "rows d"], there: Bool[Array, " rows"]) -> dict[str, Array]:
        tokens = forward(meta["np"]["embedding"], jnp.concatenate([rows, jnp.ones_like(rows[:, :1])], axis=1))
        known = []
        for block in meta["np"]["blocks"]:
            query, *own = _in(block, tokens)
            tokens = _out(block, tokens, attend(query, own[0], own[1], there, heads))
            known.append(jnp.stack(own))
        return {"known": jnp.stack(known), "there": there}

    def answer(meta: Meta, memory: dict[str, Array], x: Float[Array, "rows d"]) -> Float[Array, "rows out"]:
        nothing = jnp.zeros((x.shape[0], sizes.outputs + 1), x.dtype)
        tokens = forward(meta["np"]["embedding"], jnp.concatenate([x, nothing], axis=1))
        for number, block in enumerate(meta["np"]["blocks"]):
            query, *own = _in(block, tokens)
            key, value = memory["known"][number]
            tokens = _out(block, tokens, attend(query, key, value, memory["there"], heads, own=(own[0], own[1])))
        return forward(meta["np"]["head"], _normalize(meta["np"]["last"], tokens))

    return neural_process(sizes, init, read, answer, min_sd)


def _new_block(key: Key[Array, ""], width: int, ff: int, blocks: int) -> Block:
    of_qkv, of_mix, *of_ff = jax.random.split(key, 4)
    small = (2 * blocks) ** -0.5  # of what is added to the rows, so that their size does not grow with the blocks
    return {
        "first": _norm(width), "qkv": _dense.dense(of_qkv, width, 3 * width),
        "mix": _dense.dense(of_mix, width, width, small), "second": _norm(width),
        "up": _dense.dense(of_ff[0], width, ff, 2**0.5), "down": _dense.dense(of_ff[1], ff, width, small),
    }  # fmt: skip


def _in(block: Block, tokens: Float[Array, "rows d"]) -> list[Float[Array, "rows d"]]:
    """Query, key and value of each row."""
    return jnp.split(_dense.apply(block["qkv"], _normalize(block["first"], tokens)), 3, axis=1)


def _out(block: Block, tokens: Float[Array, "rows d"], read: Float[Array, "rows d"]) -> Float[Array, "rows d"]:
    """The rows after a block, given what its attention read."""
    tokens = tokens + _dense.apply(block["mix"], read)
    return tokens + forward([block["up"], block["down"]], _normalize(block["second"], tokens))


def _norm(width: int) -> dict[str, Array]:
    return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}


def _normalize(norm: dict[str, Array], x: Float[Array, "rows d"]) -> Float[Array, "rows d"]:
    centered = x - jnp.mean(x, axis=1, keepdims=True)
    x = centered * jax.lax.rsqrt(jnp.mean(jnp.square(centered), axis=1, keepdims=True) + 1e-5)
    return x * norm["scale"][None] + norm["shift"][None]
