"""Dense layers and an LSTM's cell, as learners that read tasks are made of them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

Weights = dict[str, Array]


def dense(key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> Weights:
    """A kernel that keeps the size of what it is given, times `gain`, and a bias of 0."""
    return {"kernel": gain * jax.random.normal(key, (inputs, outputs)) / inputs**0.5, "bias": jnp.zeros(outputs)}


def apply(weights: Weights, x: Float[Array, "... inputs"]) -> Float[Array, "... outputs"]:
    """`x W + b`, over the last axis."""
    product = x @ weights["kernel"]
    return product + jnp.broadcast_to(weights["bias"], product.shape)


def cell(key: Key[Array, ""], inputs: int, width: int) -> Weights:
    """An LSTM's cell that reads so many inputs beside its own state."""
    return dense(key, inputs + width, 4 * width)


def lstm(
    weights: Weights, x: Float[Array, " inputs"], hidden: Float[Array, " width"], memory: Float[Array, " width"]
) -> tuple[Float[Array, " width"], Float[Array, " width"]]:
    """One step of an LSTM: its new state and memory."""
    let, forget, out, new = jnp.split(apply(weights, jnp.concatenate([x, hidden])), 4)
    memory = jax.nn.sigmoid(forget + 1) * memory + jax.nn.sigmoid(let) * jnp.tanh(new)
    return jax.nn.sigmoid(out) * jnp.tanh(memory), memory


def read(
    weights: Weights, rows: Float[Array, "rows inputs"], width: int, there: Bool[Array, " rows"] | None = None
) -> Float[Array, "rows width"]:
    """The states of an LSTM as it goes over rows, beginning at 0; it passes over those that are not there."""
    zero = jnp.zeros(width, rows.dtype)
    there = jnp.ones(rows.shape[0], bool) if there is None else there

    def step(carry: tuple[Array, Array], row: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        token, counts = row
        moved = lstm(weights, token, *carry)
        carry = (jnp.where(counts, moved[0], carry[0]), jnp.where(counts, moved[1], carry[1]))
        return carry, carry[0]

    return jax.lax.scan(step, (zero, zero), (rows, there))[1]
