"""The compiled programs, each for one size of one sort of work: made once, in a thread of their own, and bounded."""

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fewstep._episode import Batch
from fewstep.serve.batching.buckets import TASKS
from fewstep.serve.batching.layout import Layout, layout_of
from fewstep.serve.batching.programs import make_answer, make_learn
from fewstep.serve.served_model import ServedModel

_CAPACITY = 256


class LearnKey(NamedTuple):
    """Tasks that can be learned in one call: of one model, and of like sizes."""

    model: str
    ways: int | None
    rows: int
    samples: int
    detail: bool


class AnswerKey(NamedTuple):
    """Predictions that can be made in one call."""

    model: str
    ways: int | None
    rows: int
    samples: int
    layout: Layout


ProgramKey = LearnKey | AnswerKey


class Program(NamedTuple):
    """A compiled call for so many tasks, and the layout of their adapted parameters."""

    call: jax.stages.Compiled
    tasks: int
    layout: Layout


class ProgramCache:
    """Compiled programs by key and number of tasks; the least used give way."""

    def __init__(self, models: dict[str, ServedModel]):
        self._models = models
        self._programs: OrderedDict[tuple[ProgramKey, int], Program] = OrderedDict()
        self._pending: dict[tuple[ProgramKey, int], Future[Program]] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "compile")

    def __len__(self) -> int:
        return len(self._programs)

    def find(self, key: ProgramKey, tasks: int, max_tasks: int) -> Program | None:
        """The program for just so many tasks; else for more, up to `max_tasks`, else for fewer, if there is one."""
        with self._lock:
            sizes = [size for size in TASKS if size <= max_tasks and (key, size) in self._programs]
            size = min((s for s in sizes if s >= tasks), default=max(sizes, default=0))
            if not size:
                return None
            self._programs.move_to_end((key, size))
            return self._programs[key, size]

    def compile(self, key: ProgramKey, tasks: int) -> "Future[Program]":
        """The program for so many tasks, to come if it is not there; one is compiled at a time."""
        entry = (key, tasks)
        with self._lock:
            if entry not in self._pending:
                self._pending[entry] = self._thread.submit(self._add, entry)
            return self._pending[entry]

    def _add(self, entry: tuple[ProgramKey, int]) -> Program:
        key, tasks = entry
        try:
            program = self._programs.get(entry) or _compile(self._models[key.model], key, tasks)
            with self._lock:
                self._programs[entry] = program
                while len(self._programs) > _CAPACITY:
                    self._programs.popitem(last=False)
            return program
        finally:
            with self._lock:
                del self._pending[entry]

    def stop(self) -> None:
        """Begins no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _compile(served: ServedModel, key: ProgramKey, tasks: int) -> Program:
    return _compile_learn(served, key, tasks) if isinstance(key, LearnKey) else _compile_answer(served, key, tasks)


def _compile_learn(served: ServedModel, key: LearnKey, tasks: int) -> Program:
    shape, metas = (tasks, key.rows), served.model.stacked
    settings = [jax.ShapeDtypeStruct((tasks,), dtype) for dtype in (jnp.int32, jnp.float32, jnp.int32, jnp.int32)]
    one = lambda tree: jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), tree)
    numbers = lambda *row: jnp.zeros((*shape, *row), jnp.float32)
    targets = lambda: jnp.zeros(shape, jnp.int32) if served.problem.classes else numbers(served.problem.outputs)
    support = jax.eval_shape(lambda: Batch(numbers(*served.problem.x), targets(), numbers()))
    learn = jax.jit(make_learn(served, key.ways, key.samples, detail=key.detail))
    layout = layout_of(served.model.learner(key.ways), one(metas), one(support))
    return Program(learn.lower(metas, *support, *settings).compile(), tasks, layout)


def _compile_answer(served: ServedModel, key: AnswerKey, tasks: int) -> Program:
    rows = jax.ShapeDtypeStruct((tasks, served.seeds, key.samples, key.layout.width), jnp.float32)
    samples = jax.ShapeDtypeStruct((tasks,), jnp.int32)
    x = jax.ShapeDtypeStruct((tasks, key.rows, *served.problem.x), jnp.float32)
    answer = jax.jit(make_answer(served, key.ways, key.layout))
    return Program(answer.lower(served.model.stacked, rows, samples, x).compile(), tasks, key.layout)
