"""The compiled programs, each for one size of a kind of work: made once, in a thread of their own, and bounded."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fewstep._episode import Batch
from fewstep.serve._adapting import Knobs, Layout, layout_of, make_answer, make_learn
from fewstep.serve._limits import TASKS
from fewstep.serve._models import Served

_MOST = 256


class Learning(NamedTuple):
    """Tasks that can be learned in one call: of one model, and of like sizes."""

    model: str
    ways: int | None
    rows: int
    samples: int
    detail: bool


class Answering(NamedTuple):
    """Predictions that can be made in one call."""

    model: str
    ways: int | None
    rows: int
    samples: int
    layout: Layout


Kind = Learning | Answering


class Program(NamedTuple):
    """A compiled call for so many tasks, and how what a task leaves behind lies in a row."""

    call: Callable[..., Any]
    tasks: int
    layout: Layout


class Programs:
    """Compiled programs by kind of work and number of tasks; the least used give way."""

    def __init__(self, models: dict[str, Served]):
        self._models = models
        self._made: OrderedDict[tuple[Kind, int], Program] = OrderedDict()
        self._begun: dict[tuple[Kind, int], Future[Program]] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "compile")

    def __len__(self) -> int:
        return len(self._made)

    def find(self, kind: Kind, tasks: int, most: int) -> Program | None:
        """The program for just so many tasks; else for more, at `most` so many, else for fewer, if there is one."""
        with self._lock:
            sizes = [size for size in TASKS if size <= most and (kind, size) in self._made]
            size = min((s for s in sizes if s >= tasks), default=max(sizes, default=0))
            if not size:
                return None
            self._made.move_to_end((kind, size))
            return self._made[kind, size]

    def begin(self, kind: Kind, tasks: int) -> "Future[Program]":
        """The program for so many tasks, to come if it is not there; one is compiled at a time."""
        key = (kind, tasks)
        with self._lock:
            if key not in self._begun:
                self._begun[key] = self._thread.submit(self._make, key)
            return self._begun[key]

    def _make(self, key: tuple[Kind, int]) -> Program:
        kind, tasks = key
        try:
            made = self._made.get(key) or self._compiled(self._models[kind.model], kind, tasks)
            with self._lock:
                self._made[key] = made
                while len(self._made) > _MOST:
                    self._made.popitem(last=False)
            return made
        finally:
            with self._lock:
                del self._begun[key]

    def _compiled(self, served: Served, kind: Kind, tasks: int) -> Program:
        return _learning(served, kind, tasks) if isinstance(kind, Learning) else _answering(served, kind, tasks)

    def stop(self) -> None:
        """Begins no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _learning(served: Served, kind: Learning, tasks: int) -> Program:
    learner = served.learner(kind.ways)
    x, y = _shape(served, tasks, kind.rows), _targets(served, tasks, kind.rows)
    weight: Any = jax.ShapeDtypeStruct((tasks, kind.rows), jnp.float32)
    number = lambda of: jax.ShapeDtypeStruct((tasks,), of)
    knobs = Knobs(number(jnp.int32), number(jnp.float32), number(jnp.int32), number(jnp.int32))
    learn = jax.jit(make_learn(served.model, learner, kind.samples, detail=kind.detail))
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), Batch(x, y, weight))
    meta = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), served.metas)
    layout = layout_of(served.model, learner, meta, one)
    return Program(learn.lower(served.metas, x, y, weight, knobs).compile(), tasks, layout)


def _answering(served: Served, kind: Answering, tasks: int) -> Program:
    rows = jax.ShapeDtypeStruct((tasks, served.seeds, kind.samples, kind.layout.width), jnp.float32)
    samples = jax.ShapeDtypeStruct((tasks,), jnp.int32)
    answer = jax.jit(make_answer(served.model, served.learner(kind.ways), kind.layout))
    lowered = answer.lower(served.metas, rows, samples, _shape(served, tasks, kind.rows))
    return Program(lowered.compile(), tasks, kind.layout)


def _shape(served: Served, tasks: int, rows: int) -> Any:
    return jax.ShapeDtypeStruct((tasks, rows, *row_shape(served)), jnp.float32)


def row_shape(served: Served) -> tuple[int, ...]:
    """The shape of one row of x."""
    return served.image or (served.model.built.problem.widths[0],)


def _targets(served: Served, tasks: int, rows: int) -> Any:
    if served.classes:
        return jax.ShapeDtypeStruct((tasks, rows), jnp.int32)
    return jax.ShapeDtypeStruct((tasks, rows, served.model.built.problem.widths[1]), jnp.float32)
