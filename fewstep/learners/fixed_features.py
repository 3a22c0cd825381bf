r"""Nearest class mean on features without weights: a baseline for images that needs no training.

    c_k = mean of f(x) over the support of class k,        logit_k(x) = -|f(x) - c_k|^2,

where f(x) are the pixels, or the square roots of the shares of pixels in each bin of color (Hellinger distance).
Whatever was trained should beat both.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fewstep import losses
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep.learners.prototypes import prototypes

Features = Callable[[Float[Array, "rows high wide channels"]], Float[Array, "rows d"]]
_BINS = 64


def nearest_mean(features: Features, ways: int, loss: Loss = losses.cross_entropy) -> Learner:
    """The learner that gives a query the class whose mean features are nearest; there is nothing to train.

    Example::

        learner = nearest_mean(color_histogram, ways=5)
    """
    return prototypes(Network(lambda key: {}, lambda params, state, x, weight: (features(x), state), ()), ways, loss)


def pixels(x: Float[Array, "rows high wide channels"]) -> Float[Array, "rows d"]:
    """All numbers of an image."""
    return x.reshape(x.shape[0], -1)


def color_histogram(x: Float[Array, "rows high wide channels"]) -> Float[Array, "rows bins"]:
    """The root of the share of pixels in each of 64 bins of color, 4 levels in each of three channels."""
    channels = x.shape[-1]
    levels = round(_BINS ** (1 / channels))
    level = jnp.clip((x * levels).astype(int), 0, levels - 1)
    bins = (level @ levels ** jnp.arange(channels)).reshape(x.shape[0], -1)
    counts = jax.vmap(lambda row: jnp.bincount(row, length=levels**channels))(bins)
    return jnp.sqrt(counts / bins.shape[1])
