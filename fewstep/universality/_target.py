"""The learner that is to be expressed: evaluated at many points, and checked."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from fewstep._errors import FewstepError
from fewstep.files import called
from fewstep.universality.plan import Plan

Rows = jax.Array | np.ndarray
Target = Callable[[Rows, Rows, Rows], ArrayLike]
_CHUNK = 1 << 16


def evaluate(
    plan: Plan, target: Target, x: np.ndarray, y: np.ndarray, x_star: np.ndarray
) -> np.ndarray:  # (n, K, dx), (n, K, ...), (n, dx) -> (n, outputs)
    """The target at n points: compiled where JAX can trace it, and one by one where it cannot."""
    _evaluate_one(plan, target, x[0], y[0], x_star[0])
    flat = lambda *point: jnp.asarray(target(*point)).reshape(plan.outputs)
    try:
        many = jax.jit(jax.vmap(flat))
        cuts = range(0, len(x), _CHUNK)
        answers = np.concatenate([np.asarray(many(*(a[c : c + _CHUNK] for a in (x, y, x_star)))) for c in cuts])
    except Exception:  # a target that cannot be traced may raise anything; one that just fails raises again below
        answers = np.stack([_evaluate_one(plan, target, *point) for point in zip(x, y, x_star, strict=True)])
    if not np.isfinite(answers).all():
        at = int(np.flatnonzero(~np.isfinite(answers).all(axis=1))[0])
        raise FewstepError(
            f"The target gives {answers[at].tolist()} at x = {x[at].tolist()}, y = {y[at].tolist()}, x* = "
            f"{x_star[at].tolist()}. It must be finite on the whole box: choose a smaller box, or correct the target."
        )
    return answers


def _evaluate_one(plan: Plan, target: Target, x: np.ndarray, y: np.ndarray, x_star: np.ndarray) -> np.ndarray:
    """The target at one point; an error in it is reported with the place."""
    where = f"x = {x.tolist()}, y = {y.tolist()}, x* = {np.asarray(x_star).tolist()}"
    call = f"target(x, y, x_star) with shapes {x.shape}, {y.shape} and {x_star.shape}, at {where},"
    answer = called(call, lambda: np.asarray(target(x, y, x_star)))
    if answer.size != plan.outputs or not np.issubdtype(answer.dtype, np.number):
        raise FewstepError(
            f"The target gives {answer.dtype} of shape {answer.shape} for x of shape {x.shape}, y of shape {y.shape} "
            f"and x* of shape {x_star.shape}. It must give {plan.outputs} number{'s' * (plan.outputs > 1)}."
        )
    return answer.reshape(plan.outputs)


def draw(plan: Plan, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the box: n sets of examples with x in bins apart, their labels, and an x* for each."""
    random, size = np.random.default_rng(seed), len(plan.x_box)
    low, high = (np.array(side) for side in zip(*plan.x_box, strict=True))
    separate = plan.labels != "one-hot"
    bins = random.permuted(np.tile(np.arange(plan.J), (n, 1)), axis=1)[:, : plan.examples] if separate else (
        random.integers(plan.J, size=(n, plan.examples))
    )  # fmt: skip
    width = (high - low) / plan.bins
    within = random.uniform(-0.499, 0.499, (n, plan.examples, size)) * width
    x_star = random.uniform(low, high, (n, size))
    return plan.centers()[bins] + within, _labels(plan, random, n), x_star


def _labels(plan: Plan, random: np.random.Generator, n: int) -> np.ndarray:
    if plan.labels == "numbers":
        low, high = zip(*plan.y_box, strict=True)
        return random.uniform(low, high, (n, plan.examples, plan.outputs))
    labels = random.integers(plan.classes, size=(n, plan.examples))
    return labels if plan.labels == "classes" else np.eye(plan.classes)[labels]
