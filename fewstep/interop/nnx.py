"""A Flax NNX module as a `Network`."""

from collections.abc import Callable

import jax
from flax import nnx
from jaxtyping import Array, Key, PyTree

from fewstep._errors import FewstepError
from fewstep._network import Network
from fewstep.interop._function import network as from_functions


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
    extra = sorted({type(leaf).__name__ for _, leaf in nnx.to_flat_state(rest) if not isinstance(leaf, nnx.RngState)})
    if extra:
        raise FewstepError(
            f"The module keeps {', '.join(extra)} besides its parameters, which the inner loop would not update. "
            "Use a normalization without running statistics, such as GroupNorm or LayerNorm."
        )

    def apply(params: PyTree, x: PyTree) -> PyTree:
        return nnx.merge(graph, params, rest)(x)

    return from_functions(lambda key: nnx.to_pure_dict(split(key)[1]), lambda p, x: apply(p, x), x, frozen=frozen)
