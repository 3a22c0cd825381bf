"""Gathers requests of one kind that come at about the same time, and does them in one call on a worker thread.

A request that comes alone is done at once. Where several came together the last time, the next ones wait for each
other, a few milliseconds at most; whatever comes while the worker is busy goes together afterwards.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future as Outcome
from typing import Any, NamedTuple

from fewstep.serve._turns import Lane, make_lanes


class Call(NamedTuple):
    """Does up to so many items at once, and takes as long for fewer."""

    size: int
    work: Callable[[Sequence[Any]], Sequence[Any]]


Take = Callable[[Any, int], Call | None]  # what does the first few of a line of a kind, or nothing while there is none
Observe = Callable[[Any, Call, Sequence[Any], float], None]  # hears of a call: its kind, its items and its seconds


class Waiting(NamedTuple):
    """A request in the queue: who asks, what, and where the answer goes. Whoever waits no longer has cancelled it."""

    client: str
    item: Any
    answer: asyncio.Future


class _Line:
    """The queues of one kind, by client."""

    __slots__ = ("due", "expected", "queues", "size", "timer")

    def __init__(self) -> None:
        self.queues: dict[str, deque[Waiting]] = {}
        self.size, self.expected = 0, 1
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self.due = False

    def add(self, waiting: Waiting) -> None:
        queue = self.queues.get(waiting.client)
        if queue is None:
            queue = self.queues[waiting.client] = deque()
        queue.append(waiting)
        self.size += 1

    def pop(self, client: str) -> Waiting:
        queue = self.queues[client]
        if len(queue) == 1:
            del self.queues[client]
        self.size -= 1
        return queue.popleft()

    def pick(self, count: int, had: Callable[[str], float]) -> list[Waiting]:
        """Takes requests that somebody still waits for, from each client in turn; who has had least goes first."""
        taken: list[Waiting] = []
        while self.queues and len(taken) < count:
            share = max(1, (count - len(taken)) // len(self.queues))
            for client in sorted(self.queues, key=had)[: count - len(taken)]:
                popped = [self.pop(client) for _ in range(min(share, len(self.queues[client])))]
                taken += [waiting for waiting in popped if not waiting.answer.done()]
        return taken

    def tidy(self) -> None:
        """Forgets those at the front who wait no longer."""
        for client in list(self.queues):
            while client in self.queues and self.queues[client][0].answer.done():
                self.pop(client)


class Gatherer:
    """Queues by kind in front of the lanes. All but the calls happens on the event loop, so nothing needs a lock."""

    def __init__(self, take: Take, *, cost: Callable[[Any], float], wait: float, most: int, observe: Observe):
        self._take, self._cost, self._wait, self._observe = take, cost, wait, observe
        self._most = most if wait > 0 else 1
        self._lines: dict[Hashable, _Line] = {}
        self.lanes = make_lanes()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait for a worker."""
        return sum(line.size for line in self._lines.values())

    def ask(self, client: str, kind: Hashable, item: Any) -> asyncio.Future:
        """The answer to come for an item of a client."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = _Line()
        answer = loop.create_future()
        line.add(Waiting(client, item, answer))
        if line.due:
            return answer
        if line.size >= line.expected or line.size >= self._most:
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
            for waiting in line.pick(line.size, lambda client: 0.0):
                _tell(waiting.answer, failed)
        self._ripe(kind, line)

    def tidy(self) -> None:
        """Forgets those that wait no longer, and lines and clients without any; to be called now and then."""
        for kind, line in list(self._lines.items()):
            line.tidy()
            if not line.queues and line.timer is None:
                del self._lines[kind]
        clients = {client for line in self._lines.values() for client in line.queues}
        for lane in self.lanes:
            lane.clients.keep(clients)
            lane.kinds.keep(self._lines)

    def stop(self) -> None:
        """Lets go of the workers, and begins nothing more."""
        self._stopped = True
        for lane in self.lanes:
            lane.worker.shutdown(wait=False, cancel_futures=True)

    def _ripe(self, kind: Hashable, line: _Line) -> None:
        """The line need not wait for more; it goes when a worker is free."""
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        line.due = bool(line.queues)
        self._next(self._lane(kind))

    def _lane(self, kind: Hashable) -> Lane:
        cost = self._cost(kind)
        return next(lane for lane in self.lanes if cost <= lane.most)

    def _next(self, lane: Lane) -> None:
        """Gives the worker of a lane, if it is free, the line whose turn it is."""
        if self._stopped or lane.running:
            return
        for kind, line in self._turns(lane):
            call = self._take(kind, min(line.size, self._most))
            if call is not None and self._start(lane, kind, line, call):
                return

    def _turns(self, lane: Lane) -> list[tuple[Hashable, _Line]]:
        """The lines of a lane that are due: first those of the client that has had least, then the kind."""
        due = [each for each in self._lines.items() if each[1].due and each[1].queues and self._lane(each[0]) is lane]
        order = lambda each: (min(map(lane.clients.of, each[1].queues)), lane.kinds.of(each[0]), self._cost(each[0]))
        return sorted(due, key=order) if len(due) > 1 else due

    def _start(self, lane: Lane, kind: Hashable, line: _Line, call: Call) -> bool:
        """Begins a call, if anybody still waits for one."""
        taken = line.pick(min(call.size, self._most), lane.clients.of)
        line.expected, line.due = max(1, len(taken)), bool(line.queues)
        if not taken:
            return False
        lane.running, began = True, time.monotonic()
        outcome = lane.worker.submit(call.work, [waiting.item for waiting in taken])
        assert self._loop is not None
        loop = self._loop
        outcome.add_done_callback(lambda made: _soon(loop, self._done, lane, kind, call, taken, made, began))
        return True

    def _done(self, lane: Lane, kind: Any, call: Call, taken: list[Waiting], made: Outcome, began: float) -> None:
        lane.running = False
        if made.cancelled():  # the service ends at once
            return
        seconds, failed = time.monotonic() - began, made.exception()
        self._observe(kind, call, [waiting.item for waiting in taken], seconds)
        lane.kinds.charge(kind, seconds)
        for waiting in taken:
            lane.clients.charge(waiting.client, seconds / len(taken))
        for each in self.lanes:  # first, so that workers are busy while answers are written; a kind may change lanes
            self._next(each)
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
