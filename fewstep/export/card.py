"""The card of an exported model: what it was trained on, how, how well it does, and how it is used."""

from typing import Any

from fewstep.experiments.experiment import flag
from fewstep.experiments.public import public_tasks, settings
from fewstep.machine.provenance import commit
from fewstep.runs.model import Model


def card(model: Model, scores: list[dict[str, Any]], about: dict[str, Any], names: list[str]) -> str:
    """The card as Markdown."""
    experiment = model.run.experiment
    parts = [
        f"# {experiment.method} on {public_tasks(experiment.tasks)}",
        "A model that learns a new task from a few examples, meta-trained with fewstep "
        f"{about['fewstep']} (commit {commit() or 'unknown'}).",
        "## Trained on", *_trained_on(model), "## How", *_how(model), "## How well", *_how_well(scores),
        "## Use", *_use(about, names),
        "## Limits", "Tasks unlike those it was trained on are learned less well, and nothing warns of it. The scores "
        "above are of tasks of the same kind that were held out.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _trained_on(model: Model) -> list[str]:
    schema, experiment = model.built.problem.schema, model.run.experiment
    if schema is None:
        return [f"`{public_tasks(experiment.tasks)}`, {experiment.shots} shots."]
    tasks = experiment.classes or {}
    rows = [f"| {column.name} | {column.kind} | {_values(column)} |" for column in (*schema.features, schema.target)]
    told = f"{len(tasks.get('train', ()))} tasks of a table, one for each `{schema.task}`; "
    told += f"{len(tasks.get('validation', ()))} to validate and calibrate on, {len(tasks.get('test', ()))} to judge. "
    told += f"The target is `{schema.target.name}`."
    return [told, "\n".join(["| column | kind | in training |", "|---|---|---|", *rows])]


def _values(column: Any) -> str:
    if column.kind == "category":
        return ", ".join(column.categories)
    return f"{column.mean:.4g} ± {column.scale:.4g}"


def _how(model: Model) -> list[str]:
    experiment = model.run.experiment
    given = [f"`{f'{flag(name)} {_given(value)}'.strip()}`" for name, value in settings(experiment).items()]
    seeds = f"{len(model.whole)} seeds, whose answers are averaged" if len(model.whole) > 1 else "one seed"
    told = f"{experiment.method}, {model.step:,} outer steps, {model.inner_steps} inner steps, {seeds}."
    return [told + (f" Other than by default: {', '.join(given)}." if given else "")]


def _given(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else "" if value is True else str(value)


def _plus_minus(row: dict[str, Any]) -> str:
    return f"± {row['interval95']:.2g} " if row["interval95"] == row["interval95"] else ""


def _how_well(scores: list[dict[str, Any]]) -> list[str]:
    if not scores:
        return ["Not measured for this export."]
    rows = [
        f"| {row['shots']} | {row['inner_steps']} | {row['metric']} | {row['mean']:.4g} {_plus_minus(row)}| "
        f"{row['n_tasks']} |" for row in scores
    ]  # fmt: skip
    covered = [row["coverage90"] for row in scores if "coverage90" in row]
    more = [f"Of the true values {100 * covered[0]:.0f} % lie in the 90 % intervals."] if covered else []
    head = ["| shots | inner steps | score | mean and 95 % interval over tasks | tasks |", "|---|---|---|---|---|"]
    return ["\n".join([*head, *rows]), *more]


def _use(about: dict[str, Any], names: list[str]) -> list[str]:
    if about["format"] != "stablehlo":
        return [f"`{names[0]}` holds the arrays of each seed by path; `description.json` tells what belongs to them."]
    code = "from load import Model\nmodel = Model('.')\n"
    code += (
        "model.answers(known_rows, asked_rows)   # lists of dicts, in your columns and units"
        if about["schema"] else "model.adapt_and_predict(support_x, support_y, x)"
    )  # fmt: skip
    return [f"Needs `jax` and `flatbuffers`, not fewstep:\n\n```python\n{code}\n```"]
