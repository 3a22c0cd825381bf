"""Learners to be expressed by one gradient step: `target(x, y, x_star)` with K examples gives y for x*."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fewstep.files import function_of
from fewstep.universality._target import Target

Points = Float[Array | np.ndarray, "examples inputs"]
Labels = Float[Array | np.ndarray, "examples outputs"]
Point = Float[Array | np.ndarray, " inputs"]
_PENALTY = 0.5


def nearest_neighbor(x: Points, y: Labels, x_star: Point) -> Float[Array, " outputs"]:
    """The label of the example nearest to x*."""
    return jnp.asarray(y)[jnp.argmin(jnp.sum(jnp.square(jnp.asarray(x) - x_star[None]), axis=1))]


def ridge(x: Points, y: Labels, x_star: Point) -> Float[Array, " outputs"]:
    """Linear least squares without an intercept, its weights penalized: `y X (X^T X + 1/2)^-1 x*`."""
    x = jnp.asarray(x)
    gram = x.T @ x + _PENALTY * jnp.eye(x.shape[1], dtype=x.dtype)
    return jnp.linalg.solve(gram, x.T @ y).T @ x_star


TARGETS: dict[str, Target] = {"nearest-neighbor": nearest_neighbor, "ridge": ridge}
EXAMPLES = {"nearest-neighbor": 2, "ridge": 1}  # with one example, the nearest neighbor is always the same


def target_of(text: str) -> Target:
    """A target by its name, or from a file of the user's: `path/to/file.py:function`."""
    if text in TARGETS:
        return TARGETS[text]
    return function_of("target", text, "(x, y, x_star)", TARGETS)
