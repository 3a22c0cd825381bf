"""A run on a table: judged on tasks that were held out, calibrated, and ready to learn the next task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import read_json, write_json
from fewstep.problems.tables import read_table
from fewstep.runs.model import Model, check_numbers
from fewstep.tables import Rows, Schema, check_sizes
from fewstep.tables._ensemble import Ensemble
from fewstep.tables._interval import Calibration, coverage
from fewstep.tables._judge import Answers, ask, draws_of, error
from fewstep.tables._probability import class_scores
from fewstep.tables.baselines import compare

LEVEL = 0.9


def ensemble_of(model: Model) -> Ensemble:
    """The ensemble of a run's seeds, calibrated if the run is, and if it is used as it was then."""
    schema = schema_of(model)
    metas = tuple(model.whole.values())
    if not metas:
        raise FewstepError(f"Every seed of {model.run.path} has diverged. Train again with a smaller `inner_lr`.")
    told = read_json(_calibration(model.run.path)) if model.usual else None
    known = Calibration.from_dict(told) if told else None
    return Ensemble(model.built.learner, metas, model.inner_steps, model.built.samples, schema, known)


def schema_of(model: Model) -> Schema:
    """The columns of a run's table."""
    schema = model.built.problem.schema
    if schema is None:
        raise FewstepError(f"{model.run.path} was not trained on a table.")
    return schema


def calibrate_run(model: Model) -> Ensemble:
    """Calibrates a run's intervals or probabilities on its validation tasks, and keeps that with the run."""
    made, _ = ensemble_of(model).calibrated(_rows(model, "validation"), model.run.experiment.shots)
    if made.calibration is not None:
        write_json(_calibration(model.run.path), made.calibration.to_dict())
    return made


def _calibration(run: Path) -> Path:
    return run / "calibration.json"


def evaluate_table(
    model: Model,
    *,
    shots: tuple[int, ...],
    steps: tuple[int, ...],
    split: str = "test",
    seed: int = 0,
    say: Callable[[str], None] = lambda message: None,
) -> list[dict[str, Any]]:
    """One row for each number of shots and steps: the root of the mean squared error over held-out tasks, in the
    target's unit, or the accuracy with the scores of the probabilities. The seeds answer together; `seed_std` is that
    of each alone.

    Every task is learned several times, each time from other rows, and judged on all its others.
    """
    check_numbers(shots, steps)
    ensemble, rows, made = ensemble_of(model), _rows(model, split), []
    asked = steps if model.built.steps else (0,)
    check_sizes(rows, max(shots), split)
    for number in shots:
        say(f"Judging {len(rows.names)} {split} tasks at {number} shots.")
        answers = ask(
            ensemble.learner, ensemble.metas, rows, shots=number, steps=asked, draws=draws_of(rows),
            samples=ensemble.samples, classes=bool(ensemble.schema.classes), seed=seed, within=max(shots),
        )  # fmt: skip
        made += [
            {"split": split, "shots": number, "inner_steps": count, **told}
            for count, told in zip(asked, _scores(ensemble, answers, asked, number), strict=True)
        ]
    return made


def baseline_rows(
    model: Model, *, shots: tuple[int, ...], seed: int = 0, say: Callable[[str], None] = lambda message: None
) -> dict[str, list[dict[str, Any]]]:
    """The scores of the baselines, fitted to the run's training tasks and judged on its test tasks: the same draws and
    rows as the run's."""
    whole = read_table(model.run.experiment)
    classes = bool(whole.schema.classes)
    made: dict[str, list[dict[str, Any]]] = {}
    for found in compare(whole, shots, seed=seed, say=say):
        made.setdefault(found.name, []).append({
            "split": "test", "shots": found.shots, "inner_steps": None, "metric": "accuracy" if classes else "rmse",
            "mean": found.score.mean, "interval95": found.score.interval95, "n_tasks": found.score.n_tasks,
            **(class_scores(found.answers.mean[:, :, 0], found.answers) if classes else {}),
        })  # fmt: skip
    return made


def _rows(model: Model, split: str) -> Rows:
    assert model.built.problem.rows is not None
    return model.built.problem.rows(split)


def _scores(ensemble: Ensemble, answers: Answers, steps: tuple[int, ...], shots: int) -> list[dict[str, Any]]:
    schema, classes = ensemble.schema, bool(ensemble.schema.classes)
    size: dict[str, Any] = {"scale": schema.target.scale, "classes": classes}
    together = error(answers.mean, answers, **size)
    alone = [error(member, answers, **size) for member in answers.members]
    made = []
    for number, (count, score) in enumerate(zip(steps, together, strict=True)):
        row: dict[str, Any] = {
            "metric": "accuracy" if classes else "rmse", "mean": score.mean, "interval95": score.interval95,
            "n_tasks": score.n_tasks, "seeds": len(alone),
        }  # fmt: skip
        if len(alone) > 1:
            row["seed_std"] = float(np.std([of[number].mean for of in alone], ddof=1))
        known = ensemble.calibration if count == ensemble.steps else None
        if classes:
            probabilities = answers.mean[:, :, number]
            row |= class_scores(known.probabilities(probabilities, shots) if known else probabilities, answers)
        elif known is not None:
            taken = answers._replace(
                mean=answers.mean[:, :, number : number + 1], spread=answers.spread[:, :, number : number + 1]
            )
            row["coverage90"] = coverage(known, taken, shots, LEVEL)
        made.append(row)
    return made
