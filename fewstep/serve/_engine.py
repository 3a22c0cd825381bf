"""From a request's arrays to its outcome: which kind of work it is, which program does it, and with which others."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fewstep._errors import FewstepError
from fewstep.serve._clients import Backlog
from fewstep.serve._gather import Call, Gatherer
from fewstep.serve._limits import PICTURES, POINTS, SAMPLES, STEPS, TASKS, bucket
from fewstep.serve._models import Served
from fewstep.serve._programs import Answering, Learning, Programs
from fewstep.serve._reading import Task
from fewstep.serve._refusal import invalid
from fewstep.serve._turns import CALL, QUICK, Costs
from fewstep.serve._work import Answer, Asked, Left, answer, learn

_MULTIPLY = 3e-10  # seconds of a multiplication and what belongs to it, there and back, before anything is measured
_BYTE = 1e-6  # seconds to read a byte of images
T = TypeVar("T")


class Aside(NamedTuple):
    """Work that is not compiled, done one by one: of a model, and of about one size."""

    model: str
    what: str
    size: int


class _Kind(NamedTuple):
    """What is gathered together: one kind of work, of tasks with about as many steps."""

    work: Learning | Answering | Aside
    steps: int = 0


class Engine:
    """The work of all models."""

    def __init__(
        self, models: dict[str, Served], *, wait: float, most: int, backlog: float,
        observe: Callable[[int, float], None] = lambda size, seconds: None,
    ):  # fmt: skip
        self.models, self.programs = models, Programs(models)
        self._awaited: set[_Kind] = set()
        self._stopped = False
        self._sizes = (*(size for size in TASKS if size < most), bucket(most, TASKS)) if wait > 0 else (1,)
        self._observe, self.costs, self._backlog = observe, Costs(self._guess), Backlog(backlog)
        most = min(most, TASKS[-1])
        self.gatherer = Gatherer(self._take, cost=self.costs.of, wait=wait, most=most, observe=self._called)

    @property
    def compiling(self) -> int:
        """How many kinds of requests a program is being compiled for."""
        return len(self._awaited)

    async def learn(self, client: str, served: Served, task: Task) -> Left:
        """Learns a task."""
        samples = bucket(task.samples, SAMPLES) if served.masked else 1
        if not served.masked:  # without masks all samples are the same
            task = task._replace(samples=1)
        work = Learning(served.name, task.ways, bucket(len(task.x), _rooms(served)), samples, task.detail)
        return await self._do(client, _Kind(work, bucket(task.steps, STEPS)), task)

    async def answer(self, client: str, served: Served, left: Left, x: np.ndarray) -> Answer:
        """Predicts with what was learned."""
        rows, samples = bucket(len(x), _rooms(served)), bucket(left.samples, SAMPLES)
        work = Answering(served.name, left.ways, rows, samples, left.layout)
        return await self._do(client, _Kind(work), Asked(left, x))

    async def aside(self, client: str, work: Aside, function: Callable[[], T]) -> T:
        """Calls a function in its turn."""
        return await self._do(client, _Kind(work), function)

    async def _do(self, client: str, kind: _Kind, item: Any) -> Any:
        """Has work done, unless its client has too much of it waiting. What takes little is never refused."""
        cost = self.costs.of(kind)
        if cost <= QUICK:
            return await self.gatherer.ask(client, kind, item)
        self._backlog.enter(client, cost)
        try:
            return await self.gatherer.ask(client, kind, item)
        finally:
            self._backlog.leave(client, cost)

    def warm(self, ready: Callable[[], None]) -> None:
        """Compiles the programs that are asked for first; blocks. It is `ready` when each model can answer, and then
        goes on with those for other sizes, without which a request is done by a program for more or fewer tasks."""
        models = self.models.values()
        for each in itertools.chain(*(self._first(served) for served in models)):
            self._make(*each)
        for served in models:
            _ = served.description  # made once; the first to ask for it would wait
        if not self._stopped:
            ready()
        for each in itertools.chain(*(self._later(served) for served in models)):
            self._make(*each)

    def stop(self) -> None:
        """Begins nothing more."""
        self._stopped = True
        self.gatherer.stop()
        self.programs.stop()

    def _first(self, served: Served) -> list[tuple[Learning, int]]:
        samples = bucket(served.samples, SAMPLES) if served.masked else 1
        points = bucket(served.trained_points, _rooms(served))
        return [(Learning(served.name, served.ways, points, samples, False), 1)]

    def _later(self, served: Served) -> list[tuple[Learning, int]]:
        """Many tasks at once, or fewer classes; and one with all that a playground shows of it."""
        ((plain, _),) = self._first(served)
        if served.kind == "images":
            return [(plain._replace(ways=ways), 1) for ways in range((served.ways or 2) - 1, 1, -1)]
        shown = plain._replace(detail=True)
        band = [(shown._replace(samples=SAMPLES[1]), 1)] if served.masked and served.kind == "curve" else []
        return [*((plain, size) for size in self._sizes[1:]), (shown, 1), *band]

    def _make(self, kind: Learning, size: int) -> None:
        """A program, and those that ask what it has learned."""
        if self._stopped:
            return
        layout = self.programs.begin(kind, size).result().layout
        for rows in _asked_rows(self.models[kind.model]) if size == 1 else ():
            if not self._stopped:
                self.programs.begin(Answering(kind.model, kind.ways, rows, kind.samples, layout), size).result()

    def _take(self, kind: _Kind, wanted: int) -> Call | None:
        """What does the first few of a line of requests; nothing if its program is yet to come."""
        if isinstance(kind.work, Aside):
            return Call(1, lambda functions: [functions[0]()])
        served, cost = self.models[kind.work.model], self.costs.of(kind)
        # Images are adapted one after the other anyway: each is enough work for a processor.
        sizes = self._sizes if served.kind != "images" else (1,)
        sizes = tuple(size for size in sizes if size * cost <= CALL) or (1,)
        size = next((s for s in sizes if s >= wanted), sizes[-1])
        found = self.programs.find(kind.work, size, sizes[-1])
        if (found is None or found.tasks != size) and kind not in self._awaited:
            self._awaited.add(kind)
            told = partial(_later, asyncio.get_running_loop(), self._compiled, kind)
            self.programs.begin(kind.work, size).add_done_callback(told)
        if found is None:
            return None
        if isinstance(kind.work, Learning):
            return Call(found.tasks, partial(learn, served, kind.work, found))
        return Call(found.tasks, partial(answer, served, kind.work, found))

    def _called(self, kind: _Kind, call: Call, items: Sequence[Any], seconds: float) -> None:
        """Learns what a task of a kind takes. Of tasks with fewer steps than the kind allows, it would take longer."""
        if isinstance(kind.work, Aside):
            self.costs.measure(kind, seconds)
            return
        self._observe(len(items), seconds)
        steps = max(1, *(task.steps for task in items)) if isinstance(kind.work, Learning) else kind.steps
        self.costs.measure(kind, seconds / call.size * (kind.steps / steps if steps else 1.0))

    def _guess(self, kind: _Kind) -> float:
        """Seconds that a task takes, by its size, until it is measured; a second at most, since nobody should be
        refused for a guess."""
        work = kind.work
        if isinstance(work, Aside):
            return min(1.0, work.size * _BYTE)
        rows = self.models[work.model].weights * work.rows * work.samples
        return min(1.0, rows * max(1, kind.steps) * _MULTIPLY)

    def _compiled(self, kind: _Kind, made: "Future[Any]") -> None:
        self._awaited.discard(kind)
        failed = None if made.cancelled() else made.exception()
        if isinstance(failed, FewstepError):
            failed = invalid("does_not_fit", str(failed))
        self.gatherer.poke(kind, failed)


def _rooms(served: Served) -> tuple[int, ...]:
    return PICTURES if served.kind == "images" else POINTS


def _asked_rows(served: Served) -> tuple[int, ...]:
    """How many rows are asked at first: a few, or the points of a drawn curve."""
    return {"images": (8,), "table": (16,), "curve": (16, 256)}[served.kind]


def _later(loop: asyncio.AbstractEventLoop, function: Callable[..., None], kind: _Kind, made: "Future[Any]") -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, kind, made)
