"""The pictures of a report, as SVG text that stands in the page itself."""

from typing import Any

import jax
import numpy as np

from fewstep._streams import UNSEEN
from fewstep.compute import light
from fewstep.inspection import Report
from fewstep.reports.drawing import figure, svg
from fewstep.runs.model import Model

COLORS = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e")


def adaptation(models: dict[str, Model], *, steps: int, n_tasks: int = 6, seed: int = 0) -> str:
    """For unseen tasks: support points, the true curve, and each model before and after adaptation."""
    columns = min(3, n_tasks)
    with figure(-(-n_tasks // columns), columns, (11, 3.1 * -(-n_tasks // columns)), sharex=True) as (drawn, axes):
        predict = {name: _before_and_after(model, steps) for name, model in models.items()}
        for number, ax in enumerate(axes.flat):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), UNSEEN), number)
            _one_task(ax, models, predict, key, steps)
        handles, labels = axes.flat[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside upper center", ncols=3 + 2 * len(models))
        return svg(drawn)


def _before_and_after(model: Model, steps: int) -> Any:
    """The compiled `(meta, key, support, x) -> (before, after)` of a model."""
    learner = model.built.learner

    def both(meta: Any, key: Any, support: Any, x: Any) -> Any:
        adapted = learner.adapt(meta, key, support, (0, steps))
        return jax.vmap(lambda one: learner.predict(meta, one, x))(adapted)

    return jax.jit(both, compiler_options=light())


def _one_task(ax: Any, models: dict[str, Model], predict: dict[str, Any], key: Any, steps: int) -> None:
    first = next(iter(models.values()))
    tasks = first.built.problem.tasks(first.run.experiment.shots, 400)
    support, query = jax.jit(tasks.sample)(tasks.data, key)
    order = np.argsort(np.asarray(query.x)[:, 0])
    x = query.x[order]
    ax.plot(x[:, 0], query.y[order, 0], color="#adb5bd", linewidth=3, label="true curve")
    for color, (name, model) in zip(COLORS, models.items(), strict=False):
        before, after = predict[name](model.metas[0], key, support, x)
        ax.plot(x[:, 0], before[:, 0], color=color, linewidth=1, linestyle=":", label=f"{name} before")
        ax.plot(x[:, 0], after[:, 0], color=color, linewidth=1.6, label=f"{name} after {steps}")
    ax.scatter(support.x[:, 0], support.y[:, 0], color="black", s=16, zorder=3, label="support")


def training(models: dict[str, Model]) -> str:
    """The training loss and the validation score against the step, all seeds."""
    with figure(1, 2, (11, 3.2), sharey=True) as (drawn, axes):
        for color, (name, model) in zip(COLORS, models.items(), strict=False):
            rows = model.run.log()
            for seed in model.run.seeds:
                mine = [row for row in rows if int(row[1]) == seed]
                label = name if seed == model.run.seeds[0] else None
                steps, losses = [int(row[0]) for row in mine], [float(row[2]) for row in mine]
                axes[0, 0].plot(steps, losses, color=color, linewidth=0.8, label=label)
                judged = [(int(row[0]), float(row[4])) for row in mine if row[4]]
                axes[0, 1].plot(*zip(*judged, strict=True) if judged else ([], []), color=color, label=label)
        for ax, title in zip(axes.flat, ("query loss in training", "score on the validation tasks"), strict=True):
            ax.set(xlabel="outer step", title=title, yscale="log")
            ax.legend()
        return svg(drawn)


def inside(report: Report) -> str:
    """Each layer's mask probabilities and T's singular values, sorted."""
    with figure(1, 2, (11, 3.0)) as (drawn, axes):
        for color, layer in zip(COLORS * len(report.layers), report.layers, strict=False):
            for ax, values in zip(axes.flat, (layer.probabilities, layer.singular_values), strict=True):
                if values is not None:
                    ax.plot(
                        np.linspace(0, 1, len(values)),
                        np.sort(values)[::-1],
                        "o-",
                        ms=3,
                        color=color,
                        label=layer.path,
                    )
        titles = ("probability that a task moves a unit", "singular values of T")
        for ax, title in zip(axes.flat, titles, strict=True):
            ax.set(title=title, xlabel="units, sorted")
            if ax.lines:
                ax.legend()
            else:
                ax.text(0.5, 0.5, "this rule has none", ha="center", transform=ax.transAxes)
        axes[0, 0].set_ylim(-0.02, 1.02)
        return svg(drawn)
