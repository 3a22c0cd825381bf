"""The report of one model or of several side by side: one HTML file that needs nothing else."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.models import Model, adapt, evaluate_model
from fewstep.pages import COLORS, heading, note, page, table
from fewstep.problems import Answer, Plan, Say, ScoreRow, Sketch
from fewstep.reports import plots
from fewstep.reports._practice import practice, verdict_part
from fewstep.reports.evidence import Evidence

_STEPS = (0, 1, 5)


def usual_steps(model: Model) -> tuple[int, ...]:
    """The numbers of inner steps that a model is evaluated after, if no others are asked for."""
    return tuple(sorted({0, 1, model.steps})) if model.problem.held_out is not None else _STEPS


def scores(
    models: dict[str, Model], n_tasks: int | None = None, say: Say = lambda message: None
) -> dict[str, list[ScoreRow]]:
    """The score of each model on unseen tasks of the sizes it was trained on; `n_tasks` of them, if they are drawn."""
    rows = {}
    for name, model in models.items():
        plan = Plan((model.experiment.shots,), n_tasks=n_tasks if model.problem.held_out is None else None)
        rows[name] = evaluate_model(model, plan, steps=usual_steps(model), say=say)
    return rows


def write_report(
    path: Path, models: dict[str, Model], rows: dict[str, list[ScoreRow]], evidence: Evidence | None = None
) -> Path:
    """Writes the report of some models: the verdict and what it stands on, where there is `evidence` of the first of
    them; scores, adapted tasks, training curves."""
    first = next(iter(models.values()))
    steps = max([first.steps, *(row.inner_steps or 0 for some in rows.values() for row in some)])
    parts = [
        heading(f"{' and '.join(models)} on {first.experiment.public_tasks}", 1),
        *([] if evidence is None else verdict_part(evidence)),
        heading("Score on unseen tasks"),
        _scores(rows),
        *([] if evidence is None else practice(first, evidence)),
        *_choice(first),
        *first.kind.draw(first.problem, sketches(models, steps)),
        plots.training(models),
        heading("Settings"), _settings(models),
    ]  # fmt: skip
    write_text(path, page("fewstep report", parts))
    return path


def sketches(models: dict[str, Model], steps: int) -> list[Sketch]:
    """The models as a kind draws them, each in its color."""
    pairs = zip(COLORS, models.items(), strict=False)
    return [
        Sketch(name, color, answering(model), model.experiment.shots, steps if model.built.steps else 0)
        for color, (name, model) in pairs
    ]


def answering(model: Model) -> Any:
    """The function `(support, x, steps=None, ways=None)` that asks a model."""

    def ask(support: Any, x: Any, *, steps: int | None = None, ways: int | None = None) -> Answer:
        return adapt(model, support, steps=steps, ways=ways).answer(x)

    return ask


def _scores(scores: dict[str, list[ScoreRow]]) -> Markup:
    rows = next(iter(scores.values()))
    head = ["", *(f"after {row.inner_steps} steps{_by(row)}" for row in rows)]
    body = [[name, *(_score(row) for row in own)] for name, own in scores.items()]
    first = rows[0]
    size = f"{first.ways} ways and {first.shots} shots" if first.ways else f"{first.shots} shots"
    text = f"{first.metric} on {first.n_tasks} tasks of {size}; ± is the 95% interval over tasks."
    if covered := [row.coverage90 for row in rows if row.coverage90 is not None]:
        text += f" Of the true values {100 * covered[0]:.0f}% lie in the 90% intervals."
    last = rows[-1]
    named = {"logarithmic loss": last.log_loss, "area under the ROC curve": last.auc,
             "expected calibration error": last.ece}  # fmt: skip
    if figures := [f"{text} {value:.3f}" for text, value in named.items() if value is not None]:
        text += f" Of the probabilities after {last.inner_steps} steps: {', '.join(figures)}."
    return table(head, body) + note(text)


def _score(row: ScoreRow) -> str:
    half = row.interval95
    return f"{row.mean:.3f} ± {half:.3f}" if half == half else f"{row.mean:.3f}"


def _by(row: ScoreRow) -> str:
    """Whose statistics a row was normalized by, where that was a choice."""
    return {"transductive": ", statistics of the query", "support": ", of the support"}.get(row.norm or "", "")


def _choice(model: Model) -> list[Markup]:
    """The methods that were tried, the best first, where the model is the best of several."""
    choice = model.choice
    if choice is None:
        return []
    trials = sorted(choice.trials, key=lambda trial: (trial.method != choice.method, trial.error))
    body = [[t.method, f"{t.step:,} of {t.steps:,}", f"{t.error:.4g}"] for t in trials]
    text = "All went a part of the way, the best two on, and the best on the validation tasks is this model."
    return [
        heading("The methods that were tried"), table(["", "outer steps", "error on validation tasks"], body),
        note(text if len(trials) > 2 else "The best on the validation tasks is this model."),
    ]  # fmt: skip


def _settings(models: dict[str, Model]) -> Markup:
    """The settings of each model that are not the defaults, and how far it was trained."""
    body = []
    for name, model in models.items():
        experiment = model.experiment
        settings = {"method": experiment.public_method, "tasks": experiment.public_tasks, **experiment.differing()}
        body.append([name, model.step, ", ".join(f"{key}={value}" for key, value in settings.items())])
    return table(["", "steps", "settings other than the defaults"], body)
