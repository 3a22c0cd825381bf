"""Counts for Prometheus, in its text format."""

import bisect
import os
import time
from collections import Counter
from collections.abc import Callable

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """How often a value fell below each of some bounds."""

    def __init__(self, bounds: tuple[float, ...]):
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Counts a value."""
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> list[str]:
        """Its lines of text."""
        made, total, comma = [], 0, "," if labels else ""
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            made.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}')
        told = f"{{{labels}}}" if labels else ""
        return [*made, f"{name}_sum{told} {self._sum:.6f}", f"{name}_count{told} {total}"]


class Metrics:
    """What has happened since the start."""

    def __init__(self) -> None:
        self.began = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.gathered = Histogram(_SIZES)
        self.calls = Histogram(_SECONDS)
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        self.requests[route, status] += 1
        found = self.seconds.get(route)
        if found is None:
            found = self.seconds[route] = Histogram(_SECONDS)
        found.add(seconds)

    def called(self, tasks: int, seconds: float) -> None:
        """Counts a compiled call."""
        self.gathered.add(tasks)
        self.calls.add(seconds)

    def text(self) -> str:
        """All of it."""
        lines = _head("fewstep_requests_total", "counter", "Answers by route and status.")
        lines += [f'fewstep_requests_total{{route="{r}",status="{s}"}} {n}' for (r, s), n in self.requests.items()]
        lines += _head("fewstep_request_seconds", "histogram", "Time to answer, by route.")
        for route, histogram in self.seconds.items():
            lines += histogram.lines("fewstep_request_seconds", f'route="{route}"')
        lines += _head("fewstep_gathered_tasks", "histogram", "Tasks of one compiled call.")
        lines += self.gathered.lines("fewstep_gathered_tasks")
        lines += _head("fewstep_call_seconds", "histogram", "Time of one compiled call.")
        lines += self.calls.lines("fewstep_call_seconds")
        for name, (told, value) in self.gauges.items():
            lines += [*_head(name, "counter" if name.endswith("_total") else "gauge", told), f"{name} {value():g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> float:
    """The memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0.0


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
