"""What a task is: a support set to learn from, a query set to be judged on, and a pure way of drawing both."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Key, Shaped


class Batch(NamedTuple):
    """Rows of one task. A row of weight 0 is padding: it changes no loss and no statistic."""

    x: Shaped[Array, "rows ..."]
    y: Shaped[Array, "rows ..."]
    weight: Float[Array, " rows"]


class Episode(NamedTuple):
    """One task: `support` is learned from, `query` judges what was learned."""

    support: Batch
    query: Batch


class Tasks(NamedTuple):
    """A distribution of tasks. `sample(data, key)` is pure; arrays travel in `data`, never as constants."""

    data: Any
    sample: Callable[[Any, Key[Array, ""]], Episode]
