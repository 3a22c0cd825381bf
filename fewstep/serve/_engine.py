"""From a request's arrays to its outcome: which kind of work it is, which program does it, and with which others."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.serve._gather import Gatherer
from fewstep.serve._limits import PICTURES, POINTS, SAMPLES, STEPS, TASKS, bucket
from fewstep.serve._models import Served
from fewstep.serve._programs import Answering, Learning, Programs
from fewstep.serve._reading import Task
from fewstep.serve._refusal import invalid
from fewstep.serve._work import Answer, Asked, Left, answer, learn


class _Kind(NamedTuple):
    """What is gathered together: one kind of work, of tasks with about as many steps."""

    work: Learning | Answering
    steps: int = 0


class Engine:
    """The compiled work of all models."""

    def __init__(
        self, models: dict[str, Served], *, wait: float, most: int,
        observe: Callable[[int, float], None] = lambda size, seconds: None,
    ):  # fmt: skip
        self.models, self.programs = models, Programs(models)
        self._awaited: set[_Kind] = set()
        self._stopped = False
        self._sizes = (*(size for size in TASKS if size < most), bucket(most, TASKS)) if wait > 0 else (1,)
        self.gatherer = Gatherer(self._take, wait=wait, most=min(most, TASKS[-1]), observe=observe)

    @property
    def compiling(self) -> int:
        """How many kinds of requests a program is being compiled for."""
        return len(self._awaited)

    async def learn(self, served: Served, task: Task) -> Left:
        """Learns a task."""
        samples = bucket(task.samples, SAMPLES) if served.masked else 1
        if not served.masked:  # without masks all samples are the same
            task = task._replace(samples=1)
        work = Learning(served.name, task.ways, bucket(len(task.x), _rooms(served)), samples, task.detail)
        return await self.gatherer.ask(_Kind(work, bucket(task.steps, STEPS)), task)

    async def answer(self, served: Served, left: Left, x: np.ndarray) -> Answer:
        """Predicts with what was learned."""
        rows, samples = bucket(len(x), _rooms(served)), bucket(left.samples, SAMPLES)
        work = Answering(served.name, left.ways, rows, samples, left.layout)
        return await self.gatherer.ask(_Kind(work), Asked(left, x))

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

    def _take(self, kind: _Kind, wanted: int) -> tuple[int, Callable[[Sequence[Any]], Sequence[Any]]] | None:
        """What does the first few of a line of requests; nothing if its program is yet to come."""
        served = self.models[kind.work.model]
        # Images are adapted one after the other anyway: each is enough work for a processor.
        sizes = self._sizes if served.kind != "images" else (1,)
        size = next((s for s in sizes if s >= wanted), sizes[-1])
        found = self.programs.find(kind.work, size)
        if (found is None or found.tasks != size) and kind not in self._awaited:
            self._awaited.add(kind)
            told = partial(_later, asyncio.get_running_loop(), self._compiled, kind)
            self.programs.begin(kind.work, size).add_done_callback(told)
        if found is None:
            return None
        if isinstance(kind.work, Learning):
            return found.tasks, partial(learn, served, kind.work, found)
        return found.tasks, partial(answer, served, kind.work, found)

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
