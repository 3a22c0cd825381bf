r"""Meta-Curvature: learned matrices on every side of the gradient.

    G <- M_in G M_out                                for the kernel of a dense layer
    G <- G x_in M_in x_filter M_filter x_out M_out   for that of a convolution: one matrix for each mode
    g <- m * g                                       for a bias, by element

All matrices start as the identity. A metric T moves a layer's output by T' T, always positive; these may turn a step
uphill, and mix the inputs too.

Reference: Park & Oliva, Meta-Curvature, NeurIPS 2019.
"""

import math

import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._network import Leaf
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import moving
from fewstep.rules._metric import times
from fewstep.rules._options import LayerNames

Modes = dict[str, tuple[int, ...]]


def curvature(layers: LayerNames = None) -> Rule:
    r"""A learned matrix for the outputs, the inputs and the filter of every gradient, before the optimizer.

    **Arguments:** `layers`, paths or numbers of those whose gradients are bent; all that can by default.

    **Returns:** a link for `chain`: `chain(curvature(), sgd(0.01))`.

    **Reference:** Park & Oliva, Meta-Curvature, NeurIPS 2019.
    """
    names = layers

    def leaves(layers: Layers, fast: Flat) -> list[Leaf]:
        chosen = moving(layers, names, fast, "curvature")
        return [leaf for layer in chosen for leaf in layer.leaves if leaf.path in fast]

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        return {"curvature": {leaf.path: _identity(fast[leaf.path], leaf) for leaf in leaves(layers, fast)}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        def bent(gradients: Flat, params: Flat | None = None) -> Flat:
            own = {
                leaf.path: _bent(gradients[leaf.path], leaf, meta["curvature"]) for leaf in leaves(layers, gradients)
            }
            return gradients | own

        return optax.stateless(bent)

    return link("curvature", Stage.PRECONDITION, init=init, update=update)


def _modes(ndim: int, leaf: Leaf) -> Modes:
    """The axes of an array by mode. The inputs are the axis beside those of the outputs, behind or in front of them, as
    in a kernel (height, width, inputs, outputs) or (outputs, inputs, height, width); the rest is the filter."""
    outputs = tuple(axis % ndim for axis in leaf.axes)
    rest = [axis for axis in range(ndim) if axis not in outputs]
    inputs = min(rest, key=lambda axis: min(abs(axis - other) for other in outputs))
    modes = {"outputs": outputs, "inputs": (inputs,), "filter": tuple(axis for axis in rest if axis != inputs)}
    return {name: axes for name, axes in modes.items() if axes}


def _identity(array: Array, leaf: Leaf) -> Meta:
    """The matrix of each mode; one number per entry of a bias."""
    if array.ndim == len(leaf.axes):
        return {"entries": jnp.ones_like(array)}
    sizes = {name: math.prod(array.shape[axis] for axis in axes) for name, axes in _modes(array.ndim, leaf).items()}
    return {name: jnp.eye(size, dtype=array.dtype) for name, size in sizes.items()}


def _bent(gradient: Array, leaf: Leaf, meta: Meta) -> Array:
    own = meta[leaf.path]
    if "entries" in own:
        return gradient * own["entries"]
    for name, axes in _modes(gradient.ndim, leaf).items():
        gradient = times(gradient, own[name], Leaf(leaf.path, axes))
    return gradient
