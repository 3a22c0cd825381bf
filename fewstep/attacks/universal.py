r"""One perturbation for all inputs of all tasks: ascent on the mean objective, within the ball.

    delta <- project(delta + step * steepest(grad mean over rows of min(objective(x + delta), cap)))

Reference: Moosavi-Dezfooli, Fawzi, Fawzi & Frossard, Universal Adversarial Perturbations, CVPR 2017 (what is sought);
Shafahi, Najibi, Xu, Dickerson, Davis & Goldstein, Universal Adversarial Training, AAAI 2020 (by clipped ascent).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep.attacks._attack import Answers, Attack, Budget, Norm, cross_entropy
from fewstep.attacks._ball import check_ball, project, steepest

_CAP = 3.0  # a row that is fooled by so much counts no more


def universal(steps: int = 50, norm: Norm = "linf", *, step_size: float = 0.1) -> Attack:
    """The perturbation that fools most rows together; steps have `step_size` times the radius.

    Example::

        everywhere = universal().perturb(key, answers, x, y, Budget(8 / 255)) - x
    """
    check_ball(norm)

    def perturb(key: Key[Array, ""], answers: Answers, x: Array, y: Array, budget: Budget) -> Array:
        origin = jnp.zeros((1, *x.shape[1:]), x.dtype)
        free = budget._replace(low=-jnp.inf, high=jnp.inf)
        ends = lambda delta: jnp.clip(x + delta.repeat(x.shape[0], 0), *_ends(budget, x))
        mean = lambda delta: jnp.minimum(cross_entropy(answers(ends(delta)), y), _CAP).mean()

        def step(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            delta, best, highest = carry
            value, gradient = jax.value_and_grad(mean)(delta)
            better = value > highest
            best, highest = jnp.where(better, delta, best), jnp.where(better, value, highest)
            far = step_size * budget.eps * steepest(gradient, budget, norm)
            return project(origin, delta + far, free, norm), best, highest

        begin = (origin, origin, jnp.asarray(-jnp.inf, x.dtype))
        delta, best, highest = jax.lax.fori_loop(0, steps, step, begin)
        return ends(jnp.where(mean(delta) > highest, delta, best))

    return Attack(perturb, norm, shared=True)


def _ends(budget: Budget, x: Array) -> tuple[Array, Array]:
    low, high = (jnp.broadcast_to(jnp.asarray(end, x.dtype), x.shape) for end in (budget.low, budget.high))
    return low, high
