"""Counts for Prometheus."""

import os
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What has happened since the start; `gauges` are read when somebody asks: what each is, and its value."""

    def __init__(self) -> None:
        disable_created_metrics()  # a second series for each count, with the time it began
        self.start, self.answers = time.time(), 0
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self.registry = CollectorRegistry()
        what = "Answers by route and status."
        self._requests = Counter("fewstep_requests", what, ("route", "status"), registry=self.registry)
        self._seconds = self._histogram("request_seconds", "Time to answer, by route.", _SECONDS, ("route",))
        self._tasks = self._histogram("gathered_tasks", "Tasks of one compiled call.", _SIZES)
        self._calls = self._histogram("call_seconds", "Time of one compiled call.", _SECONDS)
        self.registry.register(self)
        self._series: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count_answer(self, route: str, status: int, seconds: float) -> None:
        """Counts an answer."""
        series = self._series.get((route, status))
        if series is None:  # looking it up by its labels would take longer than counting
            series = self._series[route, status] = self._requests.labels(route, status), self._seconds.labels(route)
        self.answers += 1
        series[0].inc()
        series[1].observe(seconds)

    def count_call(self, tasks: int, seconds: float) -> None:
        """Counts a compiled call."""
        self._tasks.observe(tasks)
        self._calls.observe(seconds)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The gauges, as the registry asks for them."""
        for name, (what, value) in self.gauges.items():
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            yield family(name, what, value=value())

    def text(self) -> str:
        """All of it."""
        return generate_latest(self.registry).decode()

    def _histogram(self, name: str, what: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(f"fewstep_{name}", what, labels, buckets=bounds, registry=self.registry)


def resident_bytes() -> float:
    """The memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0.0
