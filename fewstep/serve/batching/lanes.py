"""Whose turn it is: how long each sort of work takes, and how much time each client and each sort has had.

Work is in lanes by the time that one task takes, each with a worker thread of its own, so that nothing waits for what
takes much longer: a call that has begun cannot be interrupted. In a lane the client goes first that has had the least
time, and of its work the sort that has had the least. How much work of one client may wait is bounded.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from fewstep.serve.errors import overloaded

QUICK = 0.01  # seconds that a task takes to be in the first lane: so little that nobody is refused for it
CALL = 0.25  # seconds of one call, at most, if its tasks can be done in several
_LANES = (("quick", QUICK), ("usual", CALL), ("long", math.inf))
_WINDOW, _CAPACITY = 5, 4096  # measurements per key, and keys
Key = TypeVar("Key", bound=Hashable)


class Costs(Generic[Key]):
    """Seconds that one task of each key takes: measured, and estimated until then."""

    def __init__(self, estimate: Callable[[Key], float]):
        self._estimate = estimate
        self._seconds: dict[Key, float] = {}
        self._recent: dict[Key, deque[float]] = {}

    def of(self, key: Key) -> float:
        """The seconds of one task."""
        seconds = self._seconds.get(key)
        return self._estimate(key) if seconds is None else seconds

    def measure(self, key: Key, seconds: float) -> None:
        """Takes a measurement into account. The median, because a busy machine makes single calls much longer."""
        recent = self._recent.get(key)
        if recent is None:
            recent = self._recent[key] = deque(maxlen=_WINDOW)
        recent.append(seconds)
        self._seconds[key] = sorted(recent)[(len(recent) - 1) // 2]
        if len(self._seconds) > _CAPACITY:
            oldest = next(iter(self._seconds))
            del self._seconds[oldest], self._recent[oldest]


class Shares:
    """Seconds that each of several has had. Whoever is new begins with the least of the others'."""

    def __init__(self) -> None:
        self._seconds: dict[Hashable, float] = {}

    def of(self, name: Hashable) -> float:
        """The seconds that one has had."""
        seconds = self._seconds.get(name)
        if seconds is None:
            seconds = self._seconds[name] = min(self._seconds.values(), default=0.0)
        return seconds

    def charge(self, name: Hashable, seconds: float) -> None:
        """Adds to the seconds of one."""
        self._seconds[name] = self.of(name) + seconds

    def keep(self, names: Iterable[Hashable]) -> None:
        """Forgets all others."""
        self._seconds = {name: self.of(name) for name in names}


class Lane:
    """A worker thread, and the time it has spent for whom; `limit` is the seconds of one of its tasks."""

    def __init__(self, name: str, limit: float):
        self.limit = limit
        self.worker = ThreadPoolExecutor(1, name)
        self.busy = False
        self.clients, self.keys = Shares(), Shares()


def make_lanes() -> tuple[Lane, ...]:
    """The lanes, the quickest first."""
    return tuple(Lane(name, limit) for name, limit in _LANES)


class Backlog:
    """The estimated seconds of work that each client has waiting."""

    def __init__(self, limit: float):
        self._limit = limit
        self._waiting: dict[str, float] = {}

    def enter(self, client: str, seconds: float) -> None:
        """Counts work. Raises a `Refusal` if that client has too much already; one piece is always admitted."""
        waiting = self._waiting.get(client, 0.0)
        if waiting and waiting + seconds > self._limit:
            raise overloaded(
                f"About {waiting:.1f} s of work of yours ({client}) is waiting, this request takes about {seconds:.1f} "
                f"s, and the limit for one client is {self._limit:g} s. Wait for answers before you send more, or ask "
                "for fewer steps, samples or rows.",
                wait=math.ceil(waiting),
            )
        self._waiting[client] = waiting + seconds

    def leave(self, client: str, seconds: float) -> None:
        """Counts it no more."""
        rest = self._waiting[client] - seconds
        if rest > 1e-9:
            self._waiting[client] = rest
        else:
            del self._waiting[client]
