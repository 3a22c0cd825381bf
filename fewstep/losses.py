"""Losses and scores of a prediction against a `Batch`; all weigh their rows, so that padding counts for nothing."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from fewstep._episode import Batch
from fewstep._errors import FewstepError


def weighted_mean(values: Shaped[Array, " rows"], weight: Float[Array, " rows"]) -> Float[Array, ""]:
    """The mean of the rows, each counted by its weight, those of weight 0 not at all; 0 where nothing counts."""
    total = jnp.sum(weight)
    return jnp.sum(_counting(values, weight) * weight) / jnp.where(total > 0, total, 1.0)


def squared_error(prediction: Float[Array, "rows ..."], batch: Batch) -> Float[Array, ""]:
    """The mean squared error, without a factor 1/2."""
    return _mean(jnp.square(_errors(prediction, batch)), batch)


def root_by_output(prediction: Float[Array, "rows outputs"], batch: Batch) -> Float[Array, " outputs"]:
    """The root of the mean squared error of each output; 0 where no row counts."""
    squares = jnp.square(_errors(prediction, batch))
    return jnp.sqrt(jax.vmap(lambda column: weighted_mean(column, batch.weight), in_axes=1)(squares))


def absolute_error(prediction: Float[Array, "rows ..."], batch: Batch) -> Float[Array, ""]:
    """The mean absolute error."""
    return _mean(jnp.abs(_errors(prediction, batch)), batch)


def huber(prediction: Float[Array, "rows ..."], batch: Batch) -> Float[Array, ""]:
    """Squares for errors below 1, and 2 |e| - 1 above: outliers count less."""
    errors = jnp.abs(_errors(prediction, batch))
    return _mean(jnp.where(errors < 1, jnp.square(errors), 2 * errors - 1), batch)


def cross_entropy(prediction: Float[Array, "rows ways"], batch: Batch) -> Float[Array, ""]:
    """The mean cross entropy of logits against integer labels."""
    logits, labels = _counting(prediction, batch.weight), _counting(batch.y, batch.weight)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)[:, 0]
    return weighted_mean(-chosen, batch.weight)


def accuracy(prediction: Float[Array, "rows ways"], batch: Batch) -> Float[Array, ""]:
    """The share of rows whose largest logit is their label's."""
    return weighted_mean((jnp.argmax(prediction, axis=1) == batch.y).astype(batch.weight.dtype), batch.weight)


def error_rate(prediction: Float[Array, "rows ways"], batch: Batch) -> Float[Array, ""]:
    """The share of rows whose largest logit is not their label's."""
    return 1 - accuracy(prediction, batch)


def _errors(prediction: Float[Array, "rows ..."], batch: Batch) -> Float[Array, "rows ..."]:
    if prediction.shape != batch.y.shape:
        raise FewstepError(
            f"The network predicts shape {prediction.shape} and y has shape {batch.y.shape}. Make them equal: "
            "a network with as many outputs as y has columns, and y with one column per number (y[:, None])."
        )
    return _counting(prediction, batch.weight) - _counting(batch.y, batch.weight)


def _mean(errors: Float[Array, "rows ..."], batch: Batch) -> Float[Array, ""]:
    return weighted_mean(errors.reshape(errors.shape[0], -1).mean(axis=1), batch.weight)


def _counting(rows: Shaped[Array, "rows ..."], weight: Float[Array, " rows"]) -> Shaped[Array, "rows ..."]:
    """The rows, those of weight 0 as zeros: a product with the weight would keep a NaN, and so would its derivative."""
    there = jnp.asarray(weight) > 0
    return jnp.where(there.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0)
