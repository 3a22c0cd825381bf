"""Which losses carry y through their gradient (appendix B): the gradient at the first prediction determines y."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

Single = Callable[[jax.Array, jax.Array], jax.Array]
_CLASSES = 4


class LossGradients(NamedTuple):
    """A loss: its gradients for different y, the smallest distance of two of them, and whether they determine y."""

    name: str
    gradients: np.ndarray
    min_distance: float
    carries: bool


NUMBERS: dict[str, Single] = {
    "squared error": lambda p, y: jnp.sum(jnp.square(p - y)),
    "absolute error": lambda p, y: jnp.sum(jnp.abs(p - y)),
    "Huber": lambda p, y: jnp.sum(optax.losses.huber_loss(p, y, delta=0.25)),
    "hinge": lambda p, y: jnp.sum(optax.losses.hinge_loss(p, jnp.sign(y))),  # it takes a side, not a number
}


def which_carry(y: tuple[float, ...] = (0.5, 0.75, 1.0, 1.5, 2.0)) -> list[LossGradients]:
    """The gradient of each loss at the prediction 0 for several y: equal gradients cannot tell their y apart."""
    labels = jnp.asarray(y)[:, None]
    rows = [_measure(name, loss, jnp.zeros(1), labels) for name, loss in NUMBERS.items()]
    entropy: Single = lambda p, t: optax.losses.softmax_cross_entropy(p, t)
    return [*rows, _measure("cross entropy", entropy, jnp.zeros(_CLASSES), jnp.eye(_CLASSES))]


def _measure(name: str, loss: Single, prediction: jax.Array, labels: jax.Array) -> LossGradients:
    slopes = np.asarray(jax.vmap(lambda label: jax.grad(loss)(prediction, label))(labels))
    distances = np.linalg.norm(slopes[:, None] - slopes[None], axis=2)
    nearest = float(distances[~np.eye(len(slopes), dtype=bool)].min())
    return LossGradients(name, slopes, nearest, nearest > 1e-9)
