"""The ball of a budget around the rows of x: staying inside, starting inside, and the steepest way."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep._errors import unknown
from fewstep.attacks._attack import Budget, Norm, over

BALLS = ("linf", "l2")


def check_ball(norm: Norm) -> None:
    """Refuses a norm that has no ball here."""
    if norm not in BALLS:
        raise unknown("norm", norm, BALLS)


def of_row(value: float | Array, x: Array) -> Array:
    """A number of the budget, or one per number of a row, in the shape of x."""
    return jnp.broadcast_to(jnp.asarray(value, x.dtype), x.shape[1:])[None].repeat(x.shape[0], axis=0)


def size_of(delta: Array, budget: Budget, norm: Norm) -> Float[Array, " rows"]:
    """How far each row is moved, in the norm, each number relative to its scale."""
    scale = of_row(budget.scale, delta)
    flat = jnp.where(scale > 0, delta / jnp.where(scale > 0, scale, 1), 0).reshape(delta.shape[0], -1)
    if norm == "l0":
        return (jnp.abs(delta).sum(axis=-1).reshape(delta.shape[0], -1) > 0).sum(axis=1).astype(delta.dtype)
    return jnp.abs(flat).max(axis=1) if norm == "linf" else jnp.sqrt(jnp.square(flat).sum(axis=1))


def within(x: Array, moved: Array, budget: Budget, norm: Norm) -> Bool[Array, " rows"]:
    """Which rows lie within the budget."""
    return size_of(moved - x, budget, norm) <= budget.eps


def project(x: Array, moved: Array, budget: Budget, norm: Norm) -> Array:
    """The moved rows, brought back into the ball around x and between the ends of the values; x where eps is 0."""
    scale, delta = of_row(budget.scale, x), moved - x
    if norm == "linf":
        delta = jnp.clip(delta, -budget.eps * scale, budget.eps * scale)
    else:
        size = size_of(delta, budget, norm)
        shrink = jnp.minimum(1.0, budget.eps / jnp.maximum(size, 1e-12))
        delta = jnp.where(scale > 0, delta * over(shrink, x), 0)
    return jnp.clip(x + delta, of_row(budget.low, x), of_row(budget.high, x))


def steepest(gradient: Array, budget: Budget, norm: Norm) -> Array:
    """The step of size 1 in the norm along which a linear function grows fastest."""
    scale = of_row(budget.scale, gradient)
    if norm == "linf":
        return jnp.sign(gradient) * scale
    slope = gradient * scale  # in units in which every number has scale 1
    size = jnp.sqrt(jnp.square(slope).reshape(slope.shape[0], -1).sum(axis=1))
    return slope / over(jnp.maximum(size, 1e-12), slope) * scale


def inside(key: Key[Array, ""], x: Array, budget: Budget, norm: Norm) -> Array:
    """Rows drawn uniformly from the ball around x."""
    scale = of_row(budget.scale, x)
    if norm == "linf":
        delta = jax.random.uniform(key, x.shape, x.dtype, -1.0, 1.0)
    else:
        of_way, of_size = jax.random.split(key)
        way = jax.random.normal(of_way, x.shape, x.dtype) * (scale > 0)
        size = jnp.sqrt(jnp.square(way).reshape(x.shape[0], -1).sum(axis=1))
        free = jnp.maximum((scale > 0).reshape(x.shape[0], -1).sum(axis=1), 1)
        far = jax.random.uniform(of_size, (x.shape[0],), x.dtype) ** (1 / free)
        delta = way / over(jnp.maximum(size, 1e-12) / far, x)
    return project(x, x + budget.eps * scale * delta, budget, norm)
