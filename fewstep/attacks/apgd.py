r"""Auto-PGD: projected gradient ascent with momentum, whose step halves by itself where the objective stalls.

    z <- project(x + step * steepest(grad)),   x <- project(x + .75 (z - x) + .25 (x - x_before))

Reference: Croce & Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free
Attacks, ICML 2020.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from fewstep._errors import FewstepError
from fewstep.attacks._attack import Answers, Attack, Budget, Norm, Objective, RowValues, Values, objective_of, over
from fewstep.attacks._ball import check_ball, inside, project, steepest
from fewstep.attacks.pgd import Of, worst

_RISES = 0.75  # of the steps between two checkpoints have to raise the objective
_MOMENTUM = 0.75


class _Way(NamedTuple):
    """Where the rows are: now and before, their values, the best so far, the step, and what a checkpoint compares."""

    x: Array
    before: Array
    value: Values
    best: Array
    highest: Values
    step: Values
    rises: Int[Array, " rows"]
    highest_then: Values
    halved_then: Bool[Array, " rows"]


def apgd(
    steps: int = 20, norm: Norm = "linf", *, restarts: int = 1, objective: Of | Objective = "cross_entropy"
) -> Attack:
    """Auto-PGD from random points of the ball; the worst point of all steps and restarts is kept.

    Example::

        perturbed = apgd(20).perturb(key, answers, x, y, Budget(8 / 255))
    """
    check_ball(norm)
    if steps < 2 or restarts < 1:
        raise FewstepError(f"steps={steps}, restarts={restarts}: give 2 steps or more, and 1 restart or more.")
    of = objective_of(objective)

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        value = lambda moved: of(answers(moved), y)
        ends = [
            climb(value, x, inside(own, x, budget, norm), budget, norm, steps)
            for own in jax.random.split(key, restarts)
        ]
        return ends[0] if restarts == 1 else worst(value, jnp.stack(ends))

    return Attack(perturb, norm)


def targeted(steps: int = 20, norm: Norm = "linf", *, targets: int = 9) -> Attack:
    """Auto-PGD towards each of the likeliest wrong classes in turn, by the margin between it and the label."""
    check_ball(norm)

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        clean = answers(x)
        ways = clean.shape[1]
        wrong = jnp.where(jax.nn.one_hot(y, ways, dtype=bool), -jnp.inf, clean)
        ranked = jnp.argsort(-wrong, axis=1)[:, : min(targets, ways - 1)].T

        def towards(own: Key[Array, ""], target: Int[Array, " rows"]) -> Array:
            def value(moved: Array) -> Values:
                outputs = answers(moved)
                pick = lambda labels: jnp.take_along_axis(outputs, labels[:, None], axis=1)[:, 0]
                return pick(target) - pick(y)

            return climb(value, x, inside(own, x, budget, norm), budget, norm, steps)

        ends = jax.lax.map(lambda each: towards(*each), (jax.random.split(key, len(ranked)), ranked))
        return worst(lambda moved: objective_of("margin")(answers(moved), y), ends)

    return Attack(perturb, norm)


def checkpoints(steps: int) -> Int[np.ndarray, " steps"]:
    """For each step, how many steps ago the last checkpoint was if this is one, else 0."""
    places, gap = [0.0, 0.22], 0.22
    while places[-1] < 1:
        gap = max(gap - 0.03, 0.06)
        places.append(places[-1] + gap)
    at = sorted({min(steps, int(np.ceil(place * steps))) for place in places})
    lengths = np.zeros(steps + 1, int)
    for earlier, later in itertools.pairwise(at):
        lengths[later] = later - earlier
    return lengths


def climb(value: RowValues, x: Array, start: Array, budget: Budget, norm: Norm, steps: int) -> Array:
    """The worst point that the steps of Auto-PGD come by."""
    slope = jax.value_and_grad(lambda moved: (lambda values: (values.sum(), values))(value(moved)), has_aux=True)
    rows = x.shape[0]

    def take(way: _Way, passed: Int[Array, ""]) -> tuple[_Way, None]:
        (_, values), gradient = slope(way.x)
        better = values > way.highest
        best, highest = jnp.where(over(better, x), way.x, way.best), jnp.where(better, values, way.highest)
        rises = way.rises + (values > way.value)
        stalls = (rises < _RISES * passed) | (~way.halved_then & (way.highest_then >= highest))
        halve = (passed > 0) & stalls
        step = jnp.where(halve, way.step / 2, way.step)
        here = jnp.where(over(halve, x), best, way.x)
        before = jnp.where(over(halve, x), best, way.before)
        far = project(x, here + over(step, x) * steepest(gradient, budget, norm), budget, norm)
        new = project(x, here + _MOMENTUM * (far - here) + (1 - _MOMENTUM) * (here - before), budget, norm)
        reset = passed > 0
        return _Way(
            new, here, values, best, highest, step, jnp.where(reset, 0, rises),
            jnp.where(reset, highest, way.highest_then), jnp.where(reset, halve, way.halved_then),
        ), None  # fmt: skip

    low = jnp.full(rows, -jnp.inf, x.dtype)
    begin = _Way(
        start, start, low, start, low, jnp.full(rows, 2 * jnp.asarray(budget.eps, x.dtype)), jnp.zeros(rows, int), low,
        jnp.zeros(rows, bool),
    )  # fmt: skip
    way, _ = jax.lax.scan(take, begin, jnp.asarray(checkpoints(steps)[:-1]))
    return jnp.where(over(value(way.x) > way.highest, x), way.x, way.best)
