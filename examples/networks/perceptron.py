"""A perceptron of plain JAX:

fewstep train mtnet table:sensors.csv ... --network examples/networks/perceptron.py:make
"""

import jax
import jax.numpy as jnp

import fewstep


def make(x, outputs, width=32):
    """Two layers with tanh between them."""

    def init(key):
        first, second = jax.random.split(key)
        return {
            "body": {"w": jax.random.normal(first, (x.shape[1], width)) / x.shape[1] ** 0.5, "b": jnp.zeros(width)},
            "head": {"w": jax.random.normal(second, (width, outputs)) / width**0.5, "b": jnp.zeros(outputs)},
        }

    def apply(params, x):
        hidden = jnp.tanh(x @ params["body"]["w"] + params["body"]["b"][None])
        return hidden @ params["head"]["w"] + params["head"]["b"][None]

    return fewstep.network(init, apply, x)
