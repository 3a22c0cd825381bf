"""Fits boosted trees to the tasks of a table: the base of all rows, out of fold by task, and what stands on it."""

import hashlib
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fewstep._episode import Arrays, Batch, Episode
from fewstep._rule import Meta
from fewstep._streams import TABLE
from fewstep.compute import light
from fewstep.learners.forest import Forest, Sample, fit_forest
from fewstep.learners.trees import BASE, SECOND, offset_of, support_features, with_base
from fewstep.problems import by_fold, sample_of
from fewstep.tables import Rows, draw_episode, row_arrays

_KEPT = 2  # tables whose trees are kept for the next method on them
_PENALTIES = tuple(10.0 ** (power / 2) for power in range(-2, 6))
_ROWS, _QUERIES = 60_000, 60  # rows that a second forest is fitted to, and of one support at most
_CHUNK = 64  # supports that are mapped over at once; their number is a multiple of it, or more would be compiled
_FEW = 4096  # rows below which a forest evaluates as many as the next power of two, by fewer programs


class How(NamedTuple):
    """What decides a fit: numbers or classes, the rows that are learned from, the seed, and how many `rounds` of trees
    base and second forest have; without these, as many as are best on the validation tasks."""

    outputs: int
    classes: bool
    shots: tuple[int, int]
    seed: int
    rounds: tuple[int, ...] = ()


class Trees:
    """The forests of one table. What several methods share is fitted once."""

    def __init__(self, train: Rows, validation: Rows, how: How):
        self.train, self.validation, self.how = train, validation, how
        self.outputs, self.classes, self.rounds = how.outputs, how.classes, how.rounds
        self._fit = partial(fit_forest, outputs=how.outputs, classes=how.classes, seed=how.seed)

    @cached_property
    def base(self) -> tuple[Forest, int]:
        """The forest of all rows, and its number of trees."""
        rows = sample_of(self.train)
        if self.rounds:
            return self._fit(rows, None, trees=max(1, self.rounds[0]), size=BASE)
        return self._fit(rows, sample_of(self.validation), size=BASE)

    @cached_property
    def out_of_fold(self) -> Rows:
        """The training rows, behind each what a forest says that was fitted without its task."""
        every = sample_of(self.train)

        def fit(which: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
            some = Sample(*(part[which] for part in every))
            forest, _ = self._fit(some, None, trees=max(1, self.base[1]), size=BASE)
            return lambda x: _evaluate(forest, x)[:, -self.outputs :]

        said = by_fold(self.train, self.outputs, fit, self.how.seed)
        return self.train._replace(x=np.concatenate([self.train.x, said], axis=1))

    @cached_property
    def penalty(self) -> Array:
        """How much an offset is shrunken: what is best on supports drawn from the training tasks."""
        episodes = self._episodes(self.out_of_fold, 1)
        loss = partial(_offset_program(self.outputs, self.classes), episodes)
        return jnp.asarray(_PENALTIES)[jnp.argmin(jnp.stack([loss(jnp.asarray(p)) for p in _PENALTIES]))]

    def pooled(self) -> Meta:
        """The meta-parameters of `pooled`."""
        return {"base": self.base[0], "rounds": self._counts(0)}

    def shifted(self) -> Meta:
        """Those of `shifted`."""
        return {**self.pooled(), "log_penalty": jnp.log(self.penalty)}

    def support(self) -> Meta:
        """Those of `trees`."""
        train = self._features(self.out_of_fold, 0)
        if self.rounds:
            second, count = self._fit(train, None, trees=max(1, self.rounds[1]), size=SECOND)
        else:
            x = _evaluate(self.base[0], self.validation.x)
            second, count = self._fit(train, self._features(self.validation._replace(x=x), 2), size=SECOND)
        return {**self.shifted(), "second": second, "rounds": self._counts(count)}

    def _counts(self, second: int) -> Array:
        return jnp.asarray([self.base[1], second], jnp.result_type(float))

    def _features(self, rows: Rows, stream: int) -> Sample:
        """What the second forest is fitted to: rows as supports drawn from their task see them, and what is left over
        there; of classes, their numbers."""
        episodes = self._episodes(rows, stream)
        program = _features_program(self.outputs, self.classes)
        x, y = (np.asarray(part) for part in program(episodes, self.penalty))
        weight = np.asarray(episodes.query.weight)
        counts, weight = weight > 0, weight / weight.sum(1, keepdims=True)
        return Sample(x[counts], y[counts], weight[counts] / weight[counts].mean())

    def _episodes(self, rows: Rows, stream: int) -> Episode:
        """Supports of many sizes, each with other rows of its task."""
        fewest, most = self.how.shots
        queries = min(_QUERIES, int(rows.counts.max()) - 1)
        number = _CHUNK * int(np.clip(_ROWS // queries // _CHUNK, 4, 62))
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.how.seed), TABLE), stream)
        data: Arrays = {name: jnp.asarray(array) for name, array in row_arrays(rows).items()}
        return _draw_program(number, min(fewest, most), most, queries)(data, key, len(rows.names))


# Programs get what differs between tables as arguments, so that one serves all tables of about the same size.


@lru_cache(maxsize=16)
def _draw_program(number: int, fewest: int, most: int, queries: int) -> Callable[[Arrays, Array, int], Episode]:
    """The compiled `(data, key, tasks) -> episodes`: so many supports of the tasks in turn."""

    def program(data: Arrays, key: Key[Array, ""], tasks: int | Array) -> Episode:
        def draw(number: Array) -> Episode:
            of_size, of_rows = jax.random.split(jax.random.fold_in(key, number))
            used = jax.random.randint(of_size, (), fewest, most + 1)
            return draw_episode(data, of_rows, number % tasks, most, queries, used)

        return jax.lax.map(draw, jnp.arange(number), batch_size=_CHUNK)

    return jax.jit(program, compiler_options=light())


@lru_cache(maxsize=16)
def _offset_program(outputs: int, classes: bool) -> Callable[[Episode, Array], Array]:
    """The compiled `(episodes, penalty) -> error` of offsets that are shrunken by it."""

    def program(episodes: Episode, penalty: Array) -> Array:
        def one(episode: Episode) -> Array:
            offset = offset_of(episode.support, outputs, penalty, classes=classes)
            answer = episode.query.x[:, -outputs:] + offset[None]
            return (episode.query.weight * _errors(answer, episode.query, classes)).sum()

        return jax.lax.map(one, episodes, batch_size=_CHUNK).sum()

    return jax.jit(program, compiler_options=light())


@lru_cache(maxsize=16)
def _features_program(outputs: int, classes: bool) -> Callable[[Episode, Array], tuple[Array, Array]]:
    """The compiled `(episodes, penalty) -> (features, what is left over)`; of classes, their numbers."""

    def program(episodes: Episode, penalty: Array) -> tuple[Array, Array]:
        def one(episode: Episode) -> tuple[Array, Array]:
            support, query = episode
            made = support_features(support, query.x, outputs, classes=classes)
            if classes:
                return made, query.y
            offset = offset_of(support, outputs, penalty, classes=False)
            return made, query.y - query.x[:, -outputs:] - offset[None]

        return jax.lax.map(one, episodes, batch_size=_CHUNK)

    return jax.jit(program, compiler_options=light())


_made: dict[tuple[str, How], Trees] = {}


def trees_of(train: Rows, validation: Rows, how: How) -> Trees:
    """The trees of some rows; those of a table that was fitted just before are not fitted again."""
    key = _digest(train) + _digest(validation), how
    if key not in _made:
        while len(_made) >= _KEPT:
            del _made[next(iter(_made))]
        _made[key] = Trees(train, validation, how)
    return _made[key]


def _digest(rows: Rows) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in (rows.x, rows.y, rows.counts, rows.units):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _evaluate(forest: Forest, x: np.ndarray) -> np.ndarray:
    """The rows with what the forest says of each behind them."""
    size = len(x) if len(x) >= _FEW else 1 << max(0, len(x) - 1).bit_length()
    return np.asarray(_with_base(forest, np.pad(x, [(0, size - len(x)), (0, 0)])))[: len(x)]


@jax.jit
def _with_base(forest: Forest, x: Array) -> Array:
    return with_base(forest, x)


def _errors(answer: Array, query: Batch, classes: bool) -> Array:
    if classes:
        return -jnp.take_along_axis(jax.nn.log_softmax(answer), query.y[:, None], axis=1)[:, 0]
    return jnp.square(answer - query.y).mean(-1)
