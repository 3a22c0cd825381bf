"""The card of an exported model: what it was trained on, how, how well it does, and how it is used."""

from fewstep.experiments import flag
from fewstep.files import JSON
from fewstep.machine.provenance import commit
from fewstep.models import Model
from fewstep.problems import ScoreRow


def card(model: Model, scores: list[ScoreRow], about: dict[str, JSON], names: list[str]) -> str:
    """The card as Markdown."""
    experiment = model.experiment
    parts = [
        f"# {experiment.public_method} on {experiment.public_tasks}",
        "A model that learns a new task from a few examples, meta-trained with fewstep "
        f"{about['fewstep']} (commit {commit() or 'unknown'}).",
        "## Trained on", *_trained_on(model), "## How", *_how(model), *_distilled(about),
        "## How well", *_how_well(scores),
        "## Use", *_use(about, names),
        "## Limits", "Tasks unlike those it was trained on are learned less well, and nothing warns of it. The scores "
        "above are of tasks of the same kind that were held out.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _trained_on(model: Model) -> list[str]:
    own = model.kind.describe(model.problem).get("card")
    return own or [f"`{model.experiment.public_tasks}`, {model.experiment.shots} shots."]


def _how(model: Model) -> list[str]:
    experiment = model.experiment
    options = [f"`{f'{flag(name)} {_words(value)}'.strip()}`" for name, value in experiment.differing().items()]
    seeds = f"{len(model.finite)} seeds, whose answers are averaged" if len(model.finite) > 1 else "one seed"
    text = f"{experiment.public_method}, {model.step:,} outer steps, {model.steps} inner steps, {seeds}."
    return [text + (f" Other than by default: {', '.join(options)}." if options else "")]


def _distilled(about: dict[str, JSON]) -> list[str]:
    """What it loses against the model that it learned from, if it did."""
    known = about.get("distilled")
    if known is None:
        return []
    text = f"It was trained on what {known['teacher']} answers on {known['episodes']:,} episodes of the training tasks."
    return ["## Distilled", f"{text} {known['sentence']}"]


def _words(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else "" if value is True else str(value)


def _plus_minus(row: ScoreRow) -> str:
    return f"± {row.interval95:.2g} " if row.interval95 == row.interval95 else ""


def _how_well(scores: list[ScoreRow]) -> list[str]:
    if not scores:
        return ["Not measured for this export."]
    rows = [
        f"| {row.shots} | {row.inner_steps} | {row.metric} | {row.mean:.4g} {_plus_minus(row)}| {row.n_tasks} |"
        for row in scores
    ]
    covered = [row.coverage90 for row in scores if row.coverage90 is not None]
    more = [f"Of the true values {100 * covered[0]:.0f}% lie in the 90% intervals."] if covered else []
    head = ["| shots | inner steps | score | mean and 95% interval over tasks | tasks |", "|---|---|---|---|---|"]
    return ["\n".join([*head, *rows]), *more]


def _use(about: dict[str, JSON], names: list[str]) -> list[str]:
    if about["format"] != "stablehlo":
        return [f"`{names[0]}` holds the arrays of each seed by path; `description.json` says what belongs to them."]
    code = "from load import Model\nmodel = Model('.')\n"
    code += (
        "model.answers(support_rows, query_rows)   # lists of dicts, in your columns and units; with intervals"
        if about["schema"] else "model.adapt_and_predict(support_x, support_y, x)"
    )  # fmt: skip
    return [f"Needs `jax` and `flatbuffers`, not fewstep:\n\n```python\n{code}\n```"]
