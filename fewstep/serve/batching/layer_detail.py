"""What adapting does to a network, layer by layer: how far its weights move, and which units a mask lets move."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._learner import Adapted
from fewstep._network import Layer
from fewstep._rule import Meta
from fewstep.rules._mask import draw_bits
from fewstep.serve.served_model import ServedModel


def moved(model: ServedModel, start: Adapted, end: Adapted) -> Array:
    """For each layer the root mean square of the change of its weights, relative to that of the weights."""
    return jnp.asarray([_moved(layer, start, end) for layer in model.layers], jnp.float32)


def _moved(layer: Layer, start: Adapted, end: Adapted) -> Array:
    paths = [leaf.path for leaf in layer.leaves if leaf.path in start.fast]
    change = sum((jnp.sum(jnp.square(end.fast[path] - start.fast[path])) for path in paths), jnp.zeros(()))
    size = sum((jnp.sum(jnp.square(start.fast[path])) for path in paths), jnp.zeros(()))
    return jnp.sqrt(change / jnp.where(size > 0, size, 1.0))


def units(model: ServedModel, meta: Meta, key: Array) -> Array:
    """How much every unit of every layer may move, one layer after the other: the bit that was drawn for it, the mean
    probability of its weights where each has a mask of its own, or 1 where it has none."""
    bits = _bits(model, meta, key)
    rows = [bits[layer.path] if layer.path in bits else jnp.ones(layer.width) for layer in model.layers]
    return jnp.concatenate(rows) if rows else jnp.zeros(0)


def _bits(model: ServedModel, meta: Meta, key: Array) -> dict[str, Array]:
    built = model.source.built
    if "full_mask" in meta:
        means = {layer.path: _mean_probability(layer, meta["full_mask"]) for layer in model.layers}
        return {path: row for path, row in means.items() if row is not None}
    if "mask" not in meta or built.rule is None:
        return {}
    number = [part.name for part in built.rule.links].index("mask")  # a chain gives each link a key of its own
    temperature = 1.0 if built.experiment.temperature is None else built.experiment.temperature
    return draw_bits(meta["mask"], jax.random.fold_in(key, number), temperature, built.experiment.draw or "sample")


def _mean_probability(layer: Layer, logits: dict[str, Array]) -> Array | None:
    leaves = [leaf for leaf in layer.leaves if leaf.path in logits]
    if not leaves:
        return None
    rows = [
        jnp.moveaxis(jax.nn.sigmoid(logits[leaf.path]), leaf.axes, range(len(leaf.axes))).reshape(layer.width, -1)
        for leaf in leaves
    ]
    return jnp.concatenate(rows, axis=1).mean(1)
