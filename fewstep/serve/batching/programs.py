"""The functions that are compiled: many tasks adapted in one call, and many adapted networks evaluated in one call."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep.serve.batching.layer_detail import moved, units
from fewstep.serve.batching.layout import Layout, from_row, to_row
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Answer, Info, Settings

Learn = Callable[..., tuple[Array, Array, Info]]


def make_learn(model: ServedModel, learner: Learner, samples: int, *, detail: bool) -> Learn:
    """The function `(metas, x, y, weight, settings)` of several tasks that gives their rows by (seed, sample), whether
    all of them is finite, and their `Info`; `samples` is the largest number of samples."""
    loss, takes_steps = model.problem.loss, model.source.built.steps

    def one(meta: Meta, key: Any, support: Batch, settings: Settings) -> tuple[Array, Info]:
        start = learner.adapt(meta, key, support, 0)
        end = learner.adapt(meta, key, support, settings.steps, pace=settings.pace) if takes_steps else start
        support_loss = lambda adapted: loss(learner.predict(meta, adapted, support.x, support.weight), support)
        extra = (moved(model, start, end), units(model, meta, key)) if detail else (jnp.zeros(0), jnp.zeros(0))
        return to_row(end), Info(support_loss(start), support_loss(end), *extra)

    def learn(metas: Meta, x: Array, y: Array, weight: Array, settings: Settings) -> tuple[Array, Array, Info]:
        keys = _keys(model, settings.seed, samples)
        each = jax.vmap(jax.vmap(one, (None, 0, None, None)), (0, None, None, None))
        rows, infos = each(metas, keys, Batch(x, y, weight), settings)
        info = Info(*(_mean(values, settings.samples) for values in infos))
        whole = jnp.isfinite(jnp.where(_valid(rows, settings.samples), rows, 0)).all()
        return rows, jnp.isfinite(info.before) & jnp.isfinite(info.after) & whole, info

    return _over_tasks(model, learn, 5)


def make_answer(model: ServedModel, learner: Learner, layout: Layout) -> Callable[..., Answer]:
    """The function `(metas, rows, samples, x)` of several tasks that gives their `Answer`s."""

    def one(meta: Meta, row: Array, x: Array) -> Array:
        output = learner.predict(meta, from_row(layout, row), x)
        return jax.nn.softmax(output) if model.has_classes else output

    def answer(metas: Meta, rows: Array, samples: Array, x: Array) -> Answer:
        outputs = jax.vmap(jax.vmap(one, (None, 0, None)), (0, 0, None))(metas, rows, x)
        valid, mean = _valid(outputs, samples), _mean(outputs, samples)
        low, high = jnp.where(valid, outputs, jnp.inf).min((0, 1)), jnp.where(valid, outputs, -jnp.inf).max((0, 1))
        return Answer(mean, low, high, jnp.sqrt(_mean(jnp.square(outputs - mean[None, None]), samples)))

    return _over_tasks(model, answer, 4)


def _over_tasks(model: ServedModel, function: Callable[..., Any], arguments: int) -> Callable[..., Any]:
    """The function over a leading axis of tasks: side by side for small networks; one after the other for
    convolutions, of which one alone fills a processor's cache."""
    if model.kind.sequential:
        return lambda metas, *arrays: jax.lax.map(lambda each: function(metas, *each), arrays)
    return jax.vmap(function, (None, *[0] * (arguments - 1)))


def _keys(model: ServedModel, seed: Array, samples: int) -> Any:
    """The key of each sample, as `runs.adapt` has it for the first, and the ensemble of a table for each."""
    key = jax.random.key(seed)
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(samples))
    return keys if model.ensemble is not None else jnp.concatenate([key[None], keys[1:]])


def _valid(values: Array, samples: Array) -> Array:
    """Which of (seed, sample, ...) are not padding."""
    return (jnp.arange(values.shape[1]) < samples).reshape(1, -1, *[1] * (values.ndim - 2))


def _mean(values: Array, samples: Array) -> Array:
    total = jnp.where(_valid(values, samples), values, 0).sum((0, 1))
    return total / (values.shape[0] * samples)
