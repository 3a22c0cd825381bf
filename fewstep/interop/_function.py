"""A pair of plain functions as a `Network`."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Key, PyTree

from fewstep._errors import FewstepError
from fewstep._network import Network, flatten
from fewstep.interop._trace import find_layers


def network(
    init: Callable[[Key[Array, ""]], PyTree],
    apply: Callable[[PyTree, PyTree], PyTree],
    x: PyTree,
    *,
    frozen: tuple[str, ...] = (),
) -> Network:
    """Makes a `Network` of plain functions; its linear layers are found by tracing `apply`.

    **Arguments:** `init(key)` makes the parameters, any pytree of arrays; `apply(params, x)` maps rows to rows; `x` an
    example input with its axis of rows (the number of rows is free later); `frozen` paths, or beginnings of paths, of
    arrays that a task must not adapt.

    **Returns:** a `Network`.

    Example::

        init = lambda key: {"w": jax.random.normal(key, (3, 1))}
        net = network(init, lambda params, x: x @ params["w"], jnp.ones((5, 3)))
    """
    shapes = jax.eval_shape(init, jax.random.key(0))
    paths = tuple(flatten(shapes))
    frozen_paths = tuple(p for p in paths if any(p == f or p.startswith(f + "/") for f in frozen))
    for name in frozen:
        if not any(p == name or p.startswith(name + "/") for p in paths):
            raise FewstepError(f"frozen names {name!r}, which the parameters lack. They are {', '.join(paths)}.")

    def apply_with_state(params: PyTree, state: PyTree, x: PyTree, weight: Array) -> tuple[PyTree, PyTree]:
        return apply(params, x), state

    return Network(init, apply_with_state, find_layers(apply, shapes, x), frozen_paths)


def refuse_state(kinds: set[str]) -> None:
    """Raises `FewstepError` for a module that keeps more than parameters: its variables of these other kinds."""
    if kinds:
        raise FewstepError(
            f"The module keeps {', '.join(sorted(kinds))} besides its parameters, which the inner loop would not "
            "update. Use a normalization without running statistics, such as GroupNorm or LayerNorm."
        )
