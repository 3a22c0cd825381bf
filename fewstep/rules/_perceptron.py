"""A small perceptron as part of a rule: what it gives at its start is 0, so that the rule starts as the plain one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError

Perceptron = dict[str, Array]


def perceptron(key: Key[Array, ""], inputs: int, width: int, outputs: int, dtype: jnp.dtype) -> Perceptron:
    """The parameters of one hidden layer, and of a last layer of zeros."""
    return {
        "kernel": jax.random.normal(key, (inputs, width), dtype) / inputs**0.5,
        "bias": jnp.zeros(width, dtype),
        "last": jnp.zeros((width, outputs), dtype),
        "shift": jnp.zeros(outputs, dtype),
    }


def perceive(weights: Perceptron, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
    """What the perceptron gives for the last axis of x, with tanh inside."""
    product = x.astype(weights["kernel"].dtype) @ weights["kernel"]
    last = jnp.tanh(product + jnp.broadcast_to(weights["bias"], product.shape)) @ weights["last"]
    return last + jnp.broadcast_to(weights["shift"], last.shape)


def check_width(width: int) -> None:
    """Refuses a hidden layer without units."""
    if width < 1:
        raise FewstepError(f"width is {width}. A network needs at least 1 unit, such as 20.")
