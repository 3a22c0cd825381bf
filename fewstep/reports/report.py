"""The report of one run or of several side by side: one HTML file that needs nothing else."""

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.experiments.learners import trained_ways
from fewstep.experiments.public import public_tasks, settings
from fewstep.files import write_text
from fewstep.inspection import inspect
from fewstep.pages import note, page, table
from fewstep.reports import plots, table_plots
from fewstep.reports.episodes import EXPLANATION, episodes_html, example_episodes
from fewstep.runs.model import Model, evaluate_run
from fewstep.runs.table_model import evaluate_table


def scores(
    models: dict[str, Model],
    steps: tuple[int, ...] = (0, 1, 5),
    n_tasks: int = 600,
    say: Callable[[str], None] = lambda message: None,
) -> dict[str, list[dict[str, Any]]]:
    """The score of each model on fresh tasks of the sizes it was trained on."""
    made = {}
    for name, model in models.items():
        shots = (model.run.experiment.shots,)
        if model.run.experiment.has_table:
            made[name] = evaluate_table(model, shots=shots, steps=tuple(sorted({0, 1, model.inner_steps})), say=say)
        else:
            made[name] = evaluate_run(model, shots=shots, steps=steps, n_tasks=n_tasks)
    return made


def write_report(path: Path, models: dict[str, Model], judged: dict[str, list[dict[str, Any]]]) -> Path:
    """Writes the report of some models: scores, adapted curves, training curves, what each rule has learned."""
    first = next(iter(models.values()))
    steps = max(first.inner_steps, *(row["inner_steps"] for rows in judged.values() for row in rows))
    parts = [
        f"<h1>{html.escape(' and '.join(models))} on {html.escape(public_tasks(first.run.experiment.tasks))}</h1>",
        "<h2>Score on unseen tasks</h2>",
        _scores(judged),
        *_pictures(models, steps),
        "<h2>Training</h2>",
        plots.training(models),
    ]
    for name, model in models.items():
        parts += [f"<h2>Inside {html.escape(name)}</h2>", *_inside(model)]
    parts += ["<h2>Settings</h2>", _settings(models)]
    write_text(path, page("fewstep report", map(Markup, parts)))
    return path


def _pictures(models: dict[str, Model], steps: int) -> list[str]:
    experiment = next(iter(models.values())).run.experiment
    if experiment.has_table:
        told = f"Tasks that were held out, learned from {experiment.shots} rows"
        return [f"<h2>{told}</h2>", table_plots.adapted_tasks(models)]
    return _episodes(models, steps) if experiment.has_images else _curves(models, steps)


def _curves(models: dict[str, Model], steps: int) -> list[str]:
    return [f"<h2>Unseen tasks, before and after {steps} steps</h2>", plots.adaptation(models, steps=steps)]


def _episodes(models: dict[str, Model], steps: int) -> list[str]:
    parts = [f"<h2>Unseen tasks</h2><p>{EXPLANATION}</p>"]
    for name, model in models.items():
        ways, shots = trained_ways(model.run.experiment) or 0, model.run.experiment.shots
        parts += [f"<h3>{html.escape(name)}</h3>", episodes_html(example_episodes(model, ways, shots, steps))]
    return parts


def _scores(judged: dict[str, list[dict[str, Any]]]) -> str:
    rows = next(iter(judged.values()))
    head = ["", *(f"after {row['inner_steps']} steps{_by(row)}" for row in rows)]
    body = [[name, *(_score(row) for row in mine)] for name, mine in judged.items()]
    first = rows[0]
    size = f"{first['ways']} ways and {first['shots']} shots" if "ways" in first else f"{first['shots']} shots"
    text = f"{first['metric']} on {first['n_tasks']} tasks of {size}; ± is the 95% interval over tasks."
    if covered := [row["coverage90"] for row in rows if "coverage90" in row]:
        text += f" Of the true values {100 * covered[0]:.0f}% lie in the 90% intervals."
    if "log_loss" in rows[-1]:
        named = {"log_loss": "logarithmic loss", "auc": "area under the ROC curve", "ece": "expected calibration error"}
        told = [f"{words} {rows[-1][name]:.3f}" for name, words in named.items() if name in rows[-1]]
        text += f" Of the probabilities after {rows[-1]['inner_steps']} steps: {', '.join(told)}."
    return table(head, body) + note(text)


def _score(row: dict[str, Any]) -> str:
    half = row["interval95"]
    return f"{row['mean']:.3f} ± {half:.3f}" if half == half else f"{row['mean']:.3f}"


def _by(row: dict[str, Any]) -> str:
    """Whose statistics a row was normalized by, where that was a choice."""
    return {"transductive": ", statistics of the query", "support": ", of the support"}.get(row.get("norm", ""), "")


def _inside(model: Model) -> list[str]:
    if model.built.rule is None:
        return ["<p>This learner takes no inner steps, and so has neither metric nor mask.</p>"]
    report = inspect(model.built.network.layers, model.metas[0])
    if all(layer.probabilities is None and layer.singular_values is None for layer in report.layers):
        return ["<p>This rule learns neither metric nor mask: a task moves every weight, in the plain metric.</p>"]
    head = ["layer", "width", "updated", "rank of T diag(m) T'", "condition of T"]
    body = [
        [row.path, row.width, f"{row.updated:.3f}", row.rank, "-" if row.condition is None else f"{row.condition:.3g}"]
        for row in report.layers
    ]
    text = (
        f"Expected updated fraction: {report.updated_by_logit:.1%} as the mean over logits, "
        f"{report.updated_by_layer:.1%} as the mean of the layers' means, "
        f"{report.updated_by_parameter:.1%} weighted by parameters."
    )
    return [table(head, body), note(text), plots.inside(report)]


def _settings(models: dict[str, Model]) -> str:
    """The settings of each model that are not the defaults, and how far it was trained."""
    body = []
    for name, model in models.items():
        experiment = model.run.experiment
        given = {"method": experiment.method, "tasks": public_tasks(experiment.tasks), **settings(experiment)}
        body.append([name, model.step, ", ".join(f"{key}={value}" for key, value in given.items())])
    return table(["", "steps", "settings other than the defaults"], body)
