"""What a training reports while it runs, and how it ended."""

from collections.abc import Callable
from typing import NamedTuple

from fewstep.training import Row, TrainState


class Progress(NamedTuple):
    """What a watcher of a training receives: `begin(first, last)`, `step(number, row)`, `say(message)`."""

    begin: Callable[[int, int], None]
    step: Callable[[int, Row | None], None]
    say: Callable[[str], None]


def silent() -> Progress:
    """A watcher that shows nothing."""
    return Progress(lambda first, last: None, lambda number, row: None, lambda message: None)


class Outcome(NamedTuple):
    """How a training ended: where, whether a signal stopped it before its end, and whether one came at all."""

    state: TrainState
    step: int
    interrupted: bool
    signalled: bool
