"""One task on its way through the service: as parsed, and as adapted."""

from typing import NamedTuple

import numpy as np

from fewstep.problems import Given
from fewstep.serve.batching.layout import Layout


class Settings(NamedTuple):
    """What may differ between tasks of one compiled call."""

    steps: int
    pace: float
    seed: int
    samples: int


class Task(NamedTuple):
    """A task to learn; `ways` are its classes if the learner depends on how many there are."""

    support: Given
    settings: Settings
    detail: bool
    ways: int | None


class LayerChange(NamedTuple):
    """What adapting did: how far each layer moved, and how far each unit of all layers may move."""

    moved: np.ndarray
    units: np.ndarray


class Adaptation(NamedTuple):
    """A learned task: adapted parameters in rows by (seed, sample), and all that is reported of it: the support's loss
    before and after, and what happened to the layers if it was asked for. Of the examples only their number is kept,
    how far they lie outside of what training had, notes on that, and what the model leaves over on them."""

    rows: np.ndarray
    layout: Layout
    before: float
    after: float
    change: LayerChange | None
    settings: Settings
    points: int
    classes: tuple[str, ...]
    ways: int | None
    distance: float
    notes: tuple[str, ...]
    residual: np.ndarray = np.zeros(1)

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        arrays = (self.rows, *(self.change or ()))
        return sum(array.nbytes for array in arrays) + sum(map(len, (*self.classes, *self.notes)))
