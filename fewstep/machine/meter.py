"""Steps per second, and the time that is left."""

import statistics
import time
from collections import deque


class Meter:
    """The median rate of the last calls, so that a validation or a save in between does not show."""

    def __init__(self, calls: int | None = 15) -> None:
        self.last: tuple[float, int] | None = None
        self.rates: deque[float] = deque(maxlen=calls)

    def __call__(self, number: int) -> None:
        """Notes that a step has been reached."""
        now = time.monotonic()
        if self.last is not None:
            self.rates.append((number - self.last[1]) / max(now - self.last[0], 1e-9))
        self.last = (now, number)

    @property
    def value(self) -> float | None:
        """Steps per second, or nothing before there is something to report."""
        return statistics.median(self.rates) if self.rates else None


def time_left(seconds: float) -> str:
    """A time left as people say it: `45 s left`, `35 min left`, `46 h 55 min left`."""
    if seconds < 120:
        return f"{seconds:.0f} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min left"
