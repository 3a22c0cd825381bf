"""The step: plain gradient descent, or any optax transformation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from fewstep._errors import FewstepError
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._options import Inner, Start


def sgd(lr: float | Array, *, clip: float = 0.0) -> Rule:
    r"""Gradient descent with a fixed step size: `fast - lr * gradient`.

    **Arguments:** `lr`, the step size, not negative; `clip`, the largest norm of the gradient of all adapted arrays, 0
    for none. Learned rates replace a step size, and multiply a clipped step.

    **Returns:** a link for `chain`.
    """
    check_rate(lr, "lr")
    if clip > 0:
        clipped = optax.chain(clip_norm(clip), optax.sgd(lr))
        return link("sgd", Stage.OPTIMIZE, update=lambda layers, meta, key: clipped)
    return link("sgd", Stage.OPTIMIZE, fixed_step=True, update=lambda layers, meta, key: optax.sgd(lr))


def optimizer(transformation: optax.GradientTransformation) -> Rule:
    r"""Any optax transformation as the inner optimizer, its own step size included: `optimizer(optax.adam(1e-3))`.

    Adam divides by the root of a mean square. Where a gradient is 0 that root has no derivative, and the meta-gradient
    would be NaN; there, and only there, the dependence of the step on the gradient is taken as 0.

    A transformation with extra arguments is given the support loss as `value`: `optimizer(optax.polyak_sgd())`.

    **Arguments:** the transformation; it starts anew for each task.

    **Returns:** a link for `chain`.
    """

    inner = optax.with_extra_args_support(transformation)

    def guarded(updates: Flat, state: PyTree, params: Flat | None = None, **extra: Any) -> tuple[Flat, PyTree]:
        return inner.update(jax.tree.map(_tame, updates), state, params, **extra)

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        return optax.GradientTransformationExtraArgs(inner.init, guarded)

    return link("optimizer", Stage.OPTIMIZE, update=update)


def clip_norm(largest: float) -> optax.GradientTransformation:
    """Clips a gradient to a norm. One that is shorter is left alone with its derivative, also where it is 0, which
    `optax.clip_by_global_norm` has no derivative at."""

    def clipped(gradient: Flat, params: Flat | None = None) -> Flat:
        square = optax.tree.norm(gradient, squared=True)
        long = square > largest**2
        norm = jnp.sqrt(jnp.where(long, square, 1.0))
        return jax.tree.map(lambda leaf: jnp.where(long, (leaf / norm) * largest, leaf).astype(leaf.dtype), gradient)

    return optax.stateless(clipped)


def step(inner: Inner) -> Rule:
    """`sgd` for a number, `optimizer` for an optax transformation."""
    return optimizer(inner) if isinstance(inner, optax.GradientTransformation) else sgd(inner)


def check_rate(rate: float | Array, name: str) -> None:
    """Refuses a step size that is negative or not finite."""
    if isinstance(rate, int | float) and not 0 <= rate < float("inf"):
        raise FewstepError(f"{name} is {rate}. A step size must be finite and not negative, such as 0.01.")


def first_rate(start: Start, name: str) -> Callable[[Key[Array, ""]], float | Array]:
    """The value that all rates of a rule begin with, by a key: `start`, or drawn from it if it is a range."""
    low, high = start if isinstance(start, tuple) else (start, start)
    check_rate(low, name)
    check_rate(high, name)
    drawn = isinstance(start, tuple) and high > low
    return lambda key: jax.random.uniform(key, (), minval=low, maxval=high) if drawn else low


@jax.custom_vjp
def _tame(gradient: Array) -> Array:
    return gradient


def _tame_forward(gradient: Array) -> tuple[Array, Array]:
    return gradient, jnp.square(gradient) == 0


def _tame_backward(vanished: Array, cotangent: Array) -> tuple[Array]:
    return (jnp.where(vanished & ~jnp.isfinite(cotangent), 0.0, cotangent),)


_tame.defvjp(_tame_forward, _tame_backward)
