"""A Flax Linen module as a `Network`."""

import flax.linen as nn
import jax
from jaxtyping import PyTree

from fewstep._network import Network
from fewstep.interop._function import network as from_functions
from fewstep.interop._function import refuse_state


def network(module: nn.Module, x: PyTree, *, frozen: tuple[str, ...] = ()) -> Network:
    """Makes a `Network` of a Flax Linen module that keeps nothing but parameters.

    **Arguments:** the `module`; `x` an example input with its axis of rows; `frozen` as in `fewstep.network`.

    Example::

        net = network(nn.Sequential([nn.Dense(40), nn.relu, nn.Dense(1)]), jnp.ones((10, 1)))
    """
    refuse_state(set(jax.eval_shape(module.init, jax.random.key(0), x)) - {"params"})
    return from_functions(
        lambda key: module.init(key, x)["params"],
        lambda params, x: module.apply({"params": params}, x),
        x,
        frozen=frozen,
    )
