"""The network that the poster compares with: as wide and as deep, trained with Adam on cross entropy or squares.

Batches of 10, at most 5,000 epochs; it ends when the largest loss of a batch is below 1e-5, or, after 300 epochs, when
a line through the last 400 epochs' losses does not fall. For squares the outputs are summed and regressed on the number
of the class, and rounded: as odd as that is, it is what the authors do.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

WIDTH, BATCH, RATE, EPOCHS = 300, 10, 1e-3, 5000
_CHUNK, _ENOUGH, _LEAST, _WINDOW = 10, 1e-5, 300, 400
Loss = Literal["ce", "mse"]
Array = jax.Array | np.ndarray
Params = list[tuple[Array, Array]]  # of each layer the weight and the bias
State = tuple[Params, optax.OptState]


class Trained(NamedTuple):
    """What training ended with."""

    params: Params
    loss: Loss
    losses: list[float]
    seconds: float
    why: str


def train(x: np.ndarray, codes: np.ndarray, depth: int, loss: Loss, seed: int, epochs: int = EPOCHS) -> Trained:
    """Trains the network; compiling is not in the seconds, nor are epochs after the one it could have ended at.

    Epochs run in chunks, so that the weights may have seen a few more.
    """
    sizes = [x.shape[1], *[WIDTH] * depth, int(codes.max()) + 1]
    x, codes = x.astype(np.float32), codes.astype(np.int32)
    key = jax.random.key(seed)
    params = _start(sizes, key)
    state = (params, optax.adam(RATE).init(params))
    jax.block_until_ready(_epochs(state, x, codes, key, loss))  # compiles
    losses: list[float] = []
    counted: int | None = None
    begin = time.perf_counter()
    while (why := _ends(losses, epochs)) is None:
        state, mean, largest = _epochs(state, x, codes, jax.random.fold_in(key, len(losses)), loss)
        losses += mean.tolist()
        if (small := np.flatnonzero(np.asarray(largest) < _ENOUGH)).size:
            counted = len(losses) - _CHUNK + int(small[0]) + 1
            why = f"every batch's loss below {_ENOUGH:g} after epoch {counted}"
            break
    seconds, run = time.perf_counter() - begin, len(losses)
    losses = losses[:counted]
    return Trained(jax.tree.map(np.asarray, state[0]), loss, losses, seconds * len(losses) / run, why)


def predict(trained: Trained, x: np.ndarray) -> np.ndarray:
    """The number of the class of each row."""
    out = outputs(trained.params, x.astype(np.float32))
    if trained.loss == "ce":
        return np.argmax(out, 1)
    return np.clip(np.rint(out.sum(1)), 0, out.shape[1] - 1).astype(int)


def hidden(params: Params, x: Array) -> Array:
    """What the last layer reads."""
    for weight, bias in params[:-1]:
        x = jnp.maximum(x @ weight + bias[None], 0)
    return x


def outputs(params: Params, x: Array) -> np.ndarray:
    """What the last layer gives."""
    return np.asarray(_outputs(params, x))


def _outputs(params: Params, x: Array) -> jax.Array:
    weight, bias = params[-1]
    return jnp.asarray(hidden(params, x) @ weight + bias[None])


def _start(sizes: list[int], key: jax.Array) -> Params:
    draw = lambda key, a, b: (jnp.sqrt(2 / a) * jax.random.normal(key, (a, b)), jnp.zeros(b))
    keys = jax.random.split(key, len(sizes) - 1)
    return [draw(key, a, b) for key, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def _loss(loss: Loss) -> Callable[[Params, jax.Array, jax.Array], jax.Array]:
    def entropy(params: Params, x: jax.Array, codes: jax.Array) -> jax.Array:
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(_outputs(params, x), codes))

    def squares(params: Params, x: jax.Array, codes: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(jnp.sum(_outputs(params, x), 1) - codes))

    return entropy if loss == "ce" else squares


@partial(jax.jit, static_argnames="loss")
def _epochs(state: State, x: Array, codes: Array, key: jax.Array, loss: Loss) -> tuple[State, jax.Array, jax.Array]:
    """Some epochs: the state, and of each epoch the mean and the largest loss of a batch."""
    adam, batches = optax.adam(RATE), -(-x.shape[0] // BATCH)

    def step(state: State, places: jax.Array) -> tuple[State, jax.Array]:
        params, moments = state
        value, gradient = jax.value_and_grad(_loss(loss))(params, x[places], codes[places])
        change, moments = adam.update(gradient, moments, params)
        return (optax.apply_updates(params, change), moments), value

    def epoch(state: State, key: jax.Array) -> tuple[State, tuple[jax.Array, jax.Array]]:
        order = jnp.resize(jax.random.permutation(key, x.shape[0]), (batches, BATCH))  # the last batch is filled up
        state, values = jax.lax.scan(step, state, order)
        return state, (jnp.mean(values), jnp.max(values))

    state, (mean, largest) = jax.lax.scan(epoch, state, jax.random.split(key, _CHUNK))
    return state, mean, largest


def _ends(losses: list[float], epochs: int) -> str | None:
    if len(losses) >= epochs:
        return f"{epochs} epochs"
    if len(losses) > _LEAST:
        last = np.asarray(losses[-_WINDOW:])
        if not np.all(np.isfinite(last)) or np.polyfit(np.arange(len(last)), last, 1)[0] >= 0:
            return f"the loss stopped falling after {len(losses)} epochs"
    return None
