r"""The attentive conditional neural process: each query reads the support by attention from x to x.

    r_i = f(x_i, y_i),  r(x*) = sum_i a_i(x*) v(r_i),  s = mean_i g(x_i, y_i)   ->   h(x*, r(x*), s) = mean, deviation

The attention a(x*) compares k(x*) with k(x_i), in several heads: the deterministic path of the attentive neural
process. s is the path of the conditional neural process.

Reference: Kim et al., Attentive Neural Processes, ICLR 2019; Garnelo et al., Conditional Neural Processes, ICML 2018.
There is no latent path, so that the likelihood is exact and comparable with that of a transformer neural process.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._process import attend, forward, heads_of, neural_process, perceptron
from fewstep.learners._sequence import Sizes


def anp(
    sizes: Sizes,
    *,
    width: Annotated[int, "Width of all layers."] = 128,
    heads: Annotated[int, "Heads of the attention."] = 8,
    min_sd: Annotated[float, "Smallest standard deviation that it answers with."] = 0.01,
) -> Learner:
    """The attentive conditional neural process.

    **Arguments:** `sizes` of inputs and outputs, which are numbers or classes.

    Example::

        learner = anp(Sizes(features=1, outputs=1, classes=False))
    """
    if heads < 1 or width % heads:
        raise FewstepError(f"width is {width} and heads is {heads}. A width must be a multiple of the heads: 128 of 8.")

    def init(key: Key[Array, ""]) -> Meta:
        keys, rows = jax.random.split(key, 6), sizes.features + sizes.outputs
        return {"anp": {
            "encode": perceptron(keys[0], (rows, *[width] * 4)), "summarize": perceptron(keys[1], (rows, *[width] * 4)),
            "compare": perceptron(keys[2], (sizes.features, *[width] * 3)),
            "value": _dense.dense(keys[3], width, width), "mix": _dense.dense(keys[4], width, width),
            "decode": perceptron(keys[5], (sizes.features + 2 * width, *[width] * 3, heads_of(sizes)), gain=0.1),
        }}  # fmt: skip

    def read(meta: Meta, rows: Float[Array, "rows d"], there: Bool[Array, " rows"]) -> dict[str, Array]:
        own, counts = meta["anp"], there.astype(rows.dtype)[:, None]
        mean = jnp.sum(counts * forward(own["summarize"], rows), axis=0) / jnp.maximum(jnp.sum(counts), 1.0)
        values = counts * _dense.apply(own["value"], forward(own["encode"], rows))
        return {"keys": forward(own["compare"], rows[:, : sizes.features]), "values": values, "mean": mean,
                "there": there}  # fmt: skip

    def answer(meta: Meta, memory: dict[str, Array], x: Float[Array, "rows d"]) -> Float[Array, "rows out"]:
        own = meta["anp"]
        found = attend(forward(own["compare"], x), memory["keys"], memory["values"], memory["there"], heads)
        mean = jnp.broadcast_to(memory["mean"][None], found.shape)
        return forward(own["decode"], jnp.concatenate([x, _dense.apply(own["mix"], found), mean], axis=1))

    return neural_process(sizes, init, read, answer, min_sd)
