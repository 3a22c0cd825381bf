"""Gathers requests of one kind that come at about the same time, and does them in one call on one worker thread.

A request that comes alone is done at once. Where several came together the last time, the next ones wait for each
other, a few milliseconds at most; whatever comes while the worker is busy goes together afterwards.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future as Outcome
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

# Does the first few of the items in a call, as many as there is a program for, or tells that there is none yet.
Take = Callable[[Any, int], "tuple[int, Callable[[Sequence[Any]], Sequence[Any]]] | None"]


class Waiting(NamedTuple):
    """A request in the queue: what it asks, where its answer goes, and since when it waits. Whoever waits no longer
    has cancelled the answer."""

    item: Any
    answer: asyncio.Future
    since: float


class _Line:
    """The queue of one kind."""

    __slots__ = ("due", "expected", "queue", "timer")

    def __init__(self) -> None:
        self.queue: deque[Waiting] = deque()
        self.expected = 1
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self.due = False


class Gatherer:
    """Queues by kind in front of one worker. All but the calls happens on the event loop, so nothing needs a lock."""

    def __init__(self, take: Take, *, wait: float, most: int, observe: Callable[[int, float], None]):
        self._take, self._wait, self._observe = take, wait, observe
        self._most = most if wait > 0 else 1
        self._lines: dict[Hashable, _Line] = {}
        self._worker = ThreadPoolExecutor(1, "adapt")
        self._running = self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def ask(self, kind: Hashable, item: Any) -> asyncio.Future:
        """The answer to come for an item."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line()
        answer = loop.create_future()
        line.queue.append(Waiting(item, answer, time.monotonic()))
        if len(line.queue) >= line.expected or len(line.queue) >= self._most:
            self._ripe(kind, line)
        elif line.timer is None:
            line.timer = loop.call_later(self._wait, self._ripe, kind, line)
        return answer

    def poke(self, kind: Hashable, failed: BaseException | None = None) -> None:
        """A program for that kind is ready, or has failed."""
        line = self._lines.get(kind)
        if line is None:
            return
        if failed is not None:
            while line.queue:
                _tell(line.queue.popleft().answer, failed)
        self._ripe(kind, line)

    def tidy(self) -> None:
        """Forgets those that wait no longer, and lines without anybody; to be called now and then."""
        for kind, line in list(self._lines.items()):
            while line.queue and line.queue[0].answer.done():
                line.queue.popleft()
            if not line.queue and line.timer is None:
                del self._lines[kind]

    def stop(self) -> None:
        """Lets go of the worker, and begins nothing more."""
        self._stopped = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _ripe(self, kind: Hashable, line: _Line) -> None:
        """The line need not wait for more; it goes when the worker is free."""
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        line.due = True
        if not self._running:
            self._next()

    def _next(self) -> None:
        """Gives the worker the line whose first request has waited longest, of those that are due."""
        if self._stopped:
            return
        due = [(line.queue[0].since, n) for n, line in enumerate(self._lines.values()) if line.due and line.queue]
        for _, number in sorted(due):
            kind, line = list(self._lines.items())[number]
            wanted = min(len(line.queue), self._most)
            found = self._take(kind, wanted)
            if found is not None:
                self._start(line, *found)
                return

    def _start(self, line: _Line, size: int, call: Callable[[Sequence[Any]], Sequence[Any]]) -> None:
        taken = [line.queue.popleft() for _ in range(min(size, len(line.queue), self._most))]
        line.expected, line.due = len(taken), bool(line.queue)
        taken = [waiting for waiting in taken if not waiting.answer.done()]  # nobody waits for the rest any more
        if not taken:
            self._next()
            return
        self._running, began = True, time.monotonic()
        outcome = self._worker.submit(call, [waiting.item for waiting in taken])
        assert self._loop is not None
        loop = self._loop
        outcome.add_done_callback(lambda made: _soon(loop, self._done, taken, made, began))

    def _done(self, taken: list[Waiting], made: Outcome, began: float) -> None:
        self._running = False
        if made.cancelled():  # the service ends at once
            return
        self._observe(len(taken), time.monotonic() - began)
        self._next()  # first, so that the worker is busy while answers are written
        failed = made.exception()
        answers = [failed] * len(taken) if failed is not None else made.result()
        for waiting, answer in zip(taken, answers, strict=True):
            _tell(waiting.answer, answer)


def _tell(future: asyncio.Future, answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def _soon(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *given: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *given)
