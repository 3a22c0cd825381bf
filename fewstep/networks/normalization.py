"""Normalization inside a task, by name: whose statistics make the units comparable."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fewstep._errors import unknown

MODES = ("transductive", "support", "layer", "group")
_EPSILON = 1e-3  # as in the code of MAML and MT-net
_GROUPS = 8
Images = Float[Array, "rows height width units"]


class Statistics(NamedTuple):
    """Mean and variance of each unit."""

    mean: Float[Array, " units"]
    variance: Float[Array, " units"]


def normalize(
    x: Images, layer: dict[str, Array], mode: str, weight: Float[Array, " rows"], support: Statistics | None
) -> tuple[Images, Statistics | None]:
    """`x` normalized, shifted (and scaled, if the layer has a scale), and the statistics to hand on to the query.

    **Arguments:** `mode`:

    - `transductive`: each batch by its own statistics, the query set too, so that a prediction depends on the other
      queries; this is what the papers' code does;
    - `support`: the support set by its own statistics, the query by those of the support;
    - `layer`, `group`: each image by its own, over all units or over groups of them.

    Rows of weight 0 change no statistic. `support` are the support's statistics, when there are any.
    """
    check_mode(mode)
    if mode in ("layer", "group"):
        return _shift(_by_image(x, 1 if mode == "layer" else _groups(x.shape[-1])), layer), None
    statistics = _statistics(x, weight) if support is None or mode == "transductive" else support
    root = jax.lax.rsqrt(statistics.variance + _EPSILON)
    standard = (x - statistics.mean[None, None, None]) * root[None, None, None]
    return _shift(standard, layer), statistics if mode == "support" else None


def check_mode(mode: str) -> None:
    """Raises `FewstepError` for an unknown mode."""
    if mode not in MODES:
        raise unknown("normalization", mode, MODES)


def _statistics(x: Images, weight: Float[Array, " rows"]) -> Statistics:
    share = (weight / jnp.maximum(jnp.sum(weight), 1e-12) / (x.shape[1] * x.shape[2]))[:, None, None, None]
    mean = jnp.sum(x * share, axis=(0, 1, 2))
    return Statistics(mean, jnp.sum(jnp.square(x - mean[None, None, None]) * share, axis=(0, 1, 2)))


def _by_image(x: Images, groups: int) -> Images:
    parts = x.reshape(*x.shape[:3], groups, -1)
    mean = jnp.mean(parts, axis=(1, 2, 4), keepdims=True)
    variance = jnp.mean(jnp.square(parts - mean), axis=(1, 2, 4), keepdims=True)
    return ((parts - mean) * jax.lax.rsqrt(variance + _EPSILON)).reshape(x.shape)


def _groups(units: int) -> int:
    return next(groups for groups in range(min(_GROUPS, units), 0, -1) if units % groups == 0)


def _shift(x: Images, layer: dict[str, Array]) -> Images:
    x = x * layer["scale"][None, None, None] if "scale" in layer else x
    return x + layer["shift"][None, None, None]
