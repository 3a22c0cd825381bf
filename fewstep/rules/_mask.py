"""The mask: a learned choice of the units whose weights a task may move."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError, unknown
from fewstep._network import Layer, Leaf
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import moving
from fewstep.rules._options import Draw, LayerNames, Temperature

_TINY = 2.0**-24  # so that no draw is 0: half of what a draw in single precision can be apart from it
DRAWS = ("sample", "expected", "threshold")


def mask(layers: LayerNames = None, *, temperature: Temperature = 1.0, draw: Draw = "sample") -> Rule:
    r"""One learned logit a unit; a unit's weights and bias move in a task when its bit is 1.

    The bit is drawn hard, `P(1) = sigmoid(logit)`, by the Gumbel trick; its gradient is that of the soft relaxation
    (straight through). One draw a task and layer, held for all inner steps, at test too. Logits start at 0. They have
    single precision also beside weights of 16 bits, in which a logit of 1 would not feel a step of 0.001.

    **Arguments:** `layers`, paths or numbers of those that get a mask, all that can by default; `temperature` of the
    relaxation; `draw`: `sample`, or `expected` for the probability itself, or `threshold` for probability >= 1/2.

    **Returns:** a link for `chain`.

    **Reference:** Lee & Choi, ICML 2018; Jang, Gu & Poole, Categorical Reparameterization with Gumbel-Softmax, 2017.
    """
    names = layers
    _check(temperature, draw)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        chosen = moving(layers, names, fast, "mask")
        return {"mask": {layer.path: jnp.zeros(layer.width, _precise(layer, fast)) for layer in chosen}}

    def units(layers: Layers, meta: Meta, key: Key[Array, ""]) -> Flat:
        return draw_bits(meta["mask"], key, temperature, draw)

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        bits = units(layers, meta, key)
        leaves = {leaf.path: (leaf, bits[x.path]) for x in layers if x.path in bits for leaf in x.leaves}
        return optax.stateless(lambda steps, params: {p: _masked(s, leaves.get(p)) for p, s in steps.items()})

    return link("mask", Stage.SCALE, draws=draw == "sample", init=init, update=update, units=units)


class _Draws(NamedTuple):
    key: Key[Array, ""]


def full_mask(layers: LayerNames = None, *, temperature: Temperature = 1.0, draw: Draw = "sample") -> Rule:
    r"""One learned logit a weight and a bias, drawn anew at every inner step: the `full` variant of `mask`.

    Logits start from a normal distribution cut at two deviations of 0.1, or 0.01 for convolutions.

    **Arguments and returns:** as `mask`.
    """
    names = layers
    _check(temperature, draw)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        paths = [
            leaf.path for layer in moving(layers, names, fast, "mask") for leaf in layer.leaves if leaf.path in fast
        ]
        return {"full_mask": {p: small_normal(jax.random.fold_in(key, n), fast[p]) for n, p in enumerate(paths)}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        def masked(steps: Flat, draws: _Draws, params: Flat | None = None) -> tuple[Flat, _Draws]:
            now, later = jax.random.split(draws.key)
            bits = draw_bits(meta["full_mask"], now, temperature, draw)
            return {p: s * bits[p].astype(s.dtype) if p in bits else s for p, s in steps.items()}, _Draws(later)

        return optax.GradientTransformation(lambda params: _Draws(key), masked)

    def units(layers: Layers, meta: Meta, key: Key[Array, ""]) -> Flat:
        """The mean probability of a unit's weights, since the bits are drawn anew at every step."""
        return mean_by_unit(layers, {path: jax.nn.sigmoid(logits) for path, logits in meta["full_mask"].items()})

    return link("full_mask", Stage.SCALE, draws=draw == "sample", init=init, update=update, units=units)


def draw_bits(logits: Flat, key: Key[Array, ""], temperature: float = 1.0, draw: str = "sample") -> Flat:
    """Masks for logits: 0 or 1 going forward (`expected`: the probability), the relaxation's slope going back."""
    if draw == "expected":
        return {path: jax.nn.sigmoid(logit) for path, logit in logits.items()}
    sizes = [logit.size for logit in logits.values()]
    flat = jnp.concatenate([logit.reshape(-1) for logit in logits.values()])
    # One draw for all layers is cheaper than one for each.
    even = jax.random.uniform(key, flat.shape) if draw == "sample" else jnp.full(flat.shape, 0.5)
    soft = _relaxed(flat, jnp.maximum(even, _TINY), temperature)
    bits = jax.lax.stop_gradient((soft >= 0.5) - soft) + soft
    starts = [sum(sizes[:n]) for n in range(1, len(sizes))]
    pieces = jnp.split(bits, starts)
    return {path: piece.reshape(logits[path].shape) for path, piece in zip(logits, pieces, strict=True)}


def _relaxed(logits: Float[Array, " n"], even: Float[Array, " n"], temperature: float) -> Float[Array, " n"]:
    """`sigmoid((logit + noise) / temperature)` for the noise `log(u / (1 - u))`, u drawn evenly: the difference of two
    Gumbel draws. Temperature 1 needs no logarithm."""
    if temperature != 1.0:
        return jax.nn.sigmoid((logits + jnp.log(even) - jnp.log1p(-even)) / temperature)
    on, off = even * jax.nn.sigmoid(logits), (1 - even) * jax.nn.sigmoid(-logits)
    return on / (on + off)


def _masked(step: Array, mask: tuple[Leaf, Float[Array, " width"]] | None) -> Array:
    if mask is None:
        return step
    leaf, bits = mask
    order = sorted(range(len(leaf.axes)), key=lambda n: leaf.axes[n])
    units = jnp.transpose(bits.reshape([step.shape[axis] for axis in leaf.axes]), order).astype(step.dtype)
    if sorted(leaf.axes) == list(range(step.ndim - len(leaf.axes), step.ndim)):
        # Bits beside each other as a product with ones: then their slope is a product too, and not a sum over the
        # inputs, which took a third of an MT-net's whole step on a CPU.
        ones = jnp.ones((step.size // units.size, 1), step.dtype)
        return step * (ones @ units.reshape(1, -1)).reshape(step.shape)
    return step * units.reshape([step.shape[axis] if axis in leaf.axes else 1 for axis in range(step.ndim)])


def mean_by_unit(layers: Layers, shares: Flat) -> Flat:
    """The mean over the weights of each unit, by layer, of shares by path; only of layers that have some."""
    rows: dict[str, list[Array]] = {layer.path: [] for layer in layers if not layer.skip}
    for layer in layers:
        for leaf in layer.leaves:
            if layer.path in rows and leaf.path in shares:
                by_unit = jnp.moveaxis(shares[leaf.path], leaf.axes, range(len(leaf.axes)))
                rows[layer.path].append(by_unit.reshape(layer.width, -1))
    return {path: jnp.concatenate(row, axis=1).mean(1) for path, row in rows.items() if row}


def small_normal(key: Key[Array, ""], leaf: Array) -> Array:
    """A start for numbers of which half are negative, one per entry of an array."""
    std = 0.01 if leaf.ndim > 2 else 0.1
    return std * jax.random.truncated_normal(key, -2.0, 2.0, leaf.shape, _single(leaf))


def _precise(layer: Layer, fast: Flat) -> jnp.dtype:
    return _single(next(fast[leaf.path] for leaf in layer.leaves if leaf.path in fast))


def _single(leaf: Array) -> jnp.dtype:
    """The type of an array's logits: its own, but at least single precision."""
    return jnp.promote_types(leaf.dtype, jnp.float32)


def _check(temperature: float, draw: str) -> None:
    if draw not in DRAWS:
        raise unknown("way to draw a mask", draw, DRAWS)
    if not 0 < temperature < float("inf"):
        raise FewstepError(f"temperature is {temperature}. It must be above 0, such as 1.0.")
