"""Whose turn it is: how long each kind of work takes, and how much each client and kind has had.

Work is in lanes by the time that one task takes, each with a worker thread of its own, so that nothing waits for what
takes much longer: a call that has begun cannot be interrupted. In a lane the client goes first that has had the least
time, and of its work the kind that has had the least.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

QUICK = 0.01  # seconds that a task takes to be in the first lane: so little that nobody is refused for it
CALL = 0.25  # seconds of one call, at most, if its tasks can be done in several
_LANES = (("quick", QUICK), ("usual", CALL), ("long", math.inf))
_KEPT, _KINDS = 5, 4096  # measurements of a kind, and kinds


class Costs:
    """Seconds that one task of each kind takes: measured, and guessed until then."""

    def __init__(self, guess: Callable[[Any], float]):
        self._guess = guess
        self._seconds: dict[Hashable, float] = {}
        self._measured: dict[Hashable, deque[float]] = {}

    def of(self, kind: Hashable) -> float:
        """The estimate for a kind."""
        found = self._seconds.get(kind)
        return self._guess(kind) if found is None else found

    def measure(self, kind: Hashable, seconds: float) -> None:
        """Takes a measurement into account. The median, because a busy machine makes single calls much longer."""
        measured = self._measured.get(kind)
        if measured is None:
            measured = self._measured[kind] = deque(maxlen=_KEPT)
        measured.append(seconds)
        self._seconds[kind] = sorted(measured)[(len(measured) - 1) // 2]
        if len(self._seconds) > _KINDS:
            oldest = next(iter(self._seconds))
            del self._seconds[oldest], self._measured[oldest]


class Shares:
    """Seconds that each of several has had. Whoever is new begins with the least of the others'."""

    def __init__(self) -> None:
        self._had: dict[Hashable, float] = {}

    def of(self, name: Hashable) -> float:
        """What one has had."""
        had = self._had.get(name)
        if had is None:
            had = self._had[name] = min(self._had.values(), default=0.0)
        return had

    def charge(self, name: Hashable, seconds: float) -> None:
        """Adds to what one has had."""
        self._had[name] = self.of(name) + seconds

    def keep(self, names: Iterable[Hashable]) -> None:
        """Forgets all others."""
        self._had = {name: self.of(name) for name in names}


class Lane:
    """A worker thread, and what it has done for whom."""

    def __init__(self, name: str, most: float):
        self.most = most
        self.worker = ThreadPoolExecutor(1, name)
        self.running = False
        self.clients, self.kinds = Shares(), Shares()


def make_lanes() -> tuple[Lane, ...]:
    """The lanes, from the quickest on."""
    return tuple(Lane(name, most) for name, most in _LANES)
