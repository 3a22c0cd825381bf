"""Learned rates: a step size of its own for every weight."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._options import Start
from fewstep.rules._step import first_rate


def rates(start: Start = 0.01) -> Rule:
    r"""A learned step size for every adapted weight, of either sign: `fast - rates * gradient`.

    In a chain with `sgd` the rates take the place of its step size; after another optimizer they multiply its steps.

    **Arguments:** `start`, the value all rates begin with, or a range it is drawn from, once for all of them.

    **Returns:** a link for `chain`.

    **Reference:** Li, Zhou, Chen & Li, Meta-SGD: Learning to Learn Quickly for Few-Shot Learning, 2017.
    """
    first = first_rate(start, "rates")

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        value = first(key)
        return {"rates": {path: jnp.full_like(leaf, value) for path, leaf in fast.items()}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        return optax.stateless(lambda steps, params: {p: s * meta["rates"][p] for p, s in steps.items()})

    return link("rates", Stage.SCALE, sets_step_size=True, init=init, update=update)
