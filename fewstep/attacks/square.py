r"""Random search with squares: a window of each image takes the radius up or down, and stays where that is worse.

Reference: Andriushchenko, Croce, Flammarion & Hein, Square Attack: a Query-Efficient Black-box Adversarial Attack via
Random Search, ECCV 2020.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError
from fewstep.attacks._attack import Answers, Attack, Budget, Objective, margin, over
from fewstep.attacks._ball import of_row, project

_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # of all queries


def square(queries: int = 500, *, share: float = 0.8, objective: Objective = margin) -> Attack:
    """Random search in the largest norm with so many queries per row, without a gradient. `share` of an image is
    changed at first, and less and less. A row of numbers counts as an image of one column.

    Example::

        perturbed = square(500).perturb(key, answers, x, y, Budget(8 / 255))
    """
    if queries < 2 or not 0 < share <= 1:
        raise FewstepError(f"queries={queries}, share={share}: give 2 queries or more, and a share between 0 and 1.")

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        images = x if x.ndim == 4 else x.reshape(x.shape[0], -1, 1, 1)
        rows, high, wide, channels = images.shape
        scale = of_row(budget.scale, x).reshape(images.shape)
        value = lambda moved: objective(answers(moved.reshape(x.shape)), y)
        keep = lambda moved: project(x, moved.reshape(x.shape), budget, "linf").reshape(images.shape)
        sign = lambda key, shape: jax.random.rademacher(key, shape, images.dtype)
        sides = jnp.asarray([_sides(share * part, high, wide) for part in _schedule(queries)])

        def query(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            moved, values = carry
            of_place, of_sign = jax.random.split(jax.random.fold_in(key, number + 1))
            tall, broad = sides[number]
            inside = _window(of_place, rows, high, wide, tall, broad)
            up = sign(of_sign, (rows, 1, 1, channels))
            candidate = keep(jnp.where(inside[..., None], images + budget.eps * scale * up, moved))
            candidate_values = value(candidate)
            better = candidate_values > values
            return jnp.where(over(better, images), candidate, moved), jnp.where(better, candidate_values, values)

        stripes = keep(images + budget.eps * scale * sign(key, (rows, 1, wide, channels)))
        begin, clean = value(stripes), value(images)
        start = jnp.where(over(begin > clean, images), stripes, images)
        moved, _ = jax.lax.fori_loop(0, queries - 1, query, (start, jnp.maximum(begin, clean)))
        return moved.reshape(x.shape)

    return Attack(perturb, "linf", gradient=False)


def _schedule(queries: int) -> Float[np.ndarray, " queries"]:
    """What the share is multiplied by at each query."""
    done = np.arange(queries) / queries
    return 0.5 ** np.searchsorted(_HALVINGS, done, side="right").astype(float)


def _sides(share: float, high: int, wide: int) -> tuple[int, int]:
    """Height and width of a window that covers so much of an image."""
    if wide == 1:
        return max(1, round(share * high)), 1
    side = max(1, round((share * high * wide) ** 0.5))
    return min(side, high), min(side, wide)


def _window(key: Key[Array, ""], rows: int, high: int, wide: int, tall: Array, broad: Array) -> Array:
    """One window per row at a random place: (rows, high, wide)."""
    of_top, of_left = jax.random.split(key)
    top = jax.random.randint(of_top, (rows, 1, 1), 0, high - tall + 1)
    left = jax.random.randint(of_left, (rows, 1, 1), 0, wide - broad + 1)
    down, across = jnp.arange(high)[None, :, None], jnp.arange(wide)[None, None, :]
    within = ((down - top >= 0) & (down - top < tall), (across - left >= 0) & (across - left < broad))
    return jnp.broadcast_to(within[0], (rows, high, wide)) & jnp.broadcast_to(within[1], (rows, high, wide))
