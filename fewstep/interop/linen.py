"""A Flax Linen module as a `Network`."""

import flax.linen as nn
import jax
from jaxtyping import PyTree

from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.interop._function import network as from_functions


def network(module: nn.Module, x: PyTree, *, frozen: tuple[str, ...] = ()) -> Network:
    """Makes a `Network` of a Flax Linen module that keeps nothing but parameters.

    **Arguments:** the `module`; `x` an example input with its axis of rows; `frozen` as in `fewstep.network`.

    Example::

        net = network(nn.Sequential([nn.Dense(40), nn.relu, nn.Dense(1)]), jnp.ones((10, 1)))
    """
    extra = sorted(set(jax.eval_shape(module.init, jax.random.key(0), x)) - {"params"})
    if extra:
        raise FewstepError(
            f"The module keeps {', '.join(extra)} besides its parameters, which the inner loop would not update. "
            "Use a normalization without running statistics, such as GroupNorm or LayerNorm."
        )
    return from_functions(
        lambda key: module.init(key, x)["params"],
        lambda params, x: module.apply({"params": params}, x),
        x,
        frozen=frozen,
    )
