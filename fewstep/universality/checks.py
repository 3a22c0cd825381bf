r"""What the proof says, as numbers: each function measures a construction.

Before the step      `products`, `kernel`: the layers multiply to B_i and A_i, and x meets x* in one layer only
The step             `closed_form`, `over_alpha`, `over_epsilon`: the step writes exactly what the proof says
The shape of it      `ranks`, `min_activation`: a step of rank 1 in each layer, activations that stay positive
The learner          `error`, `over_bins`: how near the whole comes to its target

Reference: Finn & Levine, Meta-Learning and Universality, ICLR 2018. The docs correct the slips of the slides.
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fewstep._contract import Adapt, Predict
from fewstep._episode import Batch
from fewstep._learner import Adapted, gradient_learner
from fewstep._network import flatten, unflatten
from fewstep._rule import Meta
from fewstep.compute import light
from fewstep.rules import maml
from fewstep.universality._layers import required_products
from fewstep.universality._network import Signal, run_layers
from fewstep.universality._readout import bar_after_step
from fewstep.universality._target import Target, draw, evaluate
from fewstep.universality.construct import Construction, construct
from fewstep.universality.plan import Plan

ALPHAS = (1e-3, 1e-2, 0.1, 1.0, 10.0)
EPSILONS = (0.5, 0.1, 1e-3)


class Products(NamedTuple):
    """How far the products of the layers are from B_i (tilde) and from A_i (bar), at most."""

    tilde: float
    bar: float


class Kernel(NamedTuple):
    """`table[i, a, b]`: what x in bin a and x* in bin b give in layer i. In the layer of their pair it is `own`, which
    is 1 + 2 epsilon; elsewhere at most `elsewhere`, which is 0."""

    table: np.ndarray
    own: float
    elsewhere: float


class StepError(NamedTuple):
    """What a step wrote for all bins, against the closed form: the largest error relative to the largest entry."""

    error: float
    largest: float


class Ranks(NamedTuple):
    """The rank of the step in each layer, at most, and of what it changes in the product of all layers."""

    of_a_layer: int
    of_the_product: int


class Deviation(NamedTuple):
    """How far the learner is from its target at drawn points: root mean square and largest, in units of y."""

    root_mean_square: float
    largest: float


def products(built: Construction) -> Products:
    """Multiplies the layers, from the first that is applied on, and compares with what the proof asks for."""
    of_layers, required = built.meta["weights"]["layers"], required_products(built.plan)
    tilde, bar = (np.asarray(of_layers[name], float)[::-1] for name in ("tilde", "bar"))
    product, off = np.eye(tilde.shape[1]), 0.0
    for number in range(len(tilde))[::-1]:
        off = max(off, float(np.abs(product - required.tilde[number]).max()))
        product = tilde[number] @ product
    before = np.concatenate([np.ones((1, bar.shape[1])), np.cumprod(bar, axis=0)[:-1]])
    expected = np.repeat(required.bar, built.plan.outputs, axis=1)
    return Products(off, float(np.abs(np.square(before) - expected).max()))


def kernel(built: Construction) -> Kernel:
    """`phi(x)^T B_i^T B_i phi(x*)` of all bins in all layers, from the layers themselves."""
    plan = built.plan
    tilde = np.asarray(built.meta["weights"]["layers"]["tilde"], float)
    inputs = [np.eye(plan.J + plan.L)]
    for layer in tilde[:-1]:
        inputs.append(layer @ inputs[-1])
    reaching = np.stack(inputs[::-1])  # what reaches layer i = 1 ... N
    table = np.einsum("isa,isb->iab", reaching[:, :, : plan.J], reaching[:, :, plan.J :])
    met = np.zeros(table.shape, bool)
    slots = np.arange(plan.slots)
    met[slots + 1, slots % plan.J, slots // plan.J] = True
    return Kernel(table, float(table[met].mean()), float(np.abs(table[~met]).max()))


def closed_form(built: Construction, seed: int = 0) -> StepError:
    """Takes the step for examples in each bin of x and looks at each bin of x*."""
    plan = built.plan
    x, y, _ = draw(plan, plan.J, seed)
    x[:, 0], queries = plan.centers(), jnp.asarray(plan.centers(query=True))
    worst = largest = 0.0
    for examples, labels in zip(x, y, strict=True):
        if plan.labels != "one-hot":
            examples = _separate(plan, examples)
        bars = np.asarray(_bars(built, built.adapt(examples, labels), queries))
        step = partial(bar_after_step, plan, jnp.asarray(examples), jnp.asarray(labels))
        expected = np.asarray(jax.vmap(step)(queries))
        worst = max(worst, float(np.abs(bars - expected).max()))
        largest = max(largest, float(np.abs(expected).max()))
    return StepError(worst / largest, largest)


def max_written(built: Construction, seed: int = 0) -> float:
    """The largest entry that a step writes into the bar block, seen at all bins of x*."""
    x, y, _ = draw(built.plan, 1, seed)
    return float(jnp.abs(_bars(built, built.adapt(x[0], y[0]), jnp.asarray(built.plan.centers(query=True)))).max())


def over_alpha(built: Construction, alphas: tuple[float, ...] = ALPHAS, seed: int = 0) -> list[float]:
    """The closed form's error for steps of several sizes: there is no remainder of order alpha squared."""
    plan, queries = built.plan, jnp.asarray(built.plan.centers(query=True))
    x, y, _ = (jnp.asarray(part[0]) for part in draw(plan, 1, seed))
    expected = jax.vmap(lambda s: bar_after_step(plan, x, y, s))(queries) / plan.lr

    def off(alpha: jax.Array) -> jax.Array:
        learner = gradient_learner(built.network, maml(alpha), plan.loss)
        adapted = learner.adapt(built.meta, jax.random.key(0), Batch(x, y, jnp.ones(plan.examples)), 1)
        return jnp.abs(_bars(built, adapted, queries) / alpha - expected).max() / jnp.abs(expected).max()

    map_all = jax.jit(lambda values: jax.lax.map(off, values), compiler_options=light())
    return np.asarray(map_all(jnp.asarray(alphas))).tolist()


def over_epsilon(target: Target, plan: Plan, epsilons: tuple[float, ...] = EPSILONS, seed: int = 0) -> list[float]:
    """How far the answers of the learner are from those with the first epsilon, at most."""
    answers = [_answers(construct(target, dataclasses.replace(plan, epsilon=e)), 20, seed) for e in epsilons]
    return [float(np.abs(answer - answers[0]).max()) for answer in answers]


def ranks(built: Construction, seed: int = 0) -> Ranks:
    """The step changes each layer by one outer product per example, at most as many as y has numbers, and the product
    of all layers by many."""
    plan = built.plan
    x, y, _ = draw(plan, 1, seed)
    params = _params(built, built.adapt(x[0], y[0]))
    layers = np.asarray(params["layers"]["cross"])
    unit = {**params, "switch": {"bias": jnp.ones_like(params["switch"]["bias"])}}
    centers = jnp.asarray(plan.centers(query=True))
    change = np.asarray(run_layers(plan.shape, unit, centers)[0].bar)
    off = {**params, "switch": {"bias": jnp.zeros_like(params["switch"]["bias"])}}
    at_x = np.asarray(run_layers(plan.shape, off, jnp.asarray(plan.centers()))[0].bar)
    arrays = np.linalg.matrix_rank(np.concatenate([at_x, change]))
    return Ranks(max(int(np.linalg.matrix_rank(layer)) for layer in layers), int(arrays))


def min_activation(built: Construction, seed: int = 0) -> tuple[float, float]:
    """The smallest entry of any activation, before the step at all bins of x, and after it at all bins of x*."""
    plan = built.plan
    x, y, _ = draw(plan, 1, seed)
    before = run_layers(plan.shape, built.meta["weights"], jnp.asarray(plan.centers()))[1]
    after = flows(built, x[0], y[0], plan.centers(query=True))[1]
    return tuple(min(float(block.min()) for block in flow) for flow in (before, after))  # type: ignore[return-value]


def flows(built: Construction, x: np.ndarray, y: np.ndarray, x_star: np.ndarray) -> tuple[Signal, Signal]:
    """What comes out of every layer: before the step at the examples, and after it at x*."""
    before = run_layers(built.plan.shape, built.meta["weights"], jnp.asarray(x))[1]
    after = run_layers(built.plan.shape, _params(built, built.adapt(x, y)), jnp.asarray(x_star))[1]
    return before, after


def error(built: Construction, target: Target, n: int = 60, seed: int = 0) -> Deviation:
    """The learner against its target at n drawn sets of examples and x*."""
    x, y, x_star = draw(built.plan, n, seed)
    off = _answers(built, n, seed) - evaluate(built.plan, target, x, y, x_star)
    return Deviation(float(np.sqrt(np.mean(np.square(off)))), float(np.abs(off).max()))


def over_bins(target: Target, plan: Plan, bins: tuple[int, ...] = (2, 4, 8, 16), n: int = 60) -> list[Deviation]:
    """The same for several numbers of bins: for a smooth target the error falls as 1 / bins."""
    plans = [dataclasses.replace(plan, bins=number, query_bins=None) for number in bins]
    return [error(construct(target, each), target, n) for each in plans]


def _params(built: Construction, adapted: Adapted) -> dict[str, dict[str, jax.Array]]:
    weights = built.meta["weights"]
    return unflatten(weights, flatten(weights) | adapted.fast)


def _bars(built: Construction, adapted: Adapted, x_star: jax.Array) -> jax.Array:
    return run_layers(built.plan.shape, _params(built, adapted), x_star)[0].bar


def _answers(built: Construction, n: int, seed: int) -> np.ndarray:
    """What the learner answers to n drawn sets of examples and x*, each by a step of its own."""
    points = tuple(jnp.asarray(array) for array in draw(built.plan, n, seed))
    answer = jax.jit(_answer_all, static_argnums=(0, 1), compiler_options=light())
    return np.asarray(answer(built.learner.adapt, built.learner.predict, built.meta, points))


def _answer_all(adapt: Adapt, predict: Predict, meta: Meta, points: tuple[jax.Array, ...]) -> jax.Array:
    def one(point: tuple[jax.Array, ...]) -> jax.Array:
        x, y, queries = point
        return predict(meta, adapt(meta, jax.random.key(0), Batch(x, y, jnp.ones(len(x))), 1), queries[None])[0]

    return jax.lax.map(one, points)


def _separate(plan: Plan, x: np.ndarray) -> np.ndarray:
    """The examples with all but the first moved to bins of their own."""
    first = int(plan.bin_of(jnp.asarray(x[:1]))[0])
    others = (first + 1 + np.arange(plan.examples - 1)) % plan.J
    return np.concatenate([x[:1], plan.centers()[others]])
