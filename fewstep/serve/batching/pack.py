"""One compiled call from many requests: their arrays side by side, padded; and its outcome taken apart again."""

from collections.abc import Sequence

import numpy as np

from fewstep.serve.batching.program_cache import AnswerKey, LearnKey, Program
from fewstep.serve.errors import Refusal, invalid
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Adaptation, Answer, Info, Settings, Task

Query = tuple[Adaptation, np.ndarray]  # rows to predict at with a learned task


def learn(model: ServedModel, key: LearnKey, program: Program, tasks: Sequence[Task]) -> list[Adaptation | Refusal]:
    """Learns several tasks in one call."""
    size = program.tasks
    x = np.zeros((size, key.rows, *model.row_shape), np.float32)
    weight = np.zeros((size, key.rows), np.float32)
    dtype = np.int32 if model.has_classes else np.float32
    y = np.zeros((size, key.rows, *tasks[0].examples.y.shape[1:]), dtype)
    steps, seed, samples = np.zeros(size, np.int32), np.zeros(size, np.int32), np.ones(size, np.int32)
    pace = np.ones(size, np.float32)
    with np.errstate(over="ignore"):  # what is too large for single precision diverges, and is reported as that
        for n, (examples, settings, _) in enumerate(tasks):
            end = len(examples.x)
            x[n, :end], y[n, :end], weight[n, :end] = examples.x, examples.y, 1.0
            steps[n], pace[n], seed[n], samples[n] = settings
    rows, finite, info = program.call(model.metas, x, y, weight, Settings(steps, pace, seed, samples))
    rows, finite = np.asarray(rows), np.asarray(finite).tolist()
    before, after = np.asarray(info.before).tolist(), np.asarray(info.after).tolist()
    moved, units = (np.asarray(info.moved), np.asarray(info.units)) if key.detail else (None, None)
    return [
        Adaptation(
            # Copies: a view would keep the arrays of all tasks in memory.
            rows[n, :, : task.settings.samples].copy(), program.layout,
            Info(before[n], after[n], None if moved is None else moved[n].copy(),
                 None if units is None else units[n].copy()),
            task.settings, len(task.examples.x), task.examples.classes, task.examples.ways, task.examples.outside,
        ) if finite[n] else _diverged(task.settings)
        for n, task in enumerate(tasks)
    ]  # fmt: skip


def answer(model: ServedModel, key: AnswerKey, program: Program, queries: Sequence[Query]) -> list[Answer | Refusal]:
    """Predicts with several adapted networks in one call."""
    size = program.tasks
    x = np.zeros((size, key.rows, *model.row_shape), np.float32)
    rows = np.zeros((size, model.seeds, key.samples, key.layout.width), np.float32)
    samples = np.ones(size, np.int32)
    with np.errstate(over="ignore"):
        for n, (adaptation, at) in enumerate(queries):
            x[n, : len(at)] = at
            samples[n] = adaptation.settings.samples
            rows[n, :, : samples[n]] = adaptation.rows
    outputs = [np.asarray(output) for output in program.call(model.metas, rows, samples, x)]
    answers = [Answer(*(output[n, : len(at)] for output in outputs)) for n, (_, at) in enumerate(queries)]
    return [
        answer if np.isfinite(answer.mean).all() else _diverged(adaptation.settings)
        for answer, (adaptation, _) in zip(answers, queries, strict=True)
    ]


def _diverged(settings: Settings) -> Refusal:
    return invalid(
        "not_finite",
        f"The adapted network is not finite after {settings.steps} inner steps at pace {settings.pace:g}. Take fewer "
        "steps or a smaller pace, or bring what you send to the scale the model was trained on.",
    )
