"""The metric: a learned square matrix after every layer, which bends the space that tasks take their steps in."""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._network import Leaf
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import eligible
from fewstep.rules._options import LayerNames


def metric(layers: LayerNames = None) -> Rule:
    r"""A learned matrix T after each linear layer: `(x W + b) T`, W and b adapted, T not.

    One step moves the layer's output by `-lr (|x|^2 + 1) T' T` times the loss's gradient (rows as vectors), so T is
    a metric. T starts as the identity. A layer that offers it applies T in the cheaper of two forms; elsewhere T is
    multiplied into kernel and bias, which gives the same function.

    **Arguments:** `layers`, paths or numbers of those that get a T; all that can by default.

    **Returns:** a link for `chain`.

    **Reference:** Lee & Choi, Gradient-Based Meta-Learning with Learned Layerwise Metric and Subspace, ICML 2018.
    """
    names = layers

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        chosen = eligible(layers, names, "metric")
        dtypes = {leaf.path: fast[leaf.path].dtype for layer in chosen for leaf in layer.leaves if leaf.path in fast}
        default = next(iter(fast.values())).dtype
        return {"metric": {x.path: jnp.eye(x.width, dtype=dtypes.get(x.leaves[0].path, default)) for x in chosen}}

    def realize(layers: Layers, meta: Meta, params: Flat) -> Flat:
        shaped = dict(params)
        for layer in eligible(layers, names, "metric"):
            matrix = meta["metric"][layer.path]
            if layer.literal:
                shaped[f"{layer.path}/metric"] = matrix
                continue
            for leaf in layer.leaves:
                shaped[leaf.path] = times(params[leaf.path], matrix, leaf)
        return shaped

    return link("metric", Stage.SHAPE, init=init, realize=realize)


def times(array: Float[Array, "..."], matrix: Float[Array, "width width"], leaf: Leaf) -> Float[Array, "..."]:
    """The array times the matrix along its output axes, which count as one axis."""
    return on_matrix(lambda rows: rows @ matrix, array, leaf.axes)


def on_matrix(
    function: Callable[[Float[Array, "rows columns"]], Float[Array, "rows columns"]],
    array: Float[Array, "..."], axes: tuple[int, ...],
) -> Float[Array, "..."]:  # fmt: skip
    """A function of the array as a matrix, whose columns run over some axes and whose rows over the rest."""
    last = tuple(range(-len(axes), 0))
    moved = jnp.moveaxis(array, axes, last)
    changed = function(moved.reshape(-1, math.prod(moved.shape[axis] for axis in last)))
    return jnp.moveaxis(changed.reshape(moved.shape), last, axes)
