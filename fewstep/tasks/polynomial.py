"""Polynomials of a given order with random coefficients: MT-net's experiment on the size of the learned subspace."""

import math
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Arrays, Tasks
from fewstep._errors import FewstepError
from fewstep.tasks._curves import CONDITIONED, Range, curves


def polynomial(
    shots: int = 10,
    queries: int = 10,
    *,
    order: Annotated[int, "Order of a polynomial."] = 2,
    coefficient: Annotated[Range, "Range of its coefficients."] = (-1.0, 1.0),
    x_range: Annotated[Range, "Range of x."] = (-2.0, 2.0),
    divisor: Annotated[float, "What x is divided by."] = 2.0,
    conditioned: Annotated[bool, CONDITIONED] = False,
) -> Tasks:
    r"""Tasks `y = sum_i c_i (x / divisor)^i` up to `order`, the `c_i` drawn evenly from their range.

    Each term then lies in [-1, 1] on the default range of x. The paper leaves out the division by `2^i` and the
    range; both are in its code.

    **Arguments:** `shots` and `queries` are the sizes of support and query; `conditioned` puts the coefficients of the
    powers of x beside x.

    **Returns:** `Tasks`. One key gives one polynomial: asking it for more query points does not change it.
    """
    if order < 0:
        raise FewstepError(f"order is {order}. A polynomial's order is 0 or more.")
    if not 0 < divisor < math.inf:
        raise FewstepError(f"divisor is {divisor}. It must be above 0 and finite, such as 2.")

    def draw(data: Arrays, key: Key[Array, ""]) -> Float[Array, " terms"]:
        low, high = data["coefficient"]
        return (low + (high - low) * jax.random.uniform(key, (order + 1,))) / divisor ** jnp.arange(order + 1)

    def value(coefficients: Float[Array, " terms"], x: Float[Array, "rows 1"]) -> Float[Array, "rows 1"]:
        return x ** jnp.arange(order + 1)[None] @ coefficients[:, None]

    return curves(draw, value, {"coefficient": coefficient}, x_range, shots, queries, conditioned=conditioned)
