"""What adapting does to a network, layer by layer: how far its weights move, and which units a mask lets move."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._learner import Adapted
from fewstep._network import Layer
from fewstep._rule import Layers, Meta, Rule


def moved(layers: Layers, start: Adapted, end: Adapted) -> Float[Array, " layers"]:
    """For each layer the root mean square of the change of its weights, relative to that of the weights."""
    return jnp.asarray([_distance(layer, start, end) for layer in layers], jnp.float32)


def _distance(layer: Layer, start: Adapted, end: Adapted) -> Array:
    paths = [leaf.path for leaf in layer.leaves if leaf.path in start.fast]
    change = sum((jnp.sum(jnp.square(end.fast[path] - start.fast[path])) for path in paths), jnp.zeros(()))
    size = sum((jnp.sum(jnp.square(start.fast[path])) for path in paths), jnp.zeros(()))
    return jnp.sqrt(change / jnp.where(size > 0, size, 1.0))


def unit_shares(layers: Layers, rule: Rule | None, meta: Meta, key: Key[Array, ""]) -> Float[Array, " units"]:
    """How far each unit of every layer may move, one layer after the other; 1 where there is no mask."""
    if rule is None or not layers:
        return jnp.zeros(0)
    shares = rule.units(layers, meta, key) if rule.units is not None else {}
    return jnp.concatenate([shares.get(layer.path, jnp.ones(layer.width)) for layer in layers])
