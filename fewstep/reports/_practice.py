"""The parts of a report that a practitioner asks for first: is it any good, from how many rows, where, how sure."""

import numpy as np
from markupsafe import Markup

from fewstep.models import LEVEL, Model, coverage_by_task
from fewstep.pages import COLORS, beside, figure, heading, note, panels, paragraph, svg, table
from fewstep.problems import class_scores, reliability
from fewstep.reports.evidence import POOLED, Evidence

_SIZE = (4.4, 3.1)
_TASKS = 25  # in one picture
_FEW = 4  # curves whose legend fits into the picture
_LOOKS = (("-", "o"), (":", "s"), ("-.", "^"))  # of lines that share a color
_GRAY = "#868e96"


def practice(model: Model, evidence: Evidence) -> list[Markup]:
    """Error by number of rows, error by task, and how sure the model may be."""
    parts = [_by_rows(model, evidence), _by_task(model, evidence), *_how_sure(model, evidence)]
    return [beside(parts), *mixture(model)]


def verdict_part(evidence: Evidence) -> list[Markup]:
    """The verdict, as a warning where the model does not help."""
    if evidence.verdict is None:
        return []
    return [paragraph(evidence.verdict.sentence, "verdict" if evidence.verdict.decision == "use" else "mark")]


def _by_rows(model: Model, evidence: Evidence) -> Markup:
    """The score against the number of rows learned from, of the model, the pooled one and others."""
    with figure(1, 1, (5.2, 3.3)) as (drawing, axes):
        ax = axes[0, 0]
        for number, (name, curve) in enumerate(evidence.curves.items()):
            pooled = name == POOLED
            color = _GRAY if pooled else COLORS[number % len(COLORS)]
            line, marker = ("--", "o") if pooled else _LOOKS[number // len(COLORS) % len(_LOOKS)]
            look = {"linestyle": line, "linewidth": 2.4 if number == 0 else 1.0, "color": color, "marker": marker}
            ax.plot(*zip(*curve, strict=True), ms=3.5, label=name, zorder=3 if number == 0 else 2, **look)
        ticks = sorted({shots for curve in evidence.curves.values() for shots, _ in curve})
        ax.set(xscale="log", xlabel="rows learned from", ylabel=_metric(model))
        ax.set_xticks(ticks, [str(n) for n in ticks])
        ax.minorticks_off()
        beside_it = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(evidence.curves) > _FEW else {}
        ax.legend(**beside_it)
        picture = svg(drawing, f"{_metric(model)} against the number of rows learned from")
    most = max(ticks)
    text = f"{_metric(model).capitalize()} on {len(evidence.names)} held-out tasks"
    text += f", evaluated on the rows that are left when {most} of each task are set apart." if most > 1 else "."
    return panels("error-by-rows", "How many rows does it take?", [picture], text)


def mixture(model: Model) -> list[Markup]:
    """The weights of the members of a portfolio, those that have any, by the number of rows learned from."""
    if not model.weights:
        return []
    sizes, names = list(model.weights), list(model.parts)
    share = lambda name, size: f"{model.weights[size][name]:.0%}" if model.weights[size][name] >= 0.005 else ""
    used = sorted(names, key=lambda name: -max(model.weights[size][name] for size in sizes))
    body = [[name, *(share(name, size) for size in sizes)] for name in used if any(share(name, n) for n in sizes)]
    idle = [name for name in names if name not in [row[0] for row in body]]
    text = "The part that each method has in the answer, by the number of rows learned from."
    return [
        heading("What the answer is made of"),
        table(["", *(f"{size} row{'s' * (size > 1)}" for size in sizes)], body),
        note(text + (f" No part in it: {', '.join(idle)}." if idle else "")),
    ]


def _metric(model: Model) -> str:
    return "accuracy" if model.problem.classes else "error"


def _by_task(model: Model, evidence: Evidence) -> Markup:
    """The error of each task, worst first, beside that of the pooled model."""
    own, pooled = evidence.errors(model)
    order = np.argsort(-own, kind="stable")
    shown = order[:_TASKS]
    with figure(1, 1, (_SIZE[0], 0.9 + 0.2 * len(shown))) as (drawing, axes):
        ax, at = axes[0, 0], np.arange(len(shown))
        if pooled is not None:
            ax.hlines(at, own[shown], pooled[shown], color="#ced4da", linewidth=1)
            ax.plot(pooled[shown], at, "s", ms=4, color=_GRAY, label=POOLED)
        ax.plot(own[shown], at, "o", ms=5, color=COLORS[0], label="this model")
        ax.set_yticks(at, [_short(evidence.names[n]) for n in shown])
        ax.set(xlabel="log loss" if model.problem.classes else "error", ylim=(len(shown) - 0.5, -0.5))
        ax.legend()
        picture = svg(drawing, "The error of each held-out task, the worst first")
    text = f"The {len(shown)} worst of {len(own)} held-out tasks" if len(shown) < len(own) else "Each held-out task"
    text += (
        f", learned from {evidence.shots} rows, the worst first: {evidence.names[order[0]]} with {own[order[0]]:.3g}"
    )
    text += f"; the median task has {np.median(own):.3g}."
    return panels("error-by-task", "Which tasks are hard?", [picture], text)


def _how_sure(model: Model, evidence: Evidence) -> list[Markup]:
    known = model.calibration
    if model.problem.classes:
        shares = evidence.answers.mean[:, :, 0]
        return [_reliability(evidence, shares if known is None else known.probabilities(shares, evidence.shots))]
    return (
        [] if known is None else [_coverage(evidence, coverage_by_task(known, evidence.answers, evidence.shots, LEVEL))]
    )


def _coverage(evidence: Evidence, shares: np.ndarray) -> Markup:
    """The share of each task's values inside its intervals."""
    order = np.argsort(shares, kind="stable")
    with figure(1, 1, _SIZE) as (drawing, axes):
        ax = axes[0, 0]
        ax.axhline(90, color=_GRAY, linewidth=1, linestyle="--", label="90%")
        ax.plot(np.arange(len(shares)) + 1, 100 * shares[order], "o", ms=4, color=COLORS[0], label="a task")
        ax.set(xlabel="held-out tasks, sorted", ylabel="true values inside, in %")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_ylim(min(50.0, 100 * float(shares.min()) - 2), 101)
        ax.legend(loc="lower right")
        picture = svg(drawing, "The share of true values inside the 90% interval, task by task")
    text = (
        f"Of the true values {shares.mean():.0%} lie inside the 90% intervals, all tasks counting alike; on the tenth "
        f"of the tasks where they hold worst, {np.quantile(shares, 0.1):.0%} or less; lowest on "
        f"{evidence.names[order[0]]}, with {shares[order[0]]:.0%}."
    )
    return panels("coverage", "How far can the intervals be trusted?", [picture], text)


def _reliability(evidence: Evidence, probabilities: np.ndarray) -> Markup:
    """Confidence beside accuracy."""
    bins, scores = reliability(probabilities, evidence.answers), class_scores(probabilities, evidence.answers)
    with figure(1, 1, (_SIZE[0], 3.6)) as (drawing, axes):
        ax = axes[0, 0]
        ax.plot([0, 100], [0, 100], color=_GRAY, linewidth=1, linestyle="--", label="right as often as sure")
        sizes = [20 + 300 * each.share for each in bins]
        x, y = ([100 * getattr(each, name) for each in bins] for name in ("confidence", "accuracy"))
        ax.plot(x, y, color=COLORS[0], linewidth=1)
        ax.scatter(x, y, sizes, color=COLORS[0], alpha=0.7, label="rows by confidence")
        low = min([50.0, *x, *y]) - 5
        ax.set(xlabel="confidence, in %", ylabel="right, in %", xlim=(low, 103), ylim=(low, 103))
        ax.legend(loc="upper left")
        picture = svg(drawing, "How often the predicted class is right, against the confidence in it")
    text = "The confidence in the predicted class, and how often it is right; larger points stand for more rows."
    text += f" Expected calibration error {scores['ece']:.3f}, log loss {scores['log_loss']:.3f}"
    text += f", area under the ROC curve {scores['auc']:.3f}." if "auc" in scores else "."
    return panels("reliability", "How far can the probabilities be trusted?", [picture], text)


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
