r"""Boosted trees that learn a task without a gradient step: pooled, shifted, or with features made of the support.

The base b(x) is a forest fitted to the rows of all training tasks, whatever task they are of. Then

    pooled:   prediction(x) = b(x)
    shifted:  prediction(x) = b(x) + o,         o = sum_i r_i / (n + c),   r_i = y_i - b(x_i)
    trees:    prediction(x) = b(x) + o + f(x, b(x), s(x))

with r the residuals of the n rows of the support, and c a fitted number that shrinks the offset o. s(x) are features of
the support as x sees it: how many rows there are, mean and deviation of the residuals, the residuals near x by several
kernels, their linear regression at x, and how near the nearest row is. f is a second forest, fitted to supports drawn
from the training tasks, each without the row itself; the base of these rows is a forest fitted without their task.

Of classes b, o and f are logits, r is one-hot less probabilities, and o maximizes the likelihood with a penalty.

Reference: Friedman, Greedy function approximation: a gradient boosting machine, Annals of Statistics 2001; the shrunken
offset is the random intercept of Laird & Ware, 1982.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner, Loss
from fewstep._rule import Meta
from fewstep.compute import solve_positive
from fewstep.learners.forest import Size, empty_forest, evaluate_forest

Keep: TypeAlias = Callable[[Meta, Batch], dict[str, Array]]
Correct: TypeAlias = Callable[[Meta, dict[str, Array], Array], Array]
BASE, SECOND = Size(150, 16, 6), Size(150, 16, 6)
_KERNELS = (0.1, 0.3, 1.0)  # their widths, in deviations of x
_PENALTY = 0.3


def pooled(outputs: int, loss: Loss, *, classes: bool = False) -> Learner:
    """The forest of all tasks together: nothing is learned from a task's rows."""
    nothing = lambda meta, support: {"offset": jnp.zeros(outputs)}
    return _by_base(outputs, loss, {}, nothing, lambda meta, kept, x: kept["offset"][None])


def shifted(outputs: int, loss: Loss, *, classes: bool = False) -> Learner:
    """The pooled forest with a shrunken offset for each task."""

    def keep(meta: Meta, support: Batch) -> dict[str, Array]:
        return {"offset": offset_of(support, outputs, jnp.exp(meta["log_penalty"]), classes=classes)}

    return _by_base(outputs, loss, {"log_penalty": jnp.zeros(())}, keep, lambda meta, kept, x: kept["offset"][None])


def trees(outputs: int, loss: Loss, *, classes: bool = False) -> Learner:
    """The pooled forest, the offset, and a second forest of features that are made of the support."""

    def keep(meta: Meta, support: Batch) -> dict[str, Array]:
        offset = offset_of(support, outputs, jnp.exp(meta["log_penalty"]), classes=classes)
        return {"x": support.x, "y": support.y, "weight": support.weight, "offset": offset}

    def correct(meta: Meta, kept: dict[str, Array], x: Array) -> Array:
        support = Batch(kept["x"], kept["y"], kept["weight"])
        features = support_features(support, x, outputs, classes=classes)
        return kept["offset"][None] + evaluate_forest(meta["second"], features, SECOND)

    start = {"log_penalty": jnp.zeros(()), "second": empty_forest(outputs, SECOND)}
    return _by_base(outputs, loss, start, keep, correct)


def _by_base(outputs: int, loss: Loss, start: Meta, keep: Keep, correct: Correct) -> Learner:
    """The learner that keeps something of the support, seen beside its base, and corrects the base of a query by it."""

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        once = Adapted(keep(meta, support._replace(x=with_base(meta["base"], support.x))), ())
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        x = with_base(meta["base"], x)
        return x[:, -outputs:] + correct(meta, adapted.fast, x)

    def episode_loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        return loss(predict(meta, adapt(meta, key, episode.support, 0), episode.query.x), episode.query)

    begin = lambda key: {"base": empty_forest(outputs, BASE), "rounds": jnp.zeros(2), **start}
    return Learner(begin, episode_loss, adapt, predict)


def with_base(base: dict[str, Array], x: Float[Array, "rows inputs"]) -> Float[Array, "rows more"]:
    """The rows with what the base says of each behind them."""
    return jnp.concatenate([x, evaluate_forest(base, x, BASE)], axis=1)


def offset_of(support: Batch, outputs: int, penalty: Array, *, classes: bool) -> Float[Array, " outputs"]:
    """How far a task lies from the base of its rows, which stands behind their x, shrunken by the penalty."""
    base, weight = support.x[:, -outputs:], support.weight[:, None]
    if not classes:
        return (weight * (support.y - base)).sum(0) / (weight.sum() + penalty)
    label = jax.nn.one_hot(support.y, outputs)

    def climb(_: Array | int, offset: Array) -> Array:
        """A step that raises the likelihood: its curvature is at most half the rows, and the penalty."""
        residual = label - jax.nn.softmax(base + offset[None])
        return offset + ((weight * residual).sum(0) - penalty * offset) / (weight.sum() / 2 + penalty)

    return jax.lax.fori_loop(0, 30, climb, jnp.zeros(outputs))


def support_features(support: Batch, x: Array, outputs: int, *, classes: bool) -> Float[Array, "rows features"]:
    """The rows of x, with their base behind them, and what the support says of each."""
    weight, base = support.weight, support.x[:, -outputs:]
    residual = jax.nn.one_hot(support.y, outputs) - jax.nn.softmax(base) if classes else support.y - base
    number = weight.sum()
    mean = (weight[:, None] * residual).sum(0) / (number + 1)
    centered = weight[:, None] * (residual - mean[None])
    apart = _apart(x[:, :-outputs], support.x[:, :-outputs])
    near = jnp.sqrt(jnp.min(jnp.where(weight[None] > 0, apart, 25.0), axis=1, initial=25.0))
    whole = [jnp.log1p(number)[None], mean, jnp.sqrt((jnp.square(centered)).sum(0) / (number + 1))]
    if not classes:
        there = weight[:, None] > 0
        highest = jnp.max(jnp.where(there, support.y, -10.0), axis=0, initial=-10.0)
        lowest = jnp.min(jnp.where(there, support.y, 10.0), axis=0, initial=10.0)
        whole += [highest, lowest]
    smooth = [_smoothed(apart / width**2, weight, centered) for width in _KERNELS]
    smooth.append(_smoothed(_apart(x[:, -outputs:], base) / _KERNELS[1] ** 2, weight, centered))
    line = _regressed(x[:, :-outputs], support.x[:, :-outputs], weight, centered)
    about = jnp.broadcast_to(jnp.concatenate(whole)[None], (x.shape[0], sum(part.shape[0] for part in whole)))
    return jnp.concatenate([x, about, near[:, None], line, *smooth], axis=1)


def _apart(a: Array, b: Array) -> Float[Array, "a b"]:
    """The mean squared difference of each pair of rows."""
    return jnp.mean(jnp.square(a[:, None] - b[None]), axis=-1)


def _smoothed(apart: Array, weight: Array, residual: Array) -> Array:
    """The mean of the residuals near each row, shrunken where there are few."""
    kernel = weight[None] * jnp.exp(-apart / 2)
    return kernel @ residual / (kernel.sum(1, keepdims=True) + _PENALTY)


def _regressed(x: Array, support: Array, weight: Array, residual: Array) -> Array:
    """The ridge regression of the residuals at each row, solved in the space of the support's rows."""
    rows = weight[:, None] * support / jnp.sqrt(support.shape[1])
    gram = rows @ rows.T + _PENALTY * jnp.eye(rows.shape[0])
    return (x / jnp.sqrt(support.shape[1])) @ (rows.T @ solve_positive(gram, residual))
