"""Evaluates learners on a list of held-out tasks: each is learned several times, each time from other rows."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from fewstep._episode import Batch
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta
from fewstep._streams import TABLE
from fewstep.compute import light
from fewstep.tables import Rows, draw_episode, row_arrays

_CHUNK = 16
_QUERIES = 1000  # rows of a task to be evaluated on, at most


class Answers(NamedTuple):
    """What an ensemble answers: mean and spread of its members, of shape (tasks, draws, steps, rows, outputs), the
    truth and which rows count. `residual` is what the mean leaves over on the rows it learned from, shaped as the mean,
    each divided by the root of their number: the sum of squares is the mean square, and residuals mix as means do.
    `units` number what tasks belong to, groups or themselves: only those are unlike each other by chance."""

    mean: np.ndarray
    spread: np.ndarray
    members: np.ndarray  # the mean of each seed alone, seeds first
    y: np.ndarray
    weight: np.ndarray
    residual: np.ndarray | None = None
    units: np.ndarray | None = None

    @property
    def unit(self) -> np.ndarray:
        """The number of each task's group, counted from 0 without gaps; without groups, of the task."""
        units = np.arange(len(self.y)) if self.units is None else self.units
        return np.unique(units, return_inverse=True)[1]

    def at(self, number: int) -> "Answers":
        """The answers after one of the numbers of steps."""
        part = slice(number, number + 1)
        mean, spread, members = self.mean[:, :, part], self.spread[:, :, part], self.members[:, :, :, part]
        residual = None if self.residual is None else self.residual[:, :, part]
        return self._replace(mean=mean, spread=spread, members=members, residual=residual)

    def of_tasks(self, which: np.ndarray) -> "Answers":
        """The answers on some of the tasks."""
        residual = None if self.residual is None else self.residual[which]
        return Answers(
            self.mean[which], self.spread[which], self.members[:, which], self.y[which], self.weight[which], residual,
            self.unit[which],
        )  # fmt: skip


def concatenate(parts: Sequence[Answers]) -> Answers:
    """The answers of one ensemble, or of several, on different tasks: those of cross-fitting over folds of tasks. Where
    tasks have fewer rows than others, rows that do not count stand behind."""

    def joined(name: str, tasks: int, rows: int) -> np.ndarray:
        arrays = [getattr(part, name) for part in parts]
        most = max(array.shape[rows] for array in arrays)
        pad = lambda a: [(0, most - a.shape[rows] if axis == rows else 0) for axis in range(a.ndim)]
        return np.concatenate([np.pad(array, pad(array)) for array in arrays], axis=tasks)

    residual = joined("residual", 0, 3) if all(part.residual is not None for part in parts) else None
    before = np.cumsum([0, *(part.unit.max(initial=-1) + 1 for part in parts)])
    units = np.concatenate([part.unit + first for part, first in zip(parts, before, strict=False)])
    return Answers(
        joined("mean", 0, 3), joined("spread", 0, 3), joined("members", 1, 4), joined("y", 0, 2),
        joined("weight", 0, 2), residual, units,
    )  # fmt: skip


class TaskScore(NamedTuple):
    """A score over tasks and its 95% interval: the root of the mean squared error, or the accuracy."""

    mean: float
    interval95: float
    n_tasks: int


def draws_of(rows: Rows, max_draws: int = 600) -> int:
    """How often each task is learned anew: up to ten times, less if there are many tasks, and once from rows that are
    the same each time."""
    if rows.support != "random":
        return 1
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
    members = np.stack([shaped(mean) for mean, *_ in outcomes])
    squares = np.mean([shaped(square) for _, square, *_ in outcomes], axis=0)
    query, support = outcomes[0][2:4]
    residual = None if classes else _residual(np.mean([shaped(fit) for *_, fit in outcomes], axis=0), *(
        shaped(part)[:, :, None] for part in (support.y, support.weight)))  # fmt: skip
    mean = members.mean(0)
    spread = np.sqrt(np.maximum(squares - np.square(mean), 0.0))
    return Answers(mean, spread, members, shaped(query.y), shaped(query.weight), residual, rows.units[:tasks])


def _residual(fit: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What a fit leaves over on the rows of a support that count, each by the root of its share."""
    share = np.sqrt(weight / weight.sum(-1, keepdims=True))[..., None]
    return np.where(share > 0, (fit - y) * share, 0.0)


def moments(
    learner: Learner, meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None, *, classes: bool
) -> tuple[Array, Array]:
    """What an adapted learner predicts, as numbers or probabilities, and the variance that it reports itself."""
    y = learner.predict(meta, adapted, x, weight)
    if classes:
        return jax.nn.softmax(y), jnp.zeros_like(y)
    return y, jnp.zeros_like(y) if learner.spread is None else jnp.square(learner.spread(meta, adapted, x, weight))


_Outcome = tuple[jax.Array, jax.Array, Batch, Batch, jax.Array]


@lru_cache(maxsize=32)
def _compiled(
    learner: Learner, shots: int, queries: int, steps: tuple[int, ...], tasks: int, draws: int, samples: int,
    classes: bool, seed: int,
) -> Callable[[Meta, PyTree, int], _Outcome]:  # fmt: skip
    """The compiled `(meta, data, used) -> (mean, mean square, query, support, mean at the support)` of every task and
    draw, kept for other `meta`."""
    pairs = np.stack(np.meshgrid(np.arange(tasks), np.arange(draws), indexing="ij"), -1).reshape(-1, 2)

    def one(meta: Meta, data: PyTree, used: int | Array, pair: jax.Array) -> _Outcome:
        key = jax.random.fold_in(jax.random.key(seed), TABLE)
        key = jax.random.fold_in(jax.random.fold_in(key, pair[0]), pair[1])
        support, query = draw_episode(data, key, pair[0], shots, queries, used)

        def sample(number: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            adapted = learner.adapt(meta, jax.random.fold_in(key, number), support, steps)
            at = lambda a, rows: moments(learner, meta, a, rows.x, rows.weight, classes=classes)
            return jax.vmap(lambda a: (*at(a, query), at(a, support)[0]))(adapted)

        answers, own, fit = jax.vmap(sample)(jnp.arange(samples))
        return answers.mean(0), (jnp.square(answers) + own).mean(0), query, support, fit.mean(0)

    size = min(_CHUNK, len(pairs))
    return jax.jit(
        lambda meta, data, used: jax.lax.map(partial(one, meta, data, used), jnp.asarray(pairs), batch_size=size),
        compiler_options=light(),
    )


def half_width(values: np.ndarray, units: np.ndarray | None = None) -> float:
    """Half of the 95% interval of the mean of tasks' scores, by Student's t, as tables often have few; NaN of one. The
    `units` number what is independent: the groups of the tasks, by default the tasks."""
    from scipy.special import stdtrit

    apart = np.bincount(np.arange(len(values)) if units is None else units, values - values.mean())
    count = len(apart)
    return (
        float(stdtrit(count - 1, 0.975) * apart.std(ddof=1) * count**0.5 / len(values)) if count > 1 else float("nan")
    )


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
            half = half_width(values, answers.unit)
            mean = values.mean()
            root = float(mean**0.5)
            # The interval of a root is that of what is under it over twice the root.
            score = (float(mean), float(half)) if classes else (root, float(half / (2 * root)) if root else 0.0)
            scores.append(TaskScore(*score, len(values)))
    return scores


def target_scores(targets: Mapping[str, float], answers: Answers) -> dict[str, dict[str, float]]:
    """The error of each of several targets in its own unit, for a row of scores; nothing of a single one."""
    rows = [
        score_answers(answers.mean[..., n : n + 1], answers._replace(y=answers.y[..., n : n + 1]), scale=scale)[0]
        for n, scale in enumerate(targets.values())
    ]
    return {"targets": {name: row.mean for name, row in zip(targets, rows, strict=True)}} if targets else {}
