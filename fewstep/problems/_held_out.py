"""Evaluates learners on a list of held-out tasks: each is learned several times, each time from other rows."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fewstep._episode import Batch
from fewstep._learner import Learner
from fewstep._rule import Meta
from fewstep._streams import TABLE
from fewstep.compute import light
from fewstep.tables import Rows, draw_episode, row_arrays

_CHUNK = 16
_QUERIES = 1000  # rows of a task to be evaluated on, at most


class Answers(NamedTuple):
    """What an ensemble answers: mean and spread of its members, of shape (tasks, draws, steps, rows, outputs), the
    truth and which rows count."""

    mean: np.ndarray
    spread: np.ndarray
    members: np.ndarray  # the mean of each seed alone, seeds first
    y: np.ndarray
    weight: np.ndarray

    def at(self, number: int) -> "Answers":
        """The answers after one of the numbers of steps."""
        part = slice(number, number + 1)
        mean, spread, members = self.mean[:, :, part], self.spread[:, :, part], self.members[:, :, :, part]
        return self._replace(mean=mean, spread=spread, members=members)


class TaskScore(NamedTuple):
    """A score over tasks and its 95% interval: the root of the mean squared error, or the accuracy."""

    mean: float
    interval95: float
    n_tasks: int


def draws_of(rows: Rows, max_draws: int = 600) -> int:
    """How often each task is learned anew: up to ten times, less if there are many tasks."""
    return max(1, min(10, max_draws // max(1, len(rows.names))))


def answer_tasks(
    learner: Learner,
    metas: Sequence[Meta],
    rows: Rows,
    *,
    shots: int,
    steps: tuple[int, ...],
    draws: int,
    samples: int = 1,
    classes: bool = False,
    seed: int = 0,
    within: int | None = None,
    max_tasks: int = 600,
) -> Answers:
    """The answers of several seeds, each with so many samples of its masks, on every task of some rows.

    The rows to learn from depend on the seed, the task and the draw only: all learners get the same. They are the first
    of `within` rows set apart, by default of just as many: with one number for several `shots`, these are evaluated on
    the same rows, by one compiled program. Of more than `max_tasks` tasks the first are taken, of a task's rows 1000.
    """
    data = {name: jnp.asarray(array) for name, array in row_arrays(rows).items()}
    apart = within or shots
    queries, tasks = min(max(1, int(rows.counts.max()) - apart), _QUERIES), min(len(rows.counts), max_tasks)
    run = _compiled(learner, apart, queries, steps, tasks, draws, samples, classes, seed)
    outcomes = [run(meta, data, shots) for meta in metas]
    shaped = lambda array: np.asarray(array, float).reshape(tasks, draws, *array.shape[1:])
    members = np.stack([shaped(mean) for mean, _, _ in outcomes])
    squares = np.mean([shaped(square) for _, square, _ in outcomes], axis=0)
    query = outcomes[0][2]
    mean = members.mean(0)
    spread = np.sqrt(np.maximum(squares - np.square(mean), 0.0))
    return Answers(mean, spread, members, shaped(query.y), shaped(query.weight))


@lru_cache(maxsize=32)
def _compiled(
    learner: Learner, shots: int, queries: int, steps: tuple[int, ...], tasks: int, draws: int, samples: int,
    classes: bool, seed: int,
) -> Callable[[Meta, PyTree, int], tuple[jax.Array, jax.Array, Batch]]:  # fmt: skip
    """The compiled `(meta, data, used) -> (mean, mean square, query)` of every task and draw, kept for other `meta`."""
    pairs = np.stack(np.meshgrid(np.arange(tasks), np.arange(draws), indexing="ij"), -1).reshape(-1, 2)

    def one(meta: Meta, data: PyTree, used: int | Array, pair: jax.Array) -> tuple[jax.Array, jax.Array, Batch]:
        key = jax.random.fold_in(jax.random.key(seed), TABLE)
        key = jax.random.fold_in(jax.random.fold_in(key, pair[0]), pair[1])
        support, query = draw_episode(data, key, pair[0], shots, queries, used)

        def sample(number: jax.Array) -> jax.Array:
            adapted = learner.adapt(meta, jax.random.fold_in(key, number), support, steps)
            outputs = jax.vmap(lambda a: learner.predict(meta, a, query.x, query.weight))(adapted)
            return jax.nn.softmax(outputs) if classes else outputs

        answers = jax.vmap(sample)(jnp.arange(samples))
        return answers.mean(0), jnp.square(answers).mean(0), query

    size = min(_CHUNK, len(pairs))
    return jax.jit(
        lambda meta, data, used: jax.lax.map(partial(one, meta, data, used), jnp.asarray(pairs), batch_size=size),
        compiler_options=light(),
    )


def half_width(values: np.ndarray) -> float:
    """Half of the 95% interval of the mean of tasks' scores, by Student's t, as tables often have few; NaN of one."""
    from scipy.special import stdtrit

    count = len(values)
    return float(stdtrit(count - 1, 0.975) * values.std(ddof=1) / count**0.5) if count > 1 else float("nan")


def score_answers(
    prediction: np.ndarray, answers: Answers, *, scale: float = 1.0, classes: bool = False
) -> list[TaskScore]:
    """The score of predictions shaped as `answers.mean`, for each number of steps."""
    weight, scores = answers.weight[:, :, None], []
    if classes:
        right = (prediction.argmax(-1) == answers.y[:, :, None]).astype(float)
    else:
        right = np.square(scale * (prediction - answers.y[:, :, None])).mean(-1)
    with np.errstate(all="ignore"):  # what diverged has no finite error, and its mean says so
        by_task = ((right * weight).sum(-1) / weight.sum(-1)).mean(1)  # tasks x steps
        for values in by_task.T:
            half = half_width(values)
            mean = values.mean()
            root = float(mean**0.5)
            # The interval of a root is that of what is under it over twice the root.
            score = (float(mean), float(half)) if classes else (root, float(half / (2 * root)) if root else 0.0)
            scores.append(TaskScore(*score, len(values)))
    return scores
