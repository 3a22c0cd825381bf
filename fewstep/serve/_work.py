"""One compiled call from many requests: their arrays side by side, padded; and its outcome taken apart again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fewstep.serve._adapting import Knobs, Layout
from fewstep.serve._models import Served
from fewstep.serve._programs import Answering, Learning, Program, row_shape
from fewstep.serve._reading import Task
from fewstep.serve._refusal import Refusal, invalid
from fewstep.tables._outside import Outside


class Left(NamedTuple):
    """What a learned task leaves behind: rows by (seed, sample), and what is told of it; the examples are not kept."""

    rows: np.ndarray
    layout: Layout
    before: float
    after: float
    moved: np.ndarray | None
    units: np.ndarray | None
    points: int
    classes: tuple[str, ...] | None
    ways: int | None
    steps: int
    pace: float
    outside: Outside

    @property
    def samples(self) -> int:
        """The draws of the masks."""
        return self.rows.shape[1]

    @property
    def nbytes(self) -> int:
        """What it takes of the memory."""
        arrays = [
            each.nbytes for each in (self.rows, self.moved, self.units, self.outside.distance) if each is not None
        ]
        return sum(arrays) + sum(map(len, (*(self.classes or ()), *self.outside.notes)))


class Asked(NamedTuple):
    """Rows to predict at, with what was learned."""

    left: Left
    x: np.ndarray


class Answer(NamedTuple):
    """Mean, smallest, largest and deviation of the predictions over seeds and samples."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    spread: np.ndarray


def learn(served: Served, kind: Learning, program: Program, tasks: Sequence[Task]) -> list[Left | Refusal]:
    """Learns several tasks in one call."""
    size = program.tasks
    x = np.zeros((size, kind.rows, *row_shape(served)), np.float32)
    weight = np.zeros((size, kind.rows), np.float32)
    classes = served.classes
    y = np.zeros((size, kind.rows, *tasks[0].y.shape[1:]), np.int32 if classes else np.float32)
    whole = np.zeros((3, size), np.int32)
    whole[2] = 1
    pace = np.ones(size, np.float32)
    with np.errstate(over="ignore"):  # what is too large for single precision gives what is not finite, and is told
        for number, task in enumerate(tasks):
            end = len(task.x)
            x[number, :end], y[number, :end], weight[number, :end] = task.x, task.y, 1.0
            whole[:, number] = task.steps, task.seed, task.samples
            pace[number] = task.pace
    made = program.call(served.metas, x, y, weight, Knobs(whole[0], pace, whole[1], whole[2]))
    rows, finite = np.asarray(made.rows), np.asarray(made.finite).tolist()
    before, after = np.asarray(made.before).tolist(), np.asarray(made.after).tolist()
    moved, units = (np.asarray(made.moved), np.asarray(made.units)) if kind.detail else (None, None)
    return [
        Left(
            # Copies: a part of the arrays of all tasks would keep them all.
            rows[n, :, : task.samples].copy(), program.layout, before[n], after[n],
            None if moved is None else moved[n].copy(), None if units is None else units[n].copy(),
            len(task.x), task.classes, task.ways, task.steps, task.pace, task.outside,
        ) if finite[n] else _diverged(task.steps, task.pace)
        for n, task in enumerate(tasks)
    ]  # fmt: skip


def answer(served: Served, kind: Answering, program: Program, asked: Sequence[Asked]) -> list[Answer | Refusal]:
    """Predicts with several adapted networks in one call."""
    size = program.tasks
    x = np.zeros((size, kind.rows, *row_shape(served)), np.float32)
    rows = np.zeros((size, served.seeds, kind.samples, kind.layout.width), np.float32)
    samples = np.ones(size, np.int32)
    with np.errstate(over="ignore"):
        for number, (left, at) in enumerate(asked):
            x[number, : len(at)] = at
            samples[number] = left.samples
            rows[number, :, : samples[number]] = left.rows
    every = [np.asarray(made) for made in program.call(served.metas, rows, samples, x)]
    taken = [Answer(*(made[n, : len(one.x)] for made in every)) for n, one in enumerate(asked)]
    return [
        made if np.isfinite(made.mean).all() else _diverged(one.left.steps, one.left.pace)
        for made, one in zip(taken, asked, strict=True)
    ]


def _diverged(steps: int, pace: float) -> Refusal:
    return invalid(
        "not_finite",
        f"The adapted network is not finite after {steps} inner steps at pace {pace:g}. Take fewer steps or "
        "a smaller pace, or bring what you send to the scale the model was trained on.",
    )
