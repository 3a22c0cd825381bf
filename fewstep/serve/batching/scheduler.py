"""From a request's arrays to its outcome: which batch it belongs to, and which program does it."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fewstep._errors import FewstepError
from fewstep.problems import Answer
from fewstep.serve.batching.batcher import Batcher, Call, call_soon
from fewstep.serve.batching.buckets import SAMPLES, STEPS, TASKS, bucket
from fewstep.serve.batching.lanes import CALL, QUICK, Backlog, Costs
from fewstep.serve.batching.pack import answer, learn
from fewstep.serve.batching.program_cache import AnswerKey, LearnKey, Program, ProgramCache
from fewstep.serve.errors import refusal_of
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Adaptation, Task

_MULTIPLY = 3e-10  # seconds of one multiplication and its share of the backward pass, before anything is measured
_BYTE = 1e-6  # seconds to read one byte of images
T = TypeVar("T")


class Job(NamedTuple):
    """Work that is not compiled, done one by one: of a model, and of about one size."""

    model: str
    name: str
    size: int


class BatchKey(NamedTuple):
    """What goes into one batch: one sort of work, on tasks with about as many steps."""

    work: LearnKey | AnswerKey | Job
    steps: int = 0


class Scheduler:
    """The work of all models."""

    def __init__(
        self, models: dict[str, ServedModel], *, wait: float, max_batch: int, backlog: float,
        observe: Callable[[int, float], None] = lambda size, seconds: None,
    ):  # fmt: skip
        self.models, self.programs = models, ProgramCache(models)
        self._pending: set[BatchKey] = set()
        self._stopped = False
        self._sizes = (*(size for size in TASKS if size < max_batch), bucket(max_batch, TASKS)) if wait > 0 else (1,)
        self._observe, self.costs, self._backlog = observe, Costs(self._estimate), Backlog(backlog)
        self.batcher = Batcher(
            self._choose_call, cost=self.costs.of, wait=wait, max_batch=min(max_batch, TASKS[-1]),
            observe=self._measure,
        )  # fmt: skip

    @property
    def compiling(self) -> int:
        """How many batches a program is being compiled for."""
        return len(self._pending)

    async def learn(self, client: str, model: ServedModel, task: Task) -> Adaptation:
        """Learns a task."""
        if not model.masked:  # without masks all samples are the same
            task = task._replace(settings=task.settings._replace(samples=1))
        rows = bucket(len(task.support.x), model.sizes.rows)
        samples = bucket(task.settings.samples, SAMPLES)
        work = LearnKey(model.name, task.ways, rows, samples, task.detail)
        return await self._submit(client, BatchKey(work, bucket(task.settings.steps, STEPS)), task)

    async def answer(self, client: str, model: ServedModel, adaptation: Adaptation, x: np.ndarray) -> Answer:
        """Predicts with a learned task."""
        rows, samples = bucket(len(x), model.sizes.rows), bucket(adaptation.settings.samples, SAMPLES)
        work = AnswerKey(model.name, adaptation.ways, rows, samples, adaptation.layout)
        return await self._submit(client, BatchKey(work), (adaptation, x))

    async def run(self, client: str, job: Job, function: Callable[[], T]) -> T:
        """Calls a function on a worker thread, in its turn."""
        return await self._submit(client, BatchKey(job), function)

    async def _submit(self, client: str, key: BatchKey, item: object) -> Any:
        """Has work done, unless its client has too much of it waiting. Quick work is never refused."""
        cost = self.costs.of(key)
        if cost <= QUICK:
            return await self.batcher.submit(client, key, item)
        self._backlog.enter(client, cost)
        try:
            return await self.batcher.submit(client, key, item)
        finally:
            self._backlog.leave(client, cost)

    def warm(self, ready: Callable[[], None]) -> None:
        """Compiles the programs that are likely to be used; blocks. Calls `ready` when each model can answer, and then
        compiles those for other sizes, without which a request is done by a program for more or fewer tasks."""
        models = self.models.values()
        for model in models:
            if model.kind.prepare is not None:
                model.kind.prepare(model.problem)
            self._compile(self._first(model), 1)
            _ = model.description  # computed once, here, so that no request waits for it
        if not self._stopped:
            ready()
        for each in itertools.chain(*(self._later(model) for model in models)):
            self._compile(*each)

    def stop(self) -> None:
        """Begins nothing more."""
        self._stopped = True
        self.batcher.stop()
        self.programs.stop()

    def _first(self, model: ServedModel) -> LearnKey:
        """A task as in training."""
        samples, ways = bucket(model.model.samples, SAMPLES), model.problem.ways
        points = bucket(model.experiment.shots * (ways or 1), model.sizes.rows)
        return LearnKey(model.name, ways, points, samples, False)

    def _later(self, model: ServedModel) -> list[tuple[LearnKey, int]]:
        """Many tasks at once, or fewer classes; and one task with all that the playground shows of it."""
        first = self._first(model)
        if model.heavy:
            return [(first._replace(ways=ways), 1) for ways in range((model.problem.ways or 2) - 1, 1, -1)]
        detail = first._replace(detail=True)
        bands = [(detail._replace(samples=samples), 1) for samples in model.sizes.samples if model.masked]
        return [*((first, size) for size in self._sizes[1:]), (detail, 1), *bands]

    def _compile(self, key: LearnKey, tasks: int) -> None:
        """A program that learns, and those that predict with what it has learned."""
        if self._stopped:
            return
        layout = self.programs.compile(key, tasks).result().layout
        for rows in self.models[key.model].sizes.queries if tasks == 1 else ():
            if not self._stopped:
                self.programs.compile(AnswerKey(key.model, key.ways, rows, key.samples, layout), tasks).result()

    def _choose_call(self, key: BatchKey, waiting: int) -> Call | None:
        """The call that does the first few of so many requests; None while its program is being compiled."""
        work = key.work
        if isinstance(work, Job):
            return Call(1, lambda functions: [functions[0]()])
        model, cost = self.models[work.model], self.costs.of(key)
        sizes = (1,) if model.heavy else self._sizes
        sizes = tuple(size for size in sizes if size * cost <= CALL) or (1,)
        size = next((s for s in sizes if s >= waiting), sizes[-1])
        program = self.programs.find(work, size, sizes[-1])
        if (program is None or program.tasks != size) and key not in self._pending:
            self._pending.add(key)
            loop, compiling = asyncio.get_running_loop(), self.programs.compile(work, size)
            compiling.add_done_callback(lambda program: call_soon(loop, lambda: self._finish_compiling(key, program)))
        if program is None:
            return None
        if isinstance(work, LearnKey):
            return Call(program.tasks, partial(learn, model, work, program))
        return Call(program.tasks, partial(answer, model, work, program))

    def _measure(self, key: BatchKey, call: Call, items: Sequence[object], seconds: float) -> None:
        """Notes how long one task takes, as if it had as many steps as the batch allows."""
        if isinstance(key.work, Job):
            self.costs.measure(key, seconds)
            return
        self._observe(len(items), seconds)
        steps = [max(1, item.settings.steps) for item in items if isinstance(item, Task)]
        self.costs.measure(key, seconds / call.size * (key.steps / max(steps) if steps else 1.0))

    def _estimate(self, key: BatchKey) -> float:
        """Seconds that a task takes, by its size, until it is measured; a second at most, since nobody should be
        refused for an estimate."""
        work = key.work
        if isinstance(work, Job):
            return min(1.0, work.size * _BYTE)
        rows = self.models[work.model].weights * work.rows * work.samples
        return min(1.0, rows * max(1, key.steps) * _MULTIPLY)

    def _finish_compiling(self, key: BatchKey, future: "Future[Program]") -> None:
        self._pending.discard(key)
        error = None if future.cancelled() else future.exception()
        if isinstance(error, FewstepError):
            error = refusal_of(error)
        self.batcher.wake(key, error)
