r"""Projected gradient ascent: steps of the steepest way, each brought back into the ball.

    x <- project(x + step * steepest(grad objective(x)))

Reference: Madry, Makelov, Schmidt, Tsipras & Vladu, Towards Deep Learning Models Resistant to Adversarial Attacks,
ICLR 2018; Goodfellow, Shlens & Szegedy, Explaining and Harnessing Adversarial Examples, ICLR 2015 (fgsm); Kurakin,
Goodfellow & Bengio, Adversarial Machine Learning at Scale, ICLR 2017 (ifgsm, least likely).
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._errors import FewstepError
from fewstep.attacks._attack import (
    Answers,
    Attack,
    Budget,
    Norm,
    Objective,
    RowValues,
    Values,
    cross_entropy,
    objective_of,
    over,
)
from fewstep.attacks._ball import check_ball, inside, project, steepest

Of = Literal["cross_entropy", "margin", "dlr", "squared_error"]


def pgd(
    steps: int = 20,
    norm: Norm = "linf",
    *,
    step_size: float = 0.0,
    restarts: int = 1,
    random_start: bool = True,
    objective: Of | Objective = "cross_entropy",
    keep: Literal["worst", "last"] = "worst",
) -> Attack:
    """Gradient ascent on the objective, within the ball.

    **Arguments:** `steps` of `step_size` times the radius, by default 2.5 / steps, so that it can cross the ball; each
    of the `restarts` begins at a random point of it, or at x without `random_start`; `keep` the worst point of all
    steps and restarts, row by row, or the last one.

    Example::

        perturbed = pgd(20).perturb(key, answers, x, y, Budget(8 / 255))
    """
    check_ball(norm)
    if steps < 1 or restarts < 1:
        raise FewstepError(f"steps={steps}, restarts={restarts}: give 1 or more of both.")
    of, rate = objective_of(objective), step_size or 2.5 / steps

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        value = lambda moved: of(answers(moved), y)

        def start(key: Key[Array, ""]) -> Array:
            return inside(key, x, budget, norm) if random_start else x

        ends = [
            ascend(value, x, start(own), budget, norm, steps=steps, rate=rate, keep=keep)
            for own in jax.random.split(key, restarts)
        ]
        return ends[0] if restarts == 1 else worst(value, jnp.stack(ends))

    return Attack(perturb, norm)


def fgsm(norm: Norm = "linf", *, random_start: bool = False, objective: Of | Objective = "cross_entropy") -> Attack:
    """One step to the surface of the ball; with a random start 1.25 times as long, from a point inside it."""
    rate = 1.25 if random_start else 1.0
    return pgd(1, norm, step_size=rate, random_start=random_start, objective=objective, keep="last")


def ifgsm(
    steps: int = 10, norm: Norm = "linf", *, step_size: float = 0.2, objective: Of | Objective = "cross_entropy"
) -> Attack:
    """Several steps from x, of which the last point counts (the basic iterative method)."""
    return pgd(steps, norm, step_size=step_size, random_start=False, objective=objective, keep="last")


def least_likely(steps: int = 1, norm: Norm = "linf") -> Attack:
    """Steps towards the class that the model thinks least likely, whatever the label; with one step, all the way."""
    rate = 1.0 if steps == 1 else 2.0 / steps

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        target = jnp.argmin(answers(x), axis=1)
        value = lambda moved: -cross_entropy(answers(moved), target)
        return ascend(value, x, x, budget, norm, steps=steps, rate=rate, keep="last")

    check_ball(norm)
    return Attack(perturb, norm)


def ascend(
    value: RowValues, x: Array, start: Array, budget: Budget, norm: Norm, *, steps: int, rate: float, keep: str
) -> Array:
    """Steps of `rate` times the radius up the value of each row; the worst point on the way, x if none is worse, or the
    last."""
    slope = jax.grad(lambda moved: (lambda values: (values.sum(), values))(value(moved)), has_aux=True)
    if keep == "last":
        step = lambda _, moved: project(
            x, moved + rate * budget.eps * steepest(slope(moved)[0], budget, norm), budget, norm
        )
        return jax.lax.fori_loop(0, steps, step, start)

    def take(carry: tuple[Array, Array, Values], _: None) -> tuple[tuple[Array, Array, Values], None]:
        moved, best, highest = carry
        gradient, values = slope(moved)
        better = values > highest
        best, highest = jnp.where(over(better, x), moved, best), jnp.where(better, values, highest)
        moved = project(x, moved + rate * budget.eps * steepest(gradient, budget, norm), budget, norm)
        return (moved, best, highest), None

    begin = (start, x, value(x))
    (moved, best, highest), _ = jax.lax.scan(take, begin, length=steps)
    return jnp.where(over(value(moved) > highest, x), moved, best)


def worst(value: RowValues, candidates: Array) -> Array:
    """Of several perturbed x, (candidates, rows, ...), the worst of each row."""
    values = jax.lax.map(value, candidates)
    return jnp.take_along_axis(
        candidates, jnp.argmax(values, axis=0).reshape(1, -1, *[1] * (candidates.ndim - 2)), axis=0
    )[0]
