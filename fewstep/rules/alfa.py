r"""ALFA: a small network gives each array its step size and its decay, at every inner step and for every task.

    (a, b) = generator([mean(fast_p), mean(g_p) for all arrays p]),        g = dL_support(fast_k) / dfast_k
    fast_{k+1} = fast_k - rate_{p,k} (1 + a_p) g_p - decay_{p,k} b_p fast_k

The generator, the rates and the decays are learned; the generator starts at 0, which is MAML with learned rates. The
paper multiplies rate and decay by a and b alone, from a random start.

Reference: Baik, Choi, Choi, Kim & Lee, Meta-Learning with Adaptive Hyperparameters, NeurIPS 2020.
"""

from typing import Annotated

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._by_step import at_step, by_step, check_entries
from fewstep.rules._options import Start
from fewstep.rules._perceptron import perceive, perceptron
from fewstep.rules._step import check_rate, first_rate


def alfa(
    start: Start = 0.01,
    inner_steps: int = 5,
    *,
    decay: Annotated[float, "First weight decay on a task, relative to the rates"] = 0.0005,
) -> Rule:
    """The rule of ALFA, which is one link: `chain(tnet(), alfa(0.01))` is a T-net with it.

    **Arguments:** `start`, the first value of all rates; `inner_steps` in training; `decay` the first value of all
    decays, divided by that of the rates.

    Example::

        learner = gradient_learner(mlp(), alfa(0.01, 5), squared_error, steps=5)
    """
    first, entries = first_rate(start, "alfa"), check_entries(inner_steps)
    check_rate(decay, "decay")

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        value, dtype = first(key), jnp.promote_types(next(iter(fast.values())).dtype, jnp.float32)
        size = 2 * len(fast)
        table = lambda value: {path: jnp.full(entries, value, dtype) for path in fast}
        generator = perceptron(key, size, size, size, dtype)
        return {"alfa": {"rates": table(value), "decays": table(decay * value), "generator": generator}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        own = meta["alfa"]

        def adaptive(steps: Flat, params: Flat, number: Array) -> Flat:
            now = at_step({"rates": own["rates"], "decays": own["decays"]}, number)
            scale, pull = jnp.split(perceive(own["generator"], _means(params, steps)), 2)
            return {
                path: now["rates"][path] * (1 + scale[n]) * steps[path] - now["decays"][path] * pull[n] * params[path]
                for n, path in enumerate(sorted(steps))
            }

        return by_step(adaptive)

    return link("alfa", Stage.TRANSFORM, sets_step_size=True, init=init, update=update)


def _means(*flats: Flat) -> Float[Array, " means"]:
    """The mean of every array, in the order of the paths."""
    return jnp.stack([flat[path].mean() for flat in flats for path in sorted(flat)])
