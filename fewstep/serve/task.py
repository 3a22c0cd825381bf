"""One task on its way through the service: as parsed, as adapted, and its answers."""

from typing import Any, NamedTuple

import numpy as np

from fewstep.serve.batching.layout import Layout
from fewstep.tables._outside import NOWHERE, Outside


class Settings(NamedTuple):
    """What may differ between tasks of one compiled call: numbers of one task, or arrays with one entry per task."""

    steps: Any
    pace: Any
    seed: Any
    samples: Any


class Rows(NamedTuple):
    """Rows to predict at, as the network takes them; of a table, with how far they lie outside the training's."""

    x: np.ndarray
    outside: Outside = NOWHERE


class Examples(NamedTuple):
    """A support set as the network takes it; with classes, their names, and how many if the learner depends on it."""

    x: np.ndarray
    y: np.ndarray
    classes: tuple[str, ...] | None = None
    ways: int | None = None
    outside: Outside = NOWHERE


class Task(NamedTuple):
    """A task to learn."""

    examples: Examples
    settings: Settings
    detail: bool


class Info(NamedTuple):
    """What adapting did: the support's loss before and after; with detail, how far each layer moved and how much its
    units may move."""

    before: Any
    after: Any
    moved: Any
    units: Any


class Adaptation(NamedTuple):
    """A learned task: adapted parameters in rows by (seed, sample), and all that is reported of it. Of the examples
    only their number is kept."""

    rows: np.ndarray
    layout: Layout
    info: Info
    settings: Settings
    points: int
    classes: tuple[str, ...] | None
    ways: int | None
    outside: Outside

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        arrays = (self.rows, self.info.moved, self.info.units, self.outside.distance)
        texts = (*(self.classes or ()), *self.outside.notes)
        return sum(array.nbytes for array in arrays if array is not None) + sum(map(len, texts))


class Answer(NamedTuple):
    """Mean, smallest, largest and deviation of the predictions over seeds and samples."""

    mean: Any
    low: Any
    high: Any
    spread: Any


class Prediction(NamedTuple):
    """Predictions as the client gets them, with a band or interval if there is one."""

    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def with_band(adaptation: Adaptation, answer: Answer) -> Prediction:
    """The mean; over several samples of the masks, with the smallest and largest."""
    if adaptation.settings.samples == 1:
        return Prediction(answer.mean)
    return Prediction(answer.mean, answer.low, answer.high)
