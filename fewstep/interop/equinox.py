"""An Equinox model as a `Network`."""

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, Key, PyTree

from fewstep._network import Network
from fewstep.interop._function import network as from_functions


def network(
    make: Callable[[Key[Array, ""]], PyTree], x: PyTree, *, batched: bool = True, frozen: tuple[str, ...] = ()
) -> Network:
    """Makes a `Network` of an Equinox model.

    **Arguments:** `make(key)` builds the model; `x` an example input with its axis of rows; `batched` maps the model
    over the rows, as Equinox models take one example at a time; `frozen` as in `fewstep.network`.

    Example::

        net = network(lambda key: eqx.nn.MLP(1, 1, 40, 2, key=key), jnp.ones((10, 1)))
    """
    _, static = eqx.partition(make(jax.random.key(0)), eqx.is_inexact_array)

    def apply(params: PyTree, x: PyTree) -> PyTree:
        model = eqx.combine(params, static)
        return (jax.vmap(model) if batched else model)(x)

    return from_functions(lambda key: eqx.filter(make(key), eqx.is_inexact_array), apply, x, frozen=frozen)
