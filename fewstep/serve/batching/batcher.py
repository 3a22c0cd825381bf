"""Gathers requests with one key that arrive at about the same time, and does them in one call on a worker thread.

A request that arrives alone is done at once. Where several arrived together the last time, the next ones wait for each
other, a few milliseconds at most; whatever arrives while the worker is busy goes together afterwards.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future as Outcome
from typing import Any, Generic, NamedTuple

from fewstep.serve.batching.lanes import Key, Lane, make_lanes


class Call(NamedTuple):
    """Does up to so many items at once, and takes as long for fewer. What an item is depends on the key."""

    size: int
    work: Callable[[Sequence[Any]], Sequence[object]]


class Entry(NamedTuple):
    """A request in the queue: its client, its item, and where the answer goes; done if nobody waits for it any more."""

    client: str
    item: object
    answer: asyncio.Future


class _Line:
    """The queues of one key, by client."""

    __slots__ = ("due", "expected", "queues", "size", "timer")

    def __init__(self) -> None:
        self.queues: dict[str, deque[Entry]] = {}
        self.size, self.expected = 0, 1
        self.timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self.due = False

    def add(self, entry: Entry) -> None:
        queue = self.queues.get(entry.client)
        if queue is None:
            queue = self.queues[entry.client] = deque()
        queue.append(entry)
        self.size += 1

    def pop(self, client: str) -> Entry:
        queue = self.queues[client]
        if len(queue) == 1:
            del self.queues[client]
        self.size -= 1
        return queue.popleft()

    def pick(self, count: int, seconds: Callable[[str], float]) -> list[Entry]:
        """Takes requests that somebody still waits for, from each client in turn; who has had the least time first."""
        entries: list[Entry] = []
        while self.queues and len(entries) < count:
            share = max(1, (count - len(entries)) // len(self.queues))
            for client in sorted(self.queues, key=seconds)[: count - len(entries)]:
                batch = [self.pop(client) for _ in range(min(share, len(self.queues[client])))]
                entries += [entry for entry in batch if not entry.answer.done()]
        return entries

    def tidy(self) -> None:
        """Forgets those at the front who wait no longer."""
        for client in list(self.queues):
            while client in self.queues and self.queues[client][0].answer.done():
                self.pop(client)


class Batcher(Generic[Key]):
    """Queues by key in front of the lanes. All but the calls happens on the event loop, so nothing needs a lock.

    `choose_call(key, waiting)` gives the call for so many items, or None while there is no program; `observe(key, call,
    items, seconds)` is called after each call.
    """

    def __init__(
        self, choose_call: Callable[[Key, int], Call | None], *, cost: Callable[[Key], float], wait: float,
        max_batch: int, observe: Callable[[Key, Call, Sequence[object], float], None],
    ):  # fmt: skip
        self._choose_call, self._cost, self._wait, self._observe = choose_call, cost, wait, observe
        self._max_batch = max_batch if wait > 0 else 1
        self._lines: dict[Key, _Line] = {}
        self.lanes = make_lanes()
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait for a worker."""
        return sum(line.size for line in self._lines.values())

    def submit(self, client: str, key: Key, item: object) -> asyncio.Future:
        """The answer to come for an item of a client."""
        loop = self._loop = self._loop or asyncio.get_running_loop()
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        answer = loop.create_future()
        line.add(Entry(client, item, answer))
        if line.due:
            return answer
        if line.size >= line.expected or line.size >= self._max_batch:
            self._release(key, line)
        elif line.timer is None:
            line.timer = loop.call_later(self._wait, self._release, key, line)
        return answer

    def wake(self, key: Key, error: BaseException | None = None) -> None:
        """A program for that key is ready, or has failed."""
        line = self._lines.get(key)
        if line is None:
            return
        if error is not None:
            for entry in line.pick(line.size, lambda client: 0.0):
                _resolve(entry.answer, error)
        self._release(key, line)

    def tidy(self) -> None:
        """Forgets those that wait no longer, and lines and clients without any; to be called now and then."""
        for key, line in list(self._lines.items()):
            line.tidy()
            if not line.queues and line.timer is None:
                del self._lines[key]
        clients = {client for line in self._lines.values() for client in line.queues}
        for lane in self.lanes:
            lane.clients.keep(clients)
            lane.keys.keep(self._lines)

    def stop(self) -> None:
        """Releases the workers, and begins nothing more."""
        self._stopped = True
        for lane in self.lanes:
            lane.worker.shutdown(wait=False, cancel_futures=True)

    def _release(self, key: Key, line: _Line) -> None:
        """The line need not wait for more; it goes when a worker is free."""
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        line.due = bool(line.queues)
        self._next(self._lane(key))

    def _lane(self, key: Key) -> Lane:
        cost = self._cost(key)
        return next(lane for lane in self.lanes if cost <= lane.limit)

    def _next(self, lane: Lane) -> None:
        """Gives the worker of a lane, if it is free, the line whose turn it is."""
        if self._stopped or lane.busy:
            return
        for key, line in self._turns(lane):
            call = self._choose_call(key, min(line.size, self._max_batch))
            if call is not None and self._start(lane, key, line, call):
                return

    def _turns(self, lane: Lane) -> list[tuple[Key, _Line]]:
        """The lines of a lane that are due: first those of the client that has had the least time, then the key."""
        due = [each for each in self._lines.items() if each[1].due and each[1].queues and self._lane(each[0]) is lane]
        order = lambda each: (min(map(lane.clients.of, each[1].queues)), lane.keys.of(each[0]), self._cost(each[0]))
        return sorted(due, key=order) if len(due) > 1 else due

    def _start(self, lane: Lane, key: Key, line: _Line, call: Call) -> bool:
        """Begins a call, if anybody still waits for one."""
        entries = line.pick(min(call.size, self._max_batch), lane.clients.of)
        line.expected, line.due = max(1, len(entries)), bool(line.queues)
        if not entries:
            return False
        lane.busy, start = True, time.monotonic()
        outcome = lane.worker.submit(call.work, [entry.item for entry in entries])
        assert self._loop is not None
        loop = self._loop
        outcome.add_done_callback(
            lambda done: call_soon(loop, lambda: self._finish(lane, key, call, entries, done, start))
        )
        return True

    def _finish(self, lane: Lane, key: Key, call: Call, entries: list[Entry], outcome: Outcome, start: float) -> None:
        lane.busy = False
        if outcome.cancelled():  # the service ends at once
            return
        seconds, error = time.monotonic() - start, outcome.exception()
        self._observe(key, call, [entry.item for entry in entries], seconds)
        lane.keys.charge(key, seconds)
        for entry in entries:
            lane.clients.charge(entry.client, seconds / len(entries))
        for each in self.lanes:  # first, so that workers are busy while answers are written; a key may change lanes
            self._next(each)
        answers = [error] * len(entries) if error is not None else outcome.result()
        for entry, answer in zip(entries, answers, strict=True):
            _resolve(entry.answer, answer)


def _resolve(future: asyncio.Future, answer: object) -> None:
    if future.done():
        return
    if isinstance(answer, BaseException):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Has a function called on the loop, from any thread, unless the loop has ended."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function)
