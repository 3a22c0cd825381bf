"""One data set in one split: our methods and the baselines, evaluated on the same rows of the same held-out tasks."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fewstep.experiments import Experiment, plan_of
from fewstep.models import LEVEL, Model, coverage, fit_table
from fewstep.problems import (
    BASELINES,
    IN_MEMORY,
    Answers,
    Curve,
    Value,
    answer_tasks,
    choose_rows,
    compare,
    curve_of,
    draws_of,
    half_width,
    running,
    score_answers,
)  # fmt: skip
from fewstep.reports import answering
from fewstep.tables import Rows, Table, make_table
from fewstep_studies.reproduce.curves._sets import Entry

SHOTS = (3, 5, 10)
AUTO, TREES = "auto", "boosted trees, features of the support"
OURS = {
    "MT-net": "mtnet", "MT-net + rates": "mtnet+rates", "MAML": "maml", "ridge on learned features": "ridge",
    AUTO: "auto", TREES: "trees",
}  # fmt: skip
_STEPS = 3000  # of a method by default, of which `auto` takes as large a share for each of its own
_DRAWN = 3  # tasks whose curves are kept
_TINY = float(np.finfo(float).eps)


class Comparison(NamedTuple):
    """The plan of a cell: a data set in one of its splits, and a method, or all baselines."""

    set: str
    split: int
    method: str
    length: int = 1
    work: int = 1


class Score(NamedTuple):
    """The error over tasks, and of each: the root of the mean squared error, of each task its square; of classes the
    logarithmic loss. And how often the 90% interval holds the truth, or how often the class is right."""

    error: float | None
    interval95: float | None
    by_task: Sequence[float | None]
    coverage90: float | None = None
    accuracy: float | None = None


class Scores(NamedTuple):
    """A method's scores by the number of points, as text; `curves` are a few held-out tasks, learned, and `members` the
    scores of each method that it is made of, alone."""

    by_shots: Mapping[str, Score]
    seconds: float
    steps: int | None = None
    curves: Sequence[Curve] = ()
    members: Mapping[str, Mapping[str, Score]] = {}


def prepared(entry: Entry, split: int) -> Table:
    """The table of a set in one of its splits; tasks too small for the largest support are left out."""
    frame, roles = entry.read()
    names = np.asarray([str(name) for name in frame.column(roles.task or "")], object)
    kinds, counts = np.unique(names.astype(str), return_counts=True)
    enough = np.isin(names.astype(str), kinds[counts > max(SHOTS)])
    return make_table(frame.only(np.flatnonzero(enough)), roles, split_seed=split)


def measure_ours(table: Table, method: str, steps: int, seed: int) -> Scores:
    """One of our methods: trained for 3 to 10 points at once, evaluated at each of these."""
    begin = time.monotonic()
    experiment = _experiment(method, steps, seed, table)
    model, history, _ = fit_table(experiment, table)
    seconds = time.monotonic() - begin
    members = {name: _by_shots(part, table, seed) for name, part in model.parts.items()}
    reached = history[-1][0] if history else None
    return Scores(_by_shots(model, table, seed), seconds, reached, _curves(model, table.parts["test"]), members)


def _experiment(method: str, steps: int, seed: int, table: Table) -> Experiment:
    every = max(1, steps // 20)
    options: dict[str, Value] = {
        "seed": seed, "shots": max(SHOTS), "min_shots": min(SHOTS), "log_every": every, "validate_every": every,
        "patience": 0, "effort": steps / _STEPS, "schema": table.schema.to_dict(),
    }  # fmt: skip
    applies = {field.name for _, field in plan_of(method, IN_MEMORY, options).fields()}
    options |= {"steps": steps} if "outer_lr" in applies else {}
    return Experiment(method, IN_MEMORY, **{name: value for name, value in options.items() if name in applies})


def _by_shots(model: Model, table: Table, seed: int) -> dict[str, Score]:
    """The scores of a model on the test tasks; only a calibrated one has intervals."""
    scores, rows = {}, table.parts["test"]
    for shots in SHOTS:
        answers = answer_tasks(
            model.learner(), tuple(model.finite.values()), rows, shots=shots, steps=(model.steps,),
            samples=model.samples, draws=draws_of(rows), classes=model.problem.classes, seed=seed, within=max(SHOTS),
        )  # fmt: skip
        known = model.calibration
        if known is not None and model.problem.classes:
            answers = answers._replace(mean=known.probabilities(answers.mean, shots))
        score = _score(table, answers)
        if known is not None and not model.problem.classes:
            score = score._replace(coverage90=coverage(known, answers, shots, LEVEL))
        scores[str(shots)] = score
    return scores


def _curves(model: Model, rows: Rows) -> list[Curve]:
    """A few held-out tasks after learning from five points, where one column runs along them."""
    schema = model.problem.details.schema
    along = running(schema, rows)
    tasks = range(min(_DRAWN, len(rows.names))) if along is not None else ()
    ask, support = answering(model), [choose_rows(rows, n, SHOTS[1], 0) for n in tasks]
    return [curve_of(ask, schema, rows, n, support[n], along or 0) for n in tasks]


def measure_baselines(table: Table, seed: int, say: Callable[[str], None]) -> dict[str, Scores]:
    """All baselines."""
    begin = time.monotonic()
    scores: dict[str, dict[str, Score]] = {}
    for baseline in compare(table, SHOTS, seed=seed, say=say, names=BASELINES):
        scores.setdefault(baseline.name, {})[str(baseline.shots)] = _score(table, baseline.answers)
    seconds = (time.monotonic() - begin) / len(scores)
    return {name: Scores(by_shots, seconds) for name, by_shots in scores.items()}


def _score(table: Table, answers: Answers) -> Score:
    classes, scale, weight = bool(table.schema.classes), table.schema.target.scale, answers.weight
    (score,) = score_answers(answers.mean, answers, scale=scale, classes=classes)
    if classes:
        own = np.take_along_axis(answers.mean[:, :, 0], answers.y.astype(int)[..., None], axis=-1)[..., 0]
        each = -np.log(np.maximum(own, _TINY))
    else:
        each = np.square(scale * (answers.mean[:, :, 0] - answers.y)).mean(-1)
    by_task = ((each * weight).sum(-1) / weight.sum(-1)).mean(1)
    if not classes:
        return Score(score.mean, score.interval95, by_task.tolist())
    return Score(float(by_task.mean()), half_width(by_task), by_task.tolist(), accuracy=score.mean)
