"""The pictures of a report that every kind of problem has, as SVG text that stands in the page itself."""

import numpy as np
from markupsafe import Markup

from fewstep.inspection import Report
from fewstep.models import Model
from fewstep.pages import COLORS, figure, svg


def training(models: dict[str, Model]) -> Markup:
    """The training loss and the validation score against the step, all seeds."""
    with figure(1, 2, (11, 3.2), sharey=True) as (drawing, axes):
        for color, (name, model) in zip(COLORS, models.items(), strict=False):
            for seed in model.metas:
                lines = [line for line in model.history if line.seed == seed]
                look = {"color": color, "label": name if seed == next(iter(model.metas)) else None}
                axes[0, 0].plot([line.step for line in lines], [line.loss for line in lines], linewidth=0.8, **look)
                scores = [(line.step, line.validation) for line in lines if line.validation is not None]
                axes[0, 1].plot(*zip(*scores, strict=True) if scores else ([], []), **look)
        for ax, title in zip(axes.flat, ("query loss in training", "score on the validation tasks"), strict=True):
            ax.set(xlabel="outer step", title=title, yscale="log")
            ax.legend()
        return svg(drawing)


def inside(report: Report) -> Markup:
    """Each layer's mask probabilities and T's singular values, sorted."""
    with figure(1, 2, (11, 3.0)) as (drawing, axes):
        for color, layer in zip(COLORS * len(report.layers), report.layers, strict=False):
            for ax, values in zip(axes.flat, (layer.probabilities, layer.singular_values), strict=True):
                if values is not None:
                    at = np.linspace(0, 1, len(values))
                    ax.plot(at, np.sort(values)[::-1], "o-", ms=3, color=color, label=layer.path)
        titles = ("probability that a task moves a unit", "singular values of T")
        for ax, title in zip(axes.flat, titles, strict=True):
            ax.set(title=title, xlabel="units, sorted")
            if ax.lines:
                ax.legend()
            else:
                ax.text(0.5, 0.5, "this rule has none", ha="center", transform=ax.transAxes)
        axes[0, 0].set_ylim(-0.02, 1.02)
        return svg(drawing)
