r"""CAVIA: a task adapts a few context parameters, from zero; all weights are shared by the tasks.

    c_0 = 0,    c_{k+1} = c_k - lr * dL_support(c_k) / dc_k        layer(x) = x W + b + c C

Context parameters beside the input of a layer are a shift of its bias: (x, c) (W, C) + b = x W + (b + c C). W, b and C
are meta-learned; what a task leaves behind is c.

Reference: Zintgraf, Shiarlis, Kurin, Hofmann & Whiteson, Fast Context Adaptation via Meta-Learning, ICML 2019.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._errors import FewstepError
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import select

_CONTEXT = "cavia/context"  # where it lies among the arrays of a network, none of which is named so


def cavia(
    layer: Annotated[str | int, "The layer whose bias the context shifts"] = 0,
    *,
    contexts: Annotated[int, "Context parameters that a task adapts"] = 4,
) -> Rule:
    r"""Context parameters that shift the bias of a layer, and are all that a task adapts.

    They need a larger step than weights do, such as 1.0, and a network that is not started near zero.

    **Arguments:** `layer`, by path or number, the first by default; the number of `contexts`.

    **Returns:** a link for `chain`: `chain(cavia(), sgd(1.0))`.

    **Reference:** Zintgraf et al., Fast Context Adaptation via Meta-Learning, ICML 2019.
    """
    if contexts < 1:
        raise FewstepError(f"contexts is {contexts}. A task needs at least 1 to adapt.")

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        bias = fast[_bias(layers, layer, fast)]
        return {"cavia": contexts**-0.5 * jax.random.normal(key, (contexts, *bias.shape), bias.dtype)}

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        return {_CONTEXT: jnp.zeros(contexts, next(iter(fast.values())).dtype)}

    def realize(layers: Layers, meta: Meta, params: Flat) -> Flat:
        own = {path: leaf for path, leaf in params.items() if path != _CONTEXT}
        path = _bias(layers, layer, own)
        shift = jnp.tensordot(params[_CONTEXT], meta["cavia"], 1)
        return own | {path: own[path] + shift.astype(own[path].dtype)}

    return link("cavia", Stage.CHOOSE, init=init, start=start, realize=realize)


def _bias(layers: Layers, name: str | int, arrays: Flat) -> str:
    """The path of the bias of a layer: the array that has axes of its outputs only."""
    chosen = select(layers, (name,))
    for leaf in (leaf for layer in chosen for leaf in layer.leaves):
        if leaf.path in arrays and arrays[leaf.path].ndim == len(leaf.axes) > 0:
            return leaf.path
    raise FewstepError(
        f"Layer {chosen[0].path!r} has no bias among {', '.join(arrays)}, and a context shifts one. Name a layer that "
        "has one, as in cavia(-1), and leave out what chooses other layers."
    )
