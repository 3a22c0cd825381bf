"""The compiled work: many tasks adapted in one call, and many adapted networks asked in one call.

What a task leaves behind travels as one row of numbers for each seed of the run and sample of the masks, so that it is
cheap to keep, and to put together with others again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fewstep._episode import Batch
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta
from fewstep.runs import Model
from fewstep.serve._units import moved, units


class Layout(NamedTuple):
    """How what a task leaves behind lies in a row: its tree, and the shape and type of each array."""

    tree: Any
    arrays: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def width(self) -> int:
        """The numbers of a row."""
        return sum(_size(shape) for shape, _ in self.arrays)


class Learned(NamedTuple):
    """What adapting gives: rows by (seed, sample), the support's loss before and after, whether all is finite; and if
    asked for how far each layer moved and what its units may."""

    rows: Array
    before: Array
    after: Array
    finite: Array
    moved: Array
    units: Array


class Knobs(NamedTuple):
    """What may differ between tasks of one call without compiling again."""

    steps: Any
    pace: Any
    seed: Any
    samples: Any


def make_learn(model: Model, learner: Learner, samples: int, *, detail: bool) -> Callable[..., Learned]:
    """The function `(metas, x, y, weight, knobs)` of one task that makes a `Learned`; `samples` is the most."""
    loss = model.built.problem.loss

    def one(meta: Meta, key: Any, support: Batch, knobs: Knobs) -> tuple[Any, ...]:
        start = learner.adapt(meta, key, support, 0)
        end = learner.adapt(meta, key, support, knobs.steps, step_scale=knobs.pace) if model.built.steps else start
        judged = lambda adapted: loss(learner.predict(meta, adapted, support.x, support.weight), support)
        extra = (moved(model, start, end), units(model, meta, key)) if detail else (jnp.zeros(0), jnp.zeros(0))
        return (to_row(end), judged(start), judged(end), *extra)

    def learn(metas: Meta, x: Array, y: Array, weight: Array, knobs: Knobs) -> Learned:
        keys = _keys(model, knobs.seed, samples)
        each = jax.vmap(jax.vmap(one, (None, 0, None, None)), (0, None, None, None))
        rows, before, after, far, open_units = each(metas, keys, Batch(x, y, weight), knobs)
        mean = lambda values: _mean(values, knobs.samples)
        asked = _asked(rows, knobs.samples)
        finite = jnp.isfinite(mean(before)) & jnp.isfinite(mean(after)) & jnp.isfinite(jnp.where(asked, rows, 0)).all()
        return Learned(rows, mean(before), mean(after), finite, mean(far), mean(open_units))

    return _over_tasks(model, learn, 5)


def make_answer(model: Model, learner: Learner, layout: Layout) -> Callable[..., tuple[Array, ...]]:
    """The function `(metas, rows, samples, x)` of one task: mean, smallest, largest and deviation over seeds and
    samples."""
    classes = model.built.problem.metric == "accuracy"

    def one(meta: Meta, row: Array, x: Array) -> Array:
        made = learner.predict(meta, from_row(layout, row), x)
        return jax.nn.softmax(made) if classes else made

    def answer(metas: Meta, rows: Array, samples: Array, x: Array) -> tuple[Array, ...]:
        made = jax.vmap(jax.vmap(one, (None, 0, None)), (0, 0, None))(metas, rows, x)
        asked = _asked(made, samples)
        low, high = jnp.where(asked, made, jnp.inf).min((0, 1)), jnp.where(asked, made, -jnp.inf).max((0, 1))
        mean = _mean(made, samples)
        return mean, low, high, jnp.sqrt(_mean(jnp.square(made - mean[None, None]), samples))

    return _over_tasks(model, answer, 4)


def layout_of(model: Model, learner: Learner, meta: Meta, support: Batch) -> Layout:
    """How what a task of this size leaves behind lies in a row."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    left = jax.eval_shape(lambda m, k, s: learner.adapt(m, k, s, 0), meta, key, support)
    leaves, tree = jax.tree.flatten(left)
    return Layout(tree, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves))


def to_row(adapted: Adapted) -> Array:
    """All arrays one after the other. Whole numbers among them are labels, which a float holds exactly."""
    leaves = [leaf.reshape(-1).astype(jnp.float32) for leaf in jax.tree.leaves(adapted)]
    return jnp.concatenate(leaves) if leaves else jnp.zeros(0)


def from_row(layout: Layout, row: Array) -> Adapted:
    """What `to_row` was given."""
    leaves, begin = [], 0
    for shape, kind in layout.arrays:
        end = begin + _size(shape)
        leaves.append(row[begin:end].reshape(shape).astype(kind))
        begin = end
    return jax.tree.unflatten(layout.tree, leaves)


def _over_tasks(model: Model, function: Callable[..., Any], arguments: int) -> Callable[..., Any]:
    """The function over a leading axis of tasks: side by side for small networks; one after the other for
    convolutions, of which one alone fills a processor's cache."""
    if model.built.problem.image:
        return lambda metas, *given: jax.lax.map(lambda each: function(metas, *each), given)
    return jax.vmap(function, (None, *[0] * (arguments - 1)))


def _keys(model: Model, seed: Array, samples: int) -> Any:
    """The key of each sample, as `runs.adapt` has it for the first, and the ensemble of a table for each."""
    key = jax.random.key(seed)
    folded = jax.vmap(lambda number: jax.random.fold_in(key, number))(jnp.arange(samples))
    if model.built.problem.schema is not None:
        return folded
    return jnp.concatenate([key[None], folded[1:]])


def _asked(values: Array, samples: Array) -> Array:
    """Which of (seed, sample, ...) were asked for: samples are padded too."""
    there = jnp.arange(values.shape[1]) < samples
    return there.reshape(1, -1, *[1] * (values.ndim - 2))


def _mean(values: Array, samples: Array) -> Array:
    total = jnp.where(_asked(values, samples), values, 0).sum((0, 1))
    return total / (values.shape[0] * samples)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for edge in shape:
        size *= edge
    return size
