r"""Learned optimizer: a small network, the same for every weight, makes the step out of gradient and momentum.

    (a, b) = network(g / r, log r, v / r, fast),        g = dL_support / dfast,    r the root mean square of g's array
    v_{k+1} = 0.9 v_k + g,        fast_{k+1} = fast_k - rate * (exp(a) g + b r)

The start, the network and one rate per array are learned; the network starts at 0, which is plain descent.

Reference: Andrychowicz et al., Learning to Learn by Gradient Descent by Gradient Descent, NeurIPS 2016; Metz et al.,
Practical Tradeoffs between Memory, Compute, and Performance in Learned Optimizers, 2022 (a network per weight).
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._options import Start
from fewstep.rules._perceptron import Perceptron, check_width, perceive, perceptron
from fewstep.rules._step import first_rate

_MOMENTUM, _TINY = 0.9, 1e-12  # the least mean square of a gradient, whose root has no derivative at 0


def learned_optimizer(
    start: Start = 0.01, *, width: Annotated[int, "Units of the network that makes the steps"] = 20
) -> Rule:
    """The rule of a learned optimizer, which is one link: `chain(tnet(), learned_optimizer(0.01))`.

    **Arguments:** `start`, the first value of all rates; `width`, the units of the network.

    Example::

        learner = gradient_learner(mlp(), learned_optimizer(0.01), squared_error, steps=5)
    """
    first = first_rate(start, "learned_optimizer")
    check_width(width)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        value, dtype = first(key), jnp.promote_types(next(iter(fast.values())).dtype, jnp.float32)
        network = perceptron(key, 4, width, 2, dtype)
        return {"learned_optimizer": {"rates": {p: jnp.asarray(value, dtype) for p in fast}, "network": network}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        own = meta["learned_optimizer"]

        def stepped(steps: Flat, momenta: Flat, params: Flat, **extra: Any) -> tuple[Flat, Flat]:
            momenta = {path: (_MOMENTUM * momenta[path] + step).astype(step.dtype) for path, step in steps.items()}
            made = {p: _step(own["network"], step, momenta[p], params[p]) for p, step in steps.items()}
            return {path: own["rates"][path] * step for path, step in made.items()}, momenta

        zeros = lambda params: jax.tree.map(jnp.zeros_like, params)
        return optax.GradientTransformationExtraArgs(zeros, stepped)

    return link("learned_optimizer", Stage.TRANSFORM, sets_step_size=True, init=init, update=update)


def _step(network: Perceptron, step: Array, momentum: Array, weight: Array) -> Array:
    """The step of every weight of an array, before its rate."""
    square = jnp.mean(jnp.square(step)) + _TINY
    root = jnp.sqrt(square)
    size = jnp.broadcast_to(0.1 * jnp.log(square), step.shape)
    made = perceive(network, jnp.stack([step / root, size, momentum / root, weight], -1))
    scale, direction = made[..., 0], made[..., 1]
    return jnp.exp(scale) * step + root * direction
