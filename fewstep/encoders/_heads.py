"""The end of a tail: a new linear layer, or nothing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from fewstep._network import Layer, Leaf, Network
from fewstep.networks.mlp import dense

_DEVIATION = 0.01
Params = dict[str, dict[str, Any]]


def with_head(
    params: Params, features: Callable[[Params, Array], Array], width: int, layers: tuple[Layer, ...]
) -> Callable[[int | None], Network]:
    """The function that makes a tail: a pretrained network up to its features, then a linear layer.

    **Arguments:** the pretrained `params`; `features(params, rows)`; the `width` of features; the table of `layers`.
    Those that take no T are left alone by the inner loop.
    """
    frozen = tuple(leaf.path for layer in layers if layer.skip for leaf in layer.leaves)

    def tail(outputs: int | None) -> Network:
        def init(key: Key[Array, ""]) -> Params:
            pretrained = jax.tree.map(jnp.asarray, params)
            if outputs is None:
                return pretrained
            kernel = _DEVIATION * jax.random.normal(key, (width, outputs))
            return {**pretrained, "dense": {"kernel": kernel, "bias": jnp.zeros(outputs)}}

        def apply(params: Params, state: PyTree, x: Array, weight: Array) -> tuple[Array, PyTree]:
            rows = features(params, x)
            return (rows if outputs is None else dense(params["dense"], rows)), ()

        return Network(init, apply, layers if outputs is None else (*layers, dense_layer("dense", outputs)), frozen)

    return tail


def linear(width: int) -> Callable[[int | None], Network]:
    """The tail of an encoder that is not divided: the linear layer alone."""
    return with_head({}, lambda params, x: x, width, ())


def dense_layer(name: str, width: int) -> Layer:
    """The entry of a dense layer, or of a convolution of single points, in a layer table."""
    return Layer(name, width, (Leaf(f"{name}/kernel", (1,)), Leaf(f"{name}/bias", (0,))), literal=True)
