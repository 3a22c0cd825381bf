r"""Meta-learner LSTM: gradient descent as the cell of an LSTM, whose memory is the weights.

    fast_{k+1} = f_k fast_k - i_k g_k,        g_k = dL_support(fast_k) / dfast_k        (product by element)
    f_k = sigmoid(W_f [h_k, fast_k, f_{k-1}] + b_f),        i_k = sigmoid(W_i [h_k, fast_k, i_{k-1}] + b_i)
    h_k = LSTM(loss, g_k), both as logarithm and sign

One LSTM for all weights, each with a state of its own. The start and the LSTM are learned. The gates start as in plain
descent: i near `start`, f near 1 - `start`. The paper takes gradients as constants in training: `outer=first_order`.

Reference: Ravi & Larochelle, Optimization as a Model for Few-Shot Learning, ICLR 2017.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._perceptron import check_width
from fewstep.rules._step import check_rate

_RANGE, _SMALL = 10.0, 0.01  # of the logarithms, as exponent; of the first weights
_LSTM = dict[str, Array]


class _State(NamedTuple):
    """The LSTM's state and memory, and the gates before, of each weight of an array: the last axis has them all."""

    hidden: Float[Array, "... width"]
    memory: Float[Array, "... width"]
    forget: Float[Array, "..."]
    let: Float[Array, "..."]


def meta_lstm(
    start: Annotated[float | Array, "The first step size"] = 0.01, *, width: Annotated[int, "Units of the LSTM"] = 20
) -> Rule:
    """The rule of the meta-learner LSTM, which is one link: `chain(tnet(), meta_lstm(0.01))`.

    **Arguments:** `start`, the first step size, below 1; `width`, the units of the LSTM.

    Example::

        learner = gradient_learner(mlp(), meta_lstm(0.01), squared_error, steps=5)
        train(learner, tasks, steps=1000, outer=first_order)
    """
    check_rate(start, "start")
    check_width(width)
    if not isinstance(start, Array) and start >= 1:
        raise FewstepError(f"start is {start}. The step size of meta_lstm is a gate: give less than 1, such as 0.01.")

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        dtype = jnp.promote_types(next(iter(fast.values())).dtype, jnp.float32)
        shapes = {"lstm": (4 + width, 4 * width), "forget": (width + 2,), "let": (width + 2,)}
        draw = lambda number, shape: jax.random.uniform(
            jax.random.fold_in(key, number), shape, dtype, minval=-_SMALL, maxval=_SMALL
        )
        weights = {name: draw(number, shape) for number, (name, shape) in enumerate(shapes.items())}
        rate = jax.scipy.special.logit(jnp.asarray(start, dtype))
        biases = {"lstm_bias": jnp.zeros(4 * width, dtype), "forget_bias": -rate, "let_bias": rate}
        return {"meta_lstm": weights | biases}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        own = meta["meta_lstm"]

        def begin(params: Flat) -> dict[str, _State]:
            return {path: _begin(leaf.shape, width, own["lstm"].dtype) for path, leaf in params.items()}

        def stepped(
            steps: Flat, states: dict[str, _State], params: Flat, *, value: Array, **extra: Array
        ) -> tuple[Flat, dict[str, _State]]:
            made = {path: _step(own, states[path], step, params[path], value) for path, step in steps.items()}
            return {path: step for path, (step, _) in made.items()}, {path: state for path, (_, state) in made.items()}

        return optax.GradientTransformationExtraArgs(begin, stepped)

    return link("meta_lstm", Stage.TRANSFORM, sets_step_size=True, init=init, update=update)


def _begin(shape: tuple[int, ...], width: int, dtype: jnp.dtype) -> _State:
    zeros, gates = jnp.zeros((*shape, width), dtype), jnp.zeros(shape, dtype)
    return _State(zeros, zeros, gates, gates)


def _step(own: _LSTM, state: _State, step: Array, weight: Array, loss: Array) -> tuple[Array, _State]:
    """The step of every weight of an array, and its next state. A step comes in as the gradient times -1."""
    inputs = jnp.stack([*_sizes(jnp.broadcast_to(loss, step.shape)), *_sizes(-step)], -1).astype(own["lstm"].dtype)
    hidden, memory = _lstm(own, inputs, state)
    # 1 - f, which has digits that f has lost.
    lost = jax.nn.sigmoid(-_gate(own, "forget", hidden, weight, state.forget))
    let = jax.nn.sigmoid(_gate(own, "let", hidden, weight, state.let))
    return let * step - lost * weight, _State(hidden, memory, 1 - lost, let)


def _sizes(x: Array) -> tuple[Array, Array]:
    """Logarithm and sign of numbers, within -1 and 1 for those of usual sizes; small ones keep their place."""
    size, least = jnp.abs(x), jnp.exp(-_RANGE).astype(x.dtype)
    large = size > least
    return jnp.log(jnp.maximum(size, least)) / _RANGE, jnp.where(large, jnp.sign(x), x / least)


def _lstm(own: _LSTM, inputs: Array, state: _State) -> tuple[Array, Array]:
    product = jnp.concatenate([inputs, state.hidden], -1) @ own["lstm"]
    let, forget, out, new = jnp.split(product + jnp.broadcast_to(own["lstm_bias"], product.shape), 4, axis=-1)
    memory = jax.nn.sigmoid(forget) * state.memory + jax.nn.sigmoid(let) * jnp.tanh(new)
    return jax.nn.sigmoid(out) * jnp.tanh(memory), memory


def _gate(own: _LSTM, name: str, hidden: Array, weight: Array, before: Array) -> Array:
    """What a gate is the sigmoid of."""
    inputs = jnp.concatenate([hidden, weight[..., None].astype(hidden.dtype), before[..., None]], -1)
    return inputs @ own[name] + own[f"{name}_bias"]
