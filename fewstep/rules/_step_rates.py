"""Step rates: a learned step size for every array of the network and every inner step."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._by_step import at_step, by_step, check_entries
from fewstep.rules._options import Start
from fewstep.rules._step import first_rate


def step_rates(start: Start = 0.01, inner_steps: int = 5) -> Rule:
    r"""A learned step size per array and inner step: `fast - rate_{p,k} * gradient`, of either sign.

    Steps after the last one in training use its rates. In a chain with `sgd` the rates take the place of its step size;
    after another optimizer they multiply its steps.

    **Arguments:** `start`, the value all rates begin with, or a range it is drawn from, once for all of them;
    `inner_steps` in training.

    **Returns:** a link for `chain`.

    **Reference:** Antoniou, Edwards & Storkey, How to Train Your MAML, ICLR 2019.
    """
    first, entries = first_rate(start, "step_rates"), check_entries(inner_steps)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        value = first(key)
        return {"step_rates": {path: jnp.full(entries, value, leaf.dtype) for path, leaf in fast.items()}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        def scaled(steps: Flat, params: Flat, number: Array) -> Flat:
            now = at_step(meta["step_rates"], number)
            return {path: step * now[path] for path, step in steps.items()}

        return by_step(scaled)

    return link("step_rates", Stage.SCALE, sets_step_size=True, init=init, update=update)
