"""A Flax NNX module as a `Network`."""

from collections.abc import Callable

import jax
from flax import nnx
from jaxtyping import Array, Key, PyTree

from fewstep._network import Network
from fewstep.interop._function import network as from_functions
from fewstep.interop._function import refuse_state


def network(make: Callable[[nnx.Rngs], nnx.Module], x: PyTree, *, frozen: tuple[str, ...] = ()) -> Network:
    """Makes a `Network` of a Flax NNX module that keeps nothing but parameters; dropout is off.

    **Arguments:** `make(rngs)` builds the module; `x` an example input with its axis of rows; `frozen` as in
    `fewstep.network`.

    Example::

        net = network(lambda rngs: nnx.Linear(1, 1, rngs=rngs), jnp.ones((10, 1)))
    """

    def split(key: Key[Array, ""]) -> tuple:
        module = make(nnx.Rngs(key))
        module.eval()
        return nnx.split(module, nnx.Param, ...)

    graph, _, rest = split(jax.random.key(0))
    refuse_state({type(leaf).__name__ for _, leaf in nnx.to_flat_state(rest) if not isinstance(leaf, nnx.RngState)})
    apply = lambda params, x: nnx.merge(graph, params, rest)(x)
    return from_functions(lambda key: nnx.to_pure_dict(split(key)[1]), apply, x, frozen=frozen)
