"""The figures that studies of curves share: adapted curves, error against inner steps, training curves."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from fewstep_studies.reproduce._figure import Axes, Figure, Points, columns, keys, lines, rows_of
from fewstep_studies.reproduce._measurement import Measurement, TaskCurve, Training
from fewstep_studies.reproduce._study import Pairs
from fewstep_studies.reproduce._training import SHOTS

Groups = dict[str, list[tuple[str, Measurement]]]  # the lines of each panel, by its title
_TASKS = ("#0072b2", "#d55e00", "#009e73")


def adapted_curves(pairs: Pairs[Training, Measurement], n_tasks: int = 2) -> Figure:
    """One panel per cell: unseen tasks, the network before and after one step on their support."""
    shown = [(cell.title, measurement.curves[:n_tasks]) for cell, measurement in pairs if measurement.curves]
    data = [
        (title, task, part, x, y)
        for title, tasks in shown
        for task, curve in enumerate(tasks)
        for part, (xs, ys) in _parts(curve).items()
        for x, y in zip(xs, ys, strict=True)
    ]
    return Figure(
        "adapted-curves", "Unseen tasks, before and after one step",
        "Gray: the true curve of each task. Dots: its support. Dotted: the network before; solid: after one step.",
        [partial(_one_cell, title, tasks) for title, tasks in shown], ("model", "task", "part", "x", "y"), data,
    )  # fmt: skip


def _parts(curve: TaskCurve) -> dict[str, tuple[list[float], list[float]]]:
    parts = {part: (curve.x, getattr(curve, part)) for part in ("true", "before", "after")}
    return {**parts, "support": (curve.support_x, curve.support_y)}


def _one_cell(title: str, tasks: Sequence[TaskCurve], ax: Axes) -> None:
    for color, curve in zip(_TASKS, tasks, strict=False):
        ax.plot(curve.x, curve.true, color="#ced4da", linewidth=3.5)
        ax.plot(curve.x, curve.before, color=color, linewidth=1, linestyle=":")
        ax.plot(curve.x, curve.after, color=color, linewidth=1.6)
        ax.scatter(curve.support_x, curve.support_y, color=color, s=14, zorder=3)
    heights = np.abs([curve.true for curve in tasks]).max() * 1.6
    ax.set(title=title, xlabel="x", ylim=(-heights, heights))


def error_by_inner_steps(groups: Groups) -> Figure:
    """One panel per group: the error after 0 to 100 inner steps, all taken with the step size of the training."""
    data = [
        (title, label, score.inner_steps, score.mean, score.interval95, score.median, score.diverged_tasks)
        for title, group in groups.items()
        for label, measurement in group
        for score in measurement.scores
        if score.shots == SHOTS
    ]
    return Figure(
        "error-by-inner-steps", "Does adaptation keep improving?",
        "Mean squared error on unseen tasks against the number of inner steps, trained with one; the band is the 95% "
        "interval over tasks. A line that leaves at the top, or ends, has tasks that diverge.",
        [
            lines(title, [row[:4] for row in rows_of(data, title)], "inner steps", labels=[label for label, _ in group],
                  xscale="symlog", yscale="log") for title, group in groups.items()
        ],
        ("panel", "model", "inner_steps", "mean", "interval95", "median", "diverged_tasks"), data,
    )  # fmt: skip


def training_curves(groups: Groups) -> Figure:
    """One panel per group: the validation error against the outer step, the band from the best to the worst seed."""
    data = [
        (title, label, point.step, *_spread(point.errors))
        for title, group in groups.items()
        for label, measurement in group
        for point in measurement.training
    ]
    return Figure(
        "training-curves", "Training",
        "Error on 200 fixed validation tasks after one step against the outer step: the mean over seeds, smoothed over "
        "three points, and the band from the best to the worst seed.",
        [lines(title, _smoothed(rows_of(data, title)), "outer step", yscale="log", marker="") for title in groups],
        ("panel", "model", "step", "mean", "best_seed", "worst_seed"), data,
    )  # fmt: skip


def _spread(errors: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    whole = [error for error in errors if error is not None]
    return (float(np.mean(whole)), min(whole), max(whole)) if whole else (None, None, None)


def _smoothed(rows: Points) -> Points:
    smoothed: Points = []
    for label in keys(rows):
        steps, *values = columns(rows_of(rows, label))
        smoothed += [(label, *point) for point in zip(steps, *map(_running_mean, values), strict=True)]
    return smoothed


def _running_mean(values: np.ndarray) -> np.ndarray:
    """The running mean of three."""
    padded = np.concatenate([values[:1], values, values[-1:]])
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def mean_training(measurement: Measurement) -> tuple[np.ndarray, np.ndarray]:
    """The steps of a training's validations, and the error there: the mean over seeds, smoothed."""
    steps, errors = columns([(p.step, _spread(p.errors)[0]) for p in measurement.training] or [(None, None)])
    return steps, _running_mean(errors)
