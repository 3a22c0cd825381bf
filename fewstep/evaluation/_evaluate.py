"""Judges a learner on fresh tasks: mean and 95 % interval after each of several numbers of inner steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from fewstep._contract import Learner, counts_of
from fewstep._episode import Tasks, fill_batch
from fewstep._errors import FewstepError
from fewstep._learner import Loss
from fewstep._outer import task_keys
from fewstep._rule import Meta
from fewstep._streams import TEST
from fewstep.compute import light

_CHUNK = 50
_LARGE = 2000  # numbers in a support set; five small images have twice as many


class Score(NamedTuple):
    """The score after `inner_steps` on tasks of `shots`: mean over tasks, and 1.96 standard errors of that mean."""

    shots: int
    inner_steps: int
    mean: float
    interval95: float
    n_tasks: int
    values: np.ndarray


def task_scores(
    learner: Learner,
    meta: Meta,
    tasks: Tasks,
    data: PyTree,
    key: Key[Array, ""],
    n_tasks: int,
    steps: tuple[int, ...],
    score: Loss,
) -> Float[Array, "tasks steps"]:
    """The query score of each task after each number of inner steps; pure, so it can be jitted and vmapped."""

    def one(index: Array) -> Float[Array, " steps"]:
        of_data, of_task = (k[0] for k in task_keys(key, index[None]))
        support, query = tasks.sample(data, of_data)
        query = fill_batch(query)  # a score of the user's own may know nothing of padding
        adapted = learner.adapt(meta, of_task, support, steps)
        predict = jax.vmap(lambda a: score(learner.predict(meta, a, query.x, query.weight), query))
        return predict(adapted)

    return jax.lax.map(one, jnp.arange(n_tasks), batch_size=_at_once(tasks, data, n_tasks))


def _at_once(tasks: Tasks, data: PyTree, n_tasks: int) -> int | None:
    """How many tasks are judged side by side: on a CPU large ones, of which one fills a cache, one after the other."""
    support = jax.eval_shape(tasks.sample, data, jax.eval_shape(lambda: jax.random.key(0))).support
    size = sum(leaf.size for leaf in jax.tree.leaves(support.x))
    return None if size > _LARGE and jax.default_backend() == "cpu" else min(_CHUNK, n_tasks)


def evaluate(
    learner: Learner,
    meta: Meta,
    tasks: Tasks | Mapping[int, Tasks],
    score: Loss,
    *,
    steps: SupportsIndex | Sequence[SupportsIndex] = (0, 1, 5),
    n_tasks: int = 600,
    seed: int = 0,
) -> list[Score]:
    """Judges a learner on tasks it has not seen.

    **Arguments:** `tasks`, or a dict of them by number of shots; `score(prediction, batch)` such as `squared_error`
    or `accuracy`; the number of inner `steps`, or several, all from one trajectory; how many tasks; the `seed` they
    come from. `meta` is that of one seed.

    **Returns:** one `Score` for each number of shots and steps.

    Example::

        evaluate(learner, meta, {5: sinusoid(5), 10: sinusoid(10)}, squared_error, steps=(1, 5))
    """
    _refuse_seeds(learner, meta)
    key, counts = _test_key(seed), counts_of(np.atleast_1d(np.asarray(steps)))
    several = tasks if isinstance(tasks, Mapping) else {_shots(tasks, key): tasks}
    scores = []
    for shots, some in several.items():
        values = make_evaluate(learner, some, score, steps=counts, n_tasks=n_tasks, seed=seed)(meta, some.data)
        scores += [summarize(shots, count, values[:, i]) for i, count in enumerate(counts)]
    return scores


def make_evaluate(
    learner: Learner, tasks: Tasks, score: Loss, *, steps: tuple[int, ...], n_tasks: int = 600, seed: int = 0
) -> Callable[[Meta, PyTree], np.ndarray]:
    """The `(meta, data) -> scores`, an array of tasks by numbers of steps, compiled once for any meta-parameters."""
    if n_tasks < 2:
        raise FewstepError(f"n_tasks is {n_tasks}. An interval needs at least 2 tasks.")
    key = _test_key(seed)
    judge = jax.jit(
        lambda meta, data: task_scores(learner, meta, tasks, data, key, n_tasks, steps, score),
        compiler_options=light(),
    )
    return lambda meta, data: np.asarray(judge(meta, data), float)


def _test_key(seed: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(seed), TEST)


def summarize(shots: int, inner_steps: int, values: np.ndarray) -> Score:
    """Mean and 95 % interval of one score a task."""
    with np.errstate(all="ignore"):  # a task that diverged has no finite error, and its mean says so
        half = 1.96 * float(values.std()) / len(values) ** 0.5
        return Score(shots, inner_steps, float(values.mean()), half, len(values), values)


def _refuse_seeds(learner: Learner, meta: Meta) -> None:
    """Raises for meta-parameters of several seeds that were trained together."""
    one = jax.eval_shape(learner.init, jax.eval_shape(lambda: jax.random.key(0)))
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(meta), strict=False))
    if pairs and all(np.shape(leaf)[1:] == like.shape and np.ndim(leaf) > like.ndim for like, leaf in pairs):
        raise FewstepError(
            f"The meta-parameters are those of {len(pairs[0][1])} seeds, with an axis of seeds in front, and evaluate "
            "takes those of one. For the first: jax.tree.map(lambda leaf: leaf[0], meta)."
        )


def _shots(tasks: Tasks, key: Key[Array, ""]) -> int:
    return jax.eval_shape(tasks.sample, tasks.data, key).support.weight.shape[0]
