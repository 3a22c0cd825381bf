"""The figures that studies share: adapted curves, error against inner steps, training curves."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._study import SHOTS, Cell, Judged, name

Groups = dict[str, list[tuple[str, Judged]]]
_TASKS = ("#0072b2", "#d55e00", "#009e73")


def adapted_curves(cells: list[Cell], judged: list[Judged], n_tasks: int = 2) -> Figure:
    """One panel a cell: unseen tasks, the network before and after one step on their support."""
    shown = [(cell, found["curves"][:n_tasks]) for cell, found in zip(cells, judged, strict=True) if found["curves"]]
    data = [
        (name(cell), task, part, x, y)
        for cell, tasks in shown
        for task, curve in enumerate(tasks)
        for part, (xs, ys) in _parts(curve).items()
        for x, y in zip(xs, ys, strict=True)
    ]
    return Figure(
        "adapted-curves", "Unseen tasks, before and after one step",
        "Gray: the true curve of each task. Dots: its support. Dotted: the network before; solid: after one step.",
        [partial(_one_cell, cell, tasks) for cell, tasks in shown], ("model", "task", "part", "x", "y"), data,
    )  # fmt: skip


def _parts(curve: dict[str, list[float]]) -> dict[str, tuple[list[float], list[float]]]:
    lines = {part: (curve["x"], curve[part]) for part in ("true", "before", "after")}
    return {**lines, "support": (curve["support_x"], curve["support_y"])}


def _one_cell(cell: Cell, tasks: list[dict[str, list[float]]], ax: Any) -> None:
    for color, curve in zip(_TASKS, tasks, strict=False):
        ax.plot(curve["x"], curve["true"], color="#ced4da", linewidth=3.5)
        ax.plot(curve["x"], curve["before"], color=color, linewidth=1, linestyle=":")
        ax.plot(curve["x"], curve["after"], color=color, linewidth=1.6)
        ax.scatter(curve["support_x"], curve["support_y"], color=color, s=14, zorder=3)
    heights = np.abs([curve["true"] for curve in tasks]).max() * 1.6
    ax.set(title=name(cell), xlabel="x", ylim=(-heights, heights))


def error_by_inner_steps(groups: Groups) -> Figure:
    """One panel a group: the error after 0 to 100 inner steps, all taken with the step size of the training."""
    data = [
        (title, label, row["inner_steps"], row["mean"], row["interval95"], row["median"], row.get("diverged_tasks", 0))
        for title, group in groups.items()
        for label, found in group
        for row in found["errors"]
        if row["shots"] == SHOTS
    ]
    return Figure(
        "error-by-inner-steps", "Does adaptation keep improving?",
        "Mean squared error on unseen tasks against the number of inner steps, trained with one; the band is the 95 % "
        "interval over tasks. A line that leaves at the top, or ends, has tasks that diverge.",
        [
            titled(title, labels(group), [row[:4] for row in rows_of(data, title)], "inner steps", "symlog")
            for title, group in groups.items()
        ],
        ("panel", "model", "inner_steps", "mean", "interval95", "median", "diverged_tasks"), data,
    )  # fmt: skip


def training_curves(groups: Groups) -> Figure:
    """One panel a group: the validation error against the outer step, the band from the best to the worst seed."""
    data = [
        (title, label, point["step"], *_spread(point["errors"]))
        for title, group in groups.items()
        for label, found in group
        for point in found["training"]
    ]
    return Figure(
        "training-curves", "Training",
        "Error on 200 fixed validation tasks after one step against the outer step: the mean over seeds, smoothed over "
        "three points, and the band from the best to the worst seed.",
        [partial(_training, title, labels(group), rows_of(data, title)) for title, group in groups.items()],
        ("panel", "model", "step", "mean", "best_seed", "worst_seed"), data,
    )  # fmt: skip


def _spread(errors: list[float | None]) -> tuple[float | None, float | None, float | None]:
    whole = [error for error in errors if error is not None]
    return (float(np.mean(whole)), min(whole), max(whole)) if whole else (None, None, None)


def _training(title: str, labels: list[str], data: list[tuple[Any, ...]], ax: Any) -> None:
    for number, label in enumerate(labels):
        if not (mine := rows_of(data, label)):
            continue
        steps, *lines = numbers(mine)
        mean, low, high = (smooth(line) for line in lines)
        ax.plot(steps, mean, label=label, **style(number))
        ax.fill_between(steps, low, high, color=style(number)["color"], alpha=0.15, linewidth=0)
    ax.set(title=title, xlabel="outer step", ylabel="mean squared error")
    finish(ax)


def labels(group: list[tuple[str, Judged]]) -> list[str]:
    """The labels of a group's lines, also of those that have no point."""
    return [label for label, _ in group]


def rows_of(data: list[tuple[Any, ...]], key: str) -> list[tuple[Any, ...]]:
    """The rows that begin with a key, without it."""
    return [row[1:] for row in data if row[0] == key]


def titled(
    title: str, labels: list[str], data: list[tuple[Any, ...]], xlabel: str, xscale: str
) -> Callable[[Any], None]:
    """A panel of `lines` with a title."""

    def panel(ax: Any) -> None:
        lines(labels, data, xlabel, xscale, ax)
        ax.set_title(title)

    return panel


def lines(labels: list[str], data: list[tuple[Any, ...]], xlabel: str, xscale: str, ax: Any) -> None:
    """Lines with bands on logarithmic axes, from rows of label, x, y and half the band's width."""
    for number, label in enumerate(labels):
        if not (mine := rows_of(data, label)):
            ax.plot([], [], label=f"{label} (diverged)", **style(number))
            continue
        x, y, half = numbers(mine)
        low = np.maximum(y - half, y / 10)  # a band that reaches 0 has no place on a logarithmic axis
        ax.plot(x, y, marker="o", markersize=3, label=label, **style(number))
        ax.fill_between(x, low, y + half, color=style(number)["color"], alpha=0.15, linewidth=0)
    ax.set(xlabel=xlabel, ylabel="mean squared error")
    if xscale == "symlog":
        ax.set_xscale("symlog", linthresh=1)
        ax.set(xticks=(0, 1, 10, 100), xticklabels=("0", "1", "10", "100"), xlim=(-0.2, 130))
    elif drawn(ax):
        ax.set_xscale(xscale)
    finish(ax)
    errors = [row[2] for row in data if row[2]]
    if xscale == "symlog" and errors:  # what diverges leaves at the top, and leaves room for the rest
        ax.set_ylim(min(errors) / 2, 5 * max((row[2] for row in data if row[1] == 0 and row[2]), default=1.0))


def numbers(rows: list[tuple[Any, ...]]) -> list[np.ndarray]:
    """The columns as arrays, NaN for nothing."""
    return [np.asarray([np.nan if x is None else x for x in column], float) for column in zip(*rows, strict=True)]


def mean_training(found: Judged) -> tuple[np.ndarray, np.ndarray]:
    """The steps of a training's validations, and the error there: the mean over seeds, smoothed."""
    rows = [(point["step"], _spread(point["errors"])[0]) for point in found["training"]]
    steps, errors = numbers(rows) if rows else (np.asarray([np.nan]), np.asarray([np.nan]))
    return steps, smooth(errors)


def smooth(values: np.ndarray) -> np.ndarray:
    """The running mean of three."""
    padded = np.concatenate([values[:1], values, values[-1:]])
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3


def drawn(ax: Any) -> bool:
    """Whether there is any point: without one a logarithmic axis has no ends."""
    return any(np.isfinite(line.get_ydata()).any() for line in ax.lines)


def finish(ax: Any) -> None:
    """A logarithmic axis, if there is a point to stand on it, and a small legend below, if there is a line."""
    if drawn(ax):
        ax.set_yscale("log")
    if not ax.get_legend_handles_labels()[0]:
        return
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3, fontsize=7, columnspacing=1)
