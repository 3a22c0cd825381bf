r"""DeepFool: to the nearest boundary of the model's linearization, again and again until it is crossed.

    f_k = Z_k - Z_y,  w_k = grad f_k,   the k of the smallest |f_k| / |w_k|_q,   1 / p + 1 / q = 1
    delta <- delta + |f_k| / |w_k|_q^q |w_k|^(q - 1) sign w_k

Reference: Moosavi-Dezfooli, Fawzi & Frossard, DeepFool: a Simple and Accurate Method to Fool Deep Neural Networks,
CVPR 2016.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep.attacks._attack import Answers, Attack, Budget, Norm, over
from fewstep.attacks._ball import check_ball, of_row, within

_TINY = 1e-12


def deepfool(steps: int = 50, norm: Norm = "l2", *, overshoot: float = 0.02) -> Attack:
    """The nearest boundary, crossed by `overshoot` of the way; rows that need more than the budget stay as they are.

    Example::

        perturbed = deepfool(norm="linf").perturb(key, answers, x, y, Budget(jnp.inf))
    """
    check_ball(norm)

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        low, high = of_row(budget.low, x), of_row(budget.high, x)
        scale = of_row(budget.scale, x)

        def step(_: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            moved, total = carry
            outputs, slopes = _slopes(answers, moved)
            right = jnp.argmax(outputs, axis=1) == y
            delta = _to_boundary(outputs, slopes * scale[:, None], y, norm) * scale
            total = jnp.where(over(right, x), total + delta, total)
            return jnp.clip(x + (1 + overshoot) * total, low, high), total

        moved, _ = jax.lax.fori_loop(0, steps, step, (x, jnp.zeros_like(x)))
        fooled = jnp.argmax(answers(moved), axis=1) != y
        return jnp.where(over(fooled & within(x, moved, budget, norm), x), moved, x)

    return Attack(perturb, norm)


def _slopes(answers: Answers, x: Array) -> tuple[Array, Array]:
    """The outputs of each row, and the derivative of each of them: (rows, outputs, ...)."""
    outputs, pull = jax.vjp(answers, x)
    each = jax.vmap(lambda unit: pull(jnp.broadcast_to(unit, outputs.shape))[0])(jnp.eye(outputs.shape[1]))
    return outputs, jnp.moveaxis(each, 0, 1)


def _to_boundary(outputs: Array, slopes: Array, y: Array, norm: Norm) -> Array:
    """The shortest way of each row to a boundary of the linearization, where every number has scale 1."""
    own = jax.nn.one_hot(y, outputs.shape[1], dtype=bool)
    pick = lambda values: jnp.take_along_axis(values, y.reshape(-1, *[1] * (values.ndim - 1)), axis=1)
    gap, way = jnp.abs(outputs - pick(outputs)), slopes - pick(slopes)
    flat = way.reshape(*gap.shape, -1)
    size = jnp.sqrt(jnp.square(flat).sum(-1)) if norm == "l2" else jnp.abs(flat).sum(-1)
    far = jnp.where(own, jnp.inf, gap / (size + _TINY))
    nearest = jnp.argmin(far, axis=1)[:, None]
    chosen = jnp.take_along_axis(way, nearest.reshape(-1, 1, *[1] * (way.ndim - 2)), axis=1)[:, 0]
    take = lambda values: over(jnp.take_along_axis(values, nearest, axis=1)[:, 0], chosen)
    if norm == "l2":
        return (take(far) + 1e-4) * chosen / (take(size) + _TINY)
    return (take(far) + 1e-4) * jnp.sign(chosen)
