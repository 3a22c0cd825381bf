"""Ctrl-C and requests to end, noted so that a training can save first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that fills when Ctrl-C or a request to end comes; a second Ctrl-C ends at once."""
    came: list[int] = []

    def note(number: int, frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: signals are somebody else's
        before = {}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
