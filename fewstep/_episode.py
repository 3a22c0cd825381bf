"""What a task is: a support set to learn from, a query set to be judged on, and a pure way of drawing both."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, Shaped

Arrays = dict[str, Array | np.ndarray]  # the data of tasks, on the host or on devices


class Batch(NamedTuple):
    """Rows of one task. A row of weight 0 is padding: it changes no loss and no statistic, whatever it holds."""

    x: Shaped[Array, "rows ..."]
    y: Shaped[Array, "rows ..."]
    weight: Float[Array, " rows"]


class Episode(NamedTuple):
    """One task: `support` is learned from, `query` judges what was learned."""

    support: Batch
    query: Batch


class Tasks(NamedTuple):
    """A distribution of tasks. `sample(data, key)` is pure; arrays travel in `data`, never as constants."""

    data: PyTree
    sample: Callable[[PyTree, Key[Array, ""]], Episode]


def fill_padding(rows: PyTree, weight: Float[Array, " rows"]) -> PyTree:
    """The rows, with copies of the first that counts in the place of those of weight 0.

    Not zeros: a product with 0 does not undo a NaN, nor does it in a derivative, and a network or a loss may have no
    value at 0, as a logarithm. What a row that counts gives is finite, or nothing is.
    """
    there = jnp.asarray(weight) > 0
    first = jnp.argmax(there)

    def filled(array: Array) -> Array:
        array = jnp.asarray(array)
        copy = jax.lax.dynamic_index_in_dim(array, first)
        copy = jnp.where(there[first], copy, jnp.zeros_like(copy))  # nothing counts
        return jnp.where(there.reshape(-1, *[1] * (array.ndim - 1)), array, copy)

    return jax.tree.map(filled, rows)


def fill_batch(batch: Batch) -> Batch:
    """The batch with its padding filled, in x and in y."""
    return Batch(fill_padding(batch.x, batch.weight), fill_padding(batch.y, batch.weight), batch.weight)
