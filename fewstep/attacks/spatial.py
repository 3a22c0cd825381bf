r"""Rotations and shifts: the worst of a grid of them, for each image.

Reference: Engstrom, Tran, Tsipras, Schmidt & Madry, Exploring the Landscape of Spatial Robustness, ICML 2019.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError
from fewstep.attacks._attack import Answers, Attack, Budget, Objective, margin
from fewstep.attacks.pgd import worst


def spatial(
    degrees: float = 30.0, pixels: float = 3.0, *, angles: int = 5, shifts: int = 3, objective: Objective = margin
) -> Attack:
    """The worst rotation and shift of a grid: `angles` up to so many degrees either way, and `shifts` up to so many
    pixels along each axis. The budget's radius multiplies both: 1 is all of the grid, 0 changes nothing.

    Example::

        perturbed = spatial(30, 3).perturb(key, answers, x, y, Budget(1.0))
    """
    if angles < 1 or shifts < 1:
        raise FewstepError(f"angles={angles}, shifts={shifts}: give 1 or more of both.")
    along = np.linspace(-pixels, pixels, shifts) if shifts > 1 else np.zeros(1)
    turns = np.linspace(-degrees, degrees, angles) if angles > 1 else np.zeros(1)
    grid = np.asarray(list(itertools.product(turns * math.pi / 180, along, along)), np.float32)

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        if x.ndim != 4:
            raise FewstepError(f"spatial turns images, and a row of x has shape {x.shape[1:]}. Use pgd or square.")
        moved = jax.lax.map(lambda move: _moved(x, move * budget.eps), jnp.asarray(grid))
        value = lambda candidate: objective(answers(candidate), y)
        found = worst(value, jnp.concatenate([x[None], moved.astype(x.dtype)]))
        return jnp.where(budget.eps > 0, found, x)

    return Attack(perturb, "grid", gradient=False)


def _moved(x: Float[Array, "rows high wide channels"], move: Float[Array, " 3"]) -> Array:
    """All images, turned by an angle around the middle and shifted; beyond the edge, the edge goes on."""
    angle, down, across = move
    high, wide = x.shape[1:3]
    middle = jnp.asarray([(high - 1) / 2, (wide - 1) / 2])
    rows, columns = jnp.meshgrid(
        jnp.arange(high) - middle[0] - down, jnp.arange(wide) - middle[1] - across, indexing="ij"
    )
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    places = [cos * rows - sin * columns + middle[0], sin * rows + cos * columns + middle[1]]
    one = lambda channel: map_coordinates(channel, places, order=1, mode="nearest")
    return jax.vmap(jax.vmap(one, in_axes=2, out_axes=2))(x)
