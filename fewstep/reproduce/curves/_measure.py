"""One data set in one split: our methods and the baselines, judged on the same rows of the same held-out tasks."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fewstep.experiments.experiment import Experiment
from fewstep.reports.table_plots import chosen, curve_of, running
from fewstep.reproduce.curves._sets import Entry
from fewstep.runs.memory import fit
from fewstep.tables import Rows, Table, make_table
from fewstep.tables._ensemble import Ensemble
from fewstep.tables._interval import coverage
from fewstep.tables._judge import Answers, ask, draws_of, error
from fewstep.tables.baselines import NAMES, compare

SHOTS = (3, 5, 10)
OURS = {"MT-net": "mtnet", "MT-net + rates": "mtnet+rates", "MAML": "maml", "ridge on learned features": "ridge"}
_LEVEL = 0.9
_DRAWN = 3  # tasks whose curves are kept
Told = dict[str, Any]


def prepared(entry: Entry, split: int) -> Table:
    """The table of a set in one of its splits; tasks too small for the largest support are left out."""
    frame, asked = entry.read()
    names = np.asarray([str(name) for name in frame.column(asked.task or "")], object)
    kinds, counts = np.unique(names.astype(str), return_counts=True)
    enough = np.isin(names.astype(str), kinds[counts > max(SHOTS)])
    return make_table(frame.only(np.flatnonzero(enough)), asked, split_seed=split)


def measure_ours(table: Table, method: str, steps: int, seed: int) -> Told:
    """One of our methods: trained for 3 to 10 points at once, judged at each of these."""
    begin = time.monotonic()
    every = max(1, steps // 20)
    experiment = Experiment(
        method, "table:memory", seed=seed, steps=steps, shots=max(SHOTS), least_shots=min(SHOTS), log_every=every,
        validate_every=every,
    )  # fmt: skip
    fitted = fit(experiment, table.schema, table.parts)
    ensemble, rows = fitted.ensemble(), table.parts["test"]
    told: Told = {"steps": fitted.history[-1][0] if fitted.history else steps, "scores": {}}
    for shots in SHOTS:
        answers = ask(
            ensemble.learner, ensemble.metas, rows, shots=shots, steps=(ensemble.steps,), samples=ensemble.samples,
            draws=draws_of(rows), seed=seed, within=max(SHOTS),
        )  # fmt: skip
        assert ensemble.calibration is not None
        inside = coverage(ensemble.calibration, answers, shots, _LEVEL)
        told["scores"][str(shots)] = _scores(table, answers) | {"coverage90": inside}
    told["curves"] = _curves(ensemble, table.parts["test"])
    return told | {"seconds": time.monotonic() - begin}


def _curves(ensemble: Ensemble, rows: Rows) -> list[Told]:
    """A few held-out tasks after learning from five points, where one column runs along them."""
    along = running(ensemble.schema, rows)
    tasks = range(min(_DRAWN, len(rows.names))) if along is not None else ()
    return [curve_of(ensemble, rows, n, chosen(rows, n, SHOTS[1], 0), along or 0)._asdict() for n in tasks]


def measure_baselines(table: Table, seed: int, say: Callable[[str], None]) -> dict[str, Told]:
    """All baselines."""
    begin = time.monotonic()
    made: dict[str, Told] = {name: {"scores": {}} for name in NAMES}
    for found in compare(table, SHOTS, seed=seed, say=say):
        made[found.name]["scores"][str(found.shots)] = _scores(table, found.answers)
    return {name: told | {"seconds": (time.monotonic() - begin) / len(NAMES)} for name, told in made.items()}


def _scores(table: Table, answers: Answers) -> Told:
    """The error over tasks, and the squared error of each task."""
    (score,) = error(answers.mean, answers, scale=table.schema.target.scale)
    weight = answers.weight
    squared = np.square(table.schema.target.scale * (answers.mean[:, :, 0] - answers.y)).mean(-1)
    by_task = ((squared * weight).sum(-1) / weight.sum(-1)).mean(1)
    return {"rmse": score.mean, "interval95": score.interval95, "by_task": by_task.tolist()}
