"""h_post: reads the bar block, and gives the target's answer."""

from functools import partial
from numbers import Integral
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.networks import mlp
from fewstep.universality._network import Params, Readout
from fewstep.universality._target import Target, draw, evaluate
from fewstep.universality.plan import Plan

_MAX_ENTRIES = 1 << 22  # numbers in a table
_KNOTS = 17
_POINTS, _BATCH, _HIDDEN = 20_000, 256, (128, 128)


class Contents(NamedTuple):
    """The contents of the bar block: the bins of the examples, their labels in steps of the table, the bin of x*."""

    bins: Int[Array, " examples"]
    labels: Float[Array, "examples coordinates"]
    query: Int[Array, ""]


def decode(plan: Plan, knots: int, epsilon: Float[Array, ""], bar: Float[Array, " bar"]) -> Contents:
    """Undoes the step's gain and its known leak into all slots, and finds which bins hold something."""
    groups = bar.reshape(plan.L, plan.J, plan.outputs) / (plan.gain * (1 + 2 * epsilon))
    total = jnp.sum(groups, axis=(0, 1), keepdims=True) / (1 + plan.slots * epsilon)
    signal = groups - epsilon * total
    query = jnp.argmax(jnp.max(jnp.abs(signal), axis=(1, 2)))
    signals = signal[query]
    if plan.labels == "one-hot":
        counts = jnp.round(signals * plan.classes / 2).reshape(-1)
        number = jnp.searchsorted(jnp.cumsum(counts), jnp.arange(plan.examples) + 0.5)
        return Contents(number // plan.classes, (number % plan.classes)[:, None].astype(bar.dtype), query)
    bins = jax.lax.top_k(jnp.max(jnp.abs(signals), axis=1), plan.examples)[1]
    if plan.labels == "classes":
        return Contents(bins, jnp.argmax(signals[bins], axis=1)[:, None].astype(bar.dtype), query)
    low, high = (jnp.array(side, bar.dtype)[None] for side in zip(*plan.y_box, strict=True))
    y = jnp.asarray(plan.offset, bar.dtype)[None] + signals[bins] * plan.outputs / 2
    return Contents(bins, (y - low) / (high - low) * (knots - 1), query)


def table_reader(plan: Plan, knots: int) -> Readout:
    """h_post by a table: the entry of the bins, linear between values of y."""
    knots = knots if plan.labels == "numbers" else plan.classes

    def readout(params: Params, bar: Array) -> Array:
        contents = decode(plan, knots, params["epsilon"], bar)
        cell = params["table"][(*contents.bins, contents.query)]
        for place in contents.labels.reshape(-1):
            below = jnp.clip(jnp.floor(place), 0, knots - 2).astype(int)
            share = jnp.clip(place - below, 0.0, 1.0)
            cell = (1 - share) * cell[below] + share * cell[below + 1]
        return cell

    return readout


def knots_of(plan: Plan, knots: int | None) -> int:
    """The knots that the user chose; by default 17, or as many as a table has room for."""
    if knots is None:
        fit = lambda count: np.prod(_shape(plan, count), dtype=float) * plan.outputs <= _MAX_ENTRIES
        return next(filter(fit, range(_KNOTS, 2, -1)), 2)
    if isinstance(knots, bool) or not isinstance(knots, Integral) or int(knots) < 2:
        raise FewstepError(f"knots is {knots}. It must be an integer of at least 2.")
    return int(knots)


def _shape(plan: Plan, knots: int) -> tuple[int, ...]:
    """Of a table: the bins of the examples, that of x*, and the knots of each y."""
    knots, coordinates = (knots, plan.outputs) if plan.labels == "numbers" else (plan.classes, 1)
    return (plan.J,) * plan.examples + (plan.L,) + (knots,) * (plan.examples * coordinates)


def table_of(plan: Plan, target: Target, knots: int) -> Params:
    """The target at the bins' centers and `knots` values of each y, and what is needed to read the bar block."""
    shape = _shape(plan, knots)
    knots = knots if plan.labels == "numbers" else plan.classes
    if (entries := np.prod(shape, dtype=float) * plan.outputs) > _MAX_ENTRIES:
        raise FewstepError(
            f"The table of the read-out would have {entries:.3g} numbers, and {_MAX_ENTRIES:,} is the maximum. Take "
            "fewer bins, examples or knots, or readout='mlp'."
        )
    return {"table": _tabulate(plan, target, knots, shape), "epsilon": np.asarray(plan.epsilon)}


def _tabulate(plan: Plan, target: Target, knots: int, shape: tuple[int, ...]) -> np.ndarray:
    places = np.stack([axis.ravel() for axis in np.indices(shape)], axis=1)
    x = plan.centers()[places[:, : plan.examples]]
    x_star = plan.centers(query=True)[places[:, plan.examples]]
    labels = places[:, plan.examples + 1 :].reshape(len(places), plan.examples, -1)
    if plan.labels == "numbers":
        low, high = (np.array(side) for side in zip(*plan.y_box, strict=True))
        y = low + (high - low) * labels / (knots - 1)
    else:
        y = labels[:, :, 0] if plan.labels == "classes" else np.eye(plan.classes)[labels[:, :, 0]]
    return evaluate(plan, target, x, y, x_star).reshape(*shape, plan.outputs)


def mlp_reader(plan: Plan) -> Readout:
    """h_post by a perceptron of the bar block."""
    net = _perceptron(plan)
    return lambda params, bar: net.apply(params, (), bar[None] / plan.gain, jnp.ones(1))[0][0]


def mlp_of(plan: Plan, target: Target, *, steps: int = 3000, seed: int = 0) -> Params:
    """The perceptron trained by Adam on what the step writes for examples drawn from the box."""
    points = draw(plan, _POINTS, seed)
    x, y, x_star, answer = (jnp.asarray(array) for array in (*points, evaluate(plan, target, *points)))
    optimizer, readout = optax.adam(optax.cosine_decay_schedule(3e-3, steps)), mlp_reader(plan)

    def error(params: Params, rows: Array) -> Array:
        bars = jax.vmap(lambda *point: bar_after_step(plan, *point))(x[rows], y[rows], x_star[rows])
        return jnp.mean(jnp.square(jax.vmap(lambda bar: readout(params, bar))(bars) - answer[rows]))

    def step(carry: tuple[Params, optax.OptState], key: Array) -> tuple[tuple[Params, optax.OptState], None]:
        params, memory = carry
        slope = jax.grad(error)(params, jax.random.randint(key, (_BATCH,), 0, _POINTS))
        updates, memory = optimizer.update(slope, memory, params)
        return (optax.apply_updates(params, updates), memory), None

    params = _perceptron(plan).init(jax.random.key(seed))
    keys = jax.random.split(jax.random.key(seed + 1), steps)
    (params, _), _ = jax.jit(lambda p: jax.lax.scan(step, (p, optimizer.init(p)), keys))(params)
    return params


def _perceptron(plan: Plan) -> Network:
    inputs = plan.slots * plan.outputs
    return mlp(inputs, plan.outputs, hidden=_HIDDEN, std=inputs**-0.5)


@partial(jax.jit, static_argnums=0)
def bar_after_step(
    plan: Plan, x: Float[Array, "examples inputs"], y: Array, x_star: Float[Array, " inputs"]
) -> Float[Array, " bar"]:
    """The closed form of what one step writes into the bar block: each signal into its slot, a leak into all."""
    signals = plan.signal(y).astype(x.dtype)
    slots = plan.bin_of(x) + plan.J * plan.bin_of(x_star[None], query=True)
    into = jax.nn.one_hot(slots, plan.slots, dtype=x.dtype).T @ signals
    gain = plan.gain * (1 + 2 * plan.epsilon)
    return (gain * (into + plan.epsilon * jnp.sum(signals, axis=0)[None])).reshape(-1)
