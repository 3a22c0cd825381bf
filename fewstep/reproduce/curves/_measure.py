"""One data set in one split: our methods and the baselines, evaluated on the same rows of the same held-out tasks."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fewstep.experiments import Experiment
from fewstep.models import LEVEL, Model, coverage, fit_table
from fewstep.problems import (
    BASELINES,
    IN_MEMORY,
    Answers,
    Curve,
    answer_tasks,
    choose_rows,
    compare,
    curve_of,
    draws_of,
    running,
    score_answers,
)  # fmt: skip
from fewstep.reports import answering
from fewstep.reproduce.curves._sets import Entry
from fewstep.tables import Rows, Table, make_table

SHOTS = (3, 5, 10)
OURS = {"MT-net": "mtnet", "MT-net + rates": "mtnet+rates", "MAML": "maml", "ridge on learned features": "ridge"}
_DRAWN = 3  # tasks whose curves are kept


class Comparison(NamedTuple):
    """The plan of a cell: a data set in one of its splits, and a method, or all baselines."""

    set: str
    split: int
    method: str
    length: int = 1
    work: int = 1


class Score(NamedTuple):
    """The error over tasks, the squared error of each, and how often the 90% interval holds the truth."""

    rmse: float | None
    interval95: float | None
    by_task: Sequence[float | None]
    coverage90: float | None = None


class Scores(NamedTuple):
    """A method's scores by the number of points, as text; `curves` are a few held-out tasks, learned."""

    by_shots: Mapping[str, Score]
    seconds: float
    steps: int | None = None
    curves: Sequence[Curve] = ()


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
    every = max(1, steps // 20)
    experiment = Experiment(
        method, IN_MEMORY, seed=seed, steps=steps, shots=max(SHOTS), min_shots=min(SHOTS), log_every=every,
        validate_every=every, patience=0, schema=table.schema.to_dict(),
    )  # fmt: skip
    model, history, _ = fit_table(experiment, table)
    rows, scores = table.parts["test"], {}
    for shots in SHOTS:
        answers = answer_tasks(
            model.learner(), tuple(model.finite.values()), rows, shots=shots, steps=(model.steps,),
            samples=model.samples, draws=draws_of(rows), seed=seed, within=max(SHOTS),
        )  # fmt: skip
        assert model.calibration is not None
        inside = coverage(model.calibration, answers, shots, LEVEL)
        scores[str(shots)] = _score(table, answers)._replace(coverage90=inside)
    return Scores(scores, time.monotonic() - begin, history[-1][0] if history else steps, _curves(model, rows))


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
    scores: dict[str, dict[str, Score]] = {name: {} for name in BASELINES}
    for found in compare(table, SHOTS, seed=seed, say=say):
        scores[found.name][str(found.shots)] = _score(table, found.answers)
    seconds = (time.monotonic() - begin) / len(BASELINES)
    return {name: Scores(by_shots, seconds) for name, by_shots in scores.items()}


def _score(table: Table, answers: Answers) -> Score:
    (score,) = score_answers(answers.mean, answers, scale=table.schema.target.scale)
    weight = answers.weight
    squared = np.square(table.schema.target.scale * (answers.mean[:, :, 0] - answers.y)).mean(-1)
    by_task = ((squared * weight).sum(-1) / weight.sum(-1)).mean(1)
    return Score(score.mean, score.interval95, by_task.tolist())
