"""Pictures of tasks whose x is a number: the true curve, the support, and each model before and after adaptation."""

from typing import TYPE_CHECKING

import jax
import numpy as np
from markupsafe import Markup

from fewstep._episode import Batch
from fewstep.pages import figure, heading, svg
from fewstep.problems._kind import Problem, Sketch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POINTS = 400


def draw_tasks(
    problem: Problem, sketches: list[Sketch], stream: int, *, n_tasks: int = 6, seed: int = 0
) -> list[Markup]:
    """A heading and a figure of unseen tasks; nothing where x has several numbers."""
    if problem.x != (1,):
        return []
    first = sketches[0]
    tasks = problem.tasks(first.shots, _POINTS)
    sample = jax.jit(tasks.sample)
    columns = min(3, n_tasks)
    rows = -(-n_tasks // columns)
    with figure(rows, columns, (11, 3.1 * rows), sharex=True) as (drawing, axes):
        for number, ax in enumerate(axes.flat):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), stream), number)
            support, query = sample(tasks.data, key)
            _draw_task(ax, support, query, sketches)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=3 + 2 * len(sketches))
        picture = svg(drawing, "Unseen tasks: the true curve, the support, and predictions before and after adapting")
    return [heading(f"Unseen tasks, before and after {first.steps} steps"), picture]


def _draw_task(ax: "Axes", support: Batch, query: Batch, sketches: list[Sketch]) -> None:
    order = np.argsort(np.asarray(query.x)[:, 0])
    x = query.x[order]
    ax.plot(x[:, 0], query.y[order, 0], color="#adb5bd", linewidth=3, label="true curve")
    for sketch in sketches:
        color = sketch.color
        before, after = (sketch.answer(support, x, steps=steps).mean for steps in (0, sketch.steps))
        ax.plot(x[:, 0], before[:, 0], linewidth=1, linestyle=":", label=f"{sketch.name} before", color=color)
        ax.plot(x[:, 0], after[:, 0], linewidth=1.6, label=f"{sketch.name} after {sketch.steps}", color=color)
    ax.scatter(support.x[:, 0], support.y[:, 0], color="black", s=16, zorder=3, label="support")
