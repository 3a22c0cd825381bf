r"""The smallest perturbation that fools, by minimization: Carlini and Wagner's attack in the Euclidean norm.

    min over w of |x(w) - x|^2 + c max(Z_y - max over i != y of Z_i + confidence, 0),    x(w) = (tanh w + 1) / 2

Z are the logits; c is found by bisection, row by row.

Reference: Carlini & Wagner, Towards Evaluating the Robustness of Neural Networks, S&P 2017.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep.attacks._attack import Answers, Attack, Budget, Values, margin, over
from fewstep.attacks._ball import of_row, within

_INSIDE = 0.999999  # of the range: tanh reaches its ends nowhere


class _Search(NamedTuple):
    """The constant of each row and what it is known to lie between, and the nearest point that fools, how far away."""

    constant: Values
    low: Values
    high: Values
    best: Array
    nearest: Values


def cw(
    steps: int = 200, searches: int = 6, *, step_size: float = 0.01, confidence: float = 0.0, constant: float = 0.001
) -> Attack:
    """The nearest point that fools the model; rows that need more than the budget stay as they are.

    **Arguments:** Adam `steps` of `step_size` for each of the `searches`, which begin at `constant`; `confidence` is
    the margin to reach.

    Example::

        perturbed = cw().perturb(key, answers, x, y, Budget(jnp.inf))   # the smallest, whatever its size
    """

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        low, high, free = of_row(budget.low, x), of_row(budget.high, x), of_row(budget.scale, x) > 0
        middle, half = (low + high) / 2, (high - low) / 2
        start = jnp.arctanh(jnp.clip((x - middle) / half, -1, 1) * _INSIDE)
        point = lambda w: jnp.where(free, middle + half * jnp.tanh(w), x)
        back = point(start)  # x, but for the rounding of tanh
        away = lambda moved: jnp.square(moved - back).reshape(x.shape[0], -1).sum(axis=1)
        adam = optax.adam(step_size)

        def search(state: _Search, number: None) -> tuple[_Search, None]:
            def loss(w: Array) -> tuple[Array, tuple[Array, Values, Values]]:
                moved = point(w)
                ahead, far = margin(answers(moved), y), away(moved)
                short = jnp.maximum(confidence - ahead, 0)
                return (far + state.constant * short).sum(), (moved, ahead, far)

            def step(carry: tuple, number: None) -> tuple[tuple, None]:
                w, memory, best, nearest, fooled = carry
                gradient, (moved, ahead, far) = jax.grad(loss, has_aux=True)(w)
                hit = (ahead > 0) & (ahead >= confidence)
                nearer = hit & (far < nearest)
                best, nearest = jnp.where(over(nearer, x), moved, best), jnp.where(nearer, far, nearest)
                updates, memory = adam.update(gradient, memory)
                return (optax.apply_updates(w, updates), memory, best, nearest, fooled | hit), None

            begin = (start, adam.init(start), state.best, state.nearest, jnp.zeros(x.shape[0], bool))
            (_, _, best, nearest, fooled), _ = jax.lax.scan(step, begin, length=steps)
            high = jnp.where(fooled, state.constant, state.high)
            low = jnp.where(fooled, state.low, state.constant)
            constant = jnp.where(jnp.isinf(high), low * 10, (low + high) / 2)
            return _Search(constant, low, high, best, nearest), None

        values = lambda value: jnp.full(x.shape[0], value, x.dtype)
        begin = _Search(values(constant), values(0.0), values(jnp.inf), x, values(jnp.inf))
        found, _ = jax.lax.scan(search, begin, length=searches)
        return jnp.where(over(within(x, found.best, budget, "l2"), x), found.best, x)

    return Attack(perturb, "l2")
