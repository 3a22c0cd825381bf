"""The pictures of a report that every kind of problem has, as SVG text that stands in the page itself."""

import numpy as np
from markupsafe import Markup

from fewstep.inspection import Report
from fewstep.models import Model
from fewstep.pages import COLORS, figure, panels, svg

_SIZE = (4.4, 3.0)


def training(models: dict[str, Model]) -> Markup:
    """The training loss and the validation score against the step, all seeds; nothing if none was trained by steps."""
    if not any(line.loss is not None for model in models.values() for line in model.history):
        return Markup("")
    titles = ("query loss in training", "score on the validation tasks")
    drawings = [_curves(models, title, validation=bool(number)) for number, title in enumerate(titles)]
    return panels("training", "Training", drawings, "A line for each seed, against the outer step.")


def _curves(models: dict[str, Model], title: str, *, validation: bool) -> Markup:
    with figure(1, 1, _SIZE) as (drawing, axes):
        ax = axes[0, 0]
        for color, (name, model) in zip(COLORS, models.items(), strict=False):
            for seed in model.metas:
                own = [line for line in model.history if line.seed == seed]
                pairs = [(line.step, line.validation if validation else line.loss) for line in own]
                points = [(step, value) for step, value in pairs if value is not None]
                label = name if seed == next(iter(model.metas)) else None
                ax.plot(*zip(*points, strict=True) if points else ([], []), color=color, linewidth=0.8, label=label)
        ax.set(xlabel="outer step", title=title, yscale="log")
        ax.legend()
        return svg(drawing, f"The {title} against the outer step")


def inside(report: Report) -> list[Markup]:
    """Each layer's mask probabilities and T's singular values, sorted; without what the rule does not have."""
    titles = {
        "probabilities": "probability that a task moves a unit",
        "singular_values": "singular values of T",
    }
    return [
        _sorted(report, name, title) for name, title in titles.items()
        if any(getattr(layer, name) is not None for layer in report.layers)
    ]  # fmt: skip


def _sorted(report: Report, name: str, title: str) -> Markup:
    with figure(1, 1, _SIZE) as (drawing, axes):
        ax = axes[0, 0]
        for color, layer in zip(COLORS * len(report.layers), report.layers, strict=False):
            if (values := getattr(layer, name)) is not None:
                at = np.linspace(0, 1, len(values))
                ax.plot(at, np.sort(values)[::-1], "o-", ms=3, color=color, label=layer.path)
        ax.set(title=title, xlabel="units, sorted")
        if name == "probabilities":
            ax.set_ylim(-0.02, 1.02)
        ax.legend()
        return svg(drawing, f"The {title}, sorted, for each layer")
