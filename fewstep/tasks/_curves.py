"""What the families of curves share: a random curve, points of it for support and query, both drawn inside the step."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._streams import SIZES

Range = tuple[float, float]
CONDITIONED = (
    "Tell the network which curve it is: what was drawn for it stands beside x. With --inner-steps 0, a network that "
    "does not have to learn the task."
)


def curves(
    draw: Callable[[Arrays, Key[Array, ""]], Array],
    value: Callable[[Array, Array], Array],
    ranges: dict[str, Range],
    x_range: Range,
    shots: int,
    queries: int,
    *,
    conditioned: bool = False,
) -> Tasks:
    """Tasks whose curve is `value(draw(data, key), x)` at x drawn evenly from a range; `conditioned` puts what was
    drawn beside x."""
    check_sizes(shots, queries)
    data = {name: interval(name, ends) for name, ends in {**ranges, "x_range": x_range}.items()}

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        of_curve, of_support, of_query = jax.random.split(key, 3)
        curve, (low, high) = draw(data, of_curve), data["x_range"]

        def points(key: Key[Array, ""], count: int) -> Batch:
            x = low + (high - low) * jax.random.uniform(key, (count, 1))
            y = value(curve, x)
            x = jnp.concatenate([x, jnp.tile(curve, (count, 1))], axis=1) if conditioned else x
            return Batch(x, y, jnp.ones(count))

        return Episode(points(of_support, shots), points(of_query, queries))

    return Tasks(data, sample)


def fewer_shots(tasks: Tasks, fewest: int) -> Tasks:
    """The tasks with supports of `fewest` rows up to all that they have, as many of one size as of another: what is
    left out has weight 0."""

    def sample(data: PyTree, key: Key[Array, ""]) -> Episode:
        support, query = tasks.sample(data, key)
        rows = support.weight.shape[0]
        count = jax.random.randint(jax.random.fold_in(key, SIZES), (), fewest, rows + 1)
        return Episode(support._replace(weight=support.weight * (jnp.arange(rows) < count)), query)

    return Tasks(tasks.data, sample)


def check_sizes(shots: int, queries: int) -> None:
    """Raises for a task without a point to learn from, or without one to be evaluated on."""
    for name, size in (("shots", shots), ("queries", queries)):
        if size < 1:
            raise FewstepError(
                f"{name} is {size}. A task needs at least one point to learn from and one to be evaluated on."
            )


def interval(name: str, ends: Range) -> np.ndarray:
    """A range as an array; raises where it is none."""
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise FewstepError(f"{name} is ({low}, {high}). Give two finite numbers, the smaller first.")
    return np.asarray(ends, float)
