"""One compiled call from many requests: their arrays side by side, padded; and its outcome taken apart again."""

from collections.abc import Sequence

import numpy as np

from fewstep.problems import Answer
from fewstep.serve.batching.program_cache import AnswerKey, LearnKey, Program
from fewstep.serve.errors import Refusal, invalid
from fewstep.serve.served_model import ServedModel
from fewstep.serve.task import Adaptation, LayerChange, Settings, Task

Query = tuple[Adaptation, np.ndarray]  # rows to predict at with a learned task


def learn(served: ServedModel, key: LearnKey, program: Program, tasks: Sequence[Task]) -> list[Adaptation | Refusal]:
    """Learns several tasks in one call."""
    size = program.tasks
    x = np.zeros((size, key.rows, *served.problem.x), np.float32)
    weight = np.zeros((size, key.rows), np.float32)
    dtype = np.int32 if served.problem.classes else np.float32
    y = np.zeros((size, key.rows, *tasks[0].support.y.shape[1:]), dtype)
    steps, seed, samples = np.zeros(size, np.int32), np.zeros(size, np.int32), np.ones(size, np.int32)
    pace = np.ones(size, np.float32)
    with np.errstate(over="ignore"):  # what is too large for single precision diverges, and is reported as that
        for n, task in enumerate(tasks):
            end = len(task.support.x)
            x[n, :end], y[n, :end], weight[n, :end] = task.support.x, task.support.y, 1.0
            steps[n], pace[n], seed[n], samples[n] = task.settings
    rows, info = program.call(served.model.stacked, x, y, weight, steps, pace, seed, samples)
    rows, finite = np.asarray(rows), np.asarray(info.finite).tolist()
    before, after = np.asarray(info.loss_before).tolist(), np.asarray(info.loss_after).tolist()
    residual = np.asarray(info.residual)
    moved, units = (np.asarray(info.moved), np.asarray(info.units)) if key.detail else (None, None)
    return [
        Adaptation(
            # Copies: a view would keep the arrays of all tasks in memory.
            rows[n, :, : task.settings.samples].copy(), program.layout, before[n], after[n],
            None if moved is None or units is None else LayerChange(moved[n].copy(), units[n].copy()),
            task.settings, len(task.support.x), task.support.labels, task.ways,
            float(task.support.distance.max(initial=0.0)), task.support.notes,
            residual[n].copy(),
        ) if finite[n] else _divergence(task.settings)
        for n, task in enumerate(tasks)
    ]  # fmt: skip


def answer(served: ServedModel, key: AnswerKey, program: Program, queries: Sequence[Query]) -> list[Answer | Refusal]:
    """Predicts with several adapted networks in one call."""
    size = program.tasks
    x = np.zeros((size, key.rows, *served.problem.x), np.float32)
    rows = np.zeros((size, served.seeds, key.samples, key.layout.width), np.float32)
    samples = np.ones(size, np.int32)
    with np.errstate(over="ignore"):
        for n, (adaptation, at) in enumerate(queries):
            x[n, : len(at)] = at
            samples[n] = adaptation.settings.samples
            rows[n, :, : samples[n]] = adaptation.rows
    members, fit = program.call(served.model.stacked, rows, samples, x)
    mean, low, high, spread = map(np.asarray, members)
    fit = np.asarray(fit)
    ends = [(n, slice(len(at))) for n, (_, at) in enumerate(queries)]
    answers = [Answer(mean[own], low[own], high[own], spread[own], fit=fit[own]) for own in ends]
    return [
        answer if np.isfinite(answer.mean).all() else _divergence(adaptation.settings)
        for answer, (adaptation, _) in zip(answers, queries, strict=True)
    ]


def _divergence(settings: Settings) -> Refusal:
    return invalid(
        "not_finite",
        f"The adapted network is not finite after {settings.steps} inner steps at pace {settings.pace:g}. Take fewer "
        "steps or a smaller pace, or bring what you send to the scale the model was trained on.",
    )
