"""Figure 2 of the universality paper: more gradient steps at test than in training, in range and out of it."""

import math
from collections.abc import Mapping, Sequence

from fewstep_studies.reproduce._curve_figures import training_curves
from fewstep_studies.reproduce._figure import Figure, Look, keys, lines, rows_of
from fewstep_studies.reproduce._measurement import Measurement, Score, Training, make_row
from fewstep_studies.reproduce._rows import Changes, Row, with_verdicts
from fewstep_studies.reproduce._study import QUICK, Cell, Results, Study, TrainingOptions
from fewstep_studies.reproduce._training import TRAININGS, UNCLIPPED, curve_experiment

STEPS = (0, 1, 5, 10, 20, 50, 100)
IN_RANGE = "in range"
ELSEWHERE = (
    ("amplitude 5 to 10", {"amplitude": (5.0, 10.0)}),
    ("phase pi to 2 pi", {"phase": (math.pi, 2 * math.pi)}),
)
_TASKS: Changes = {
    "frequency": (1.0, 1.0), "shots": 5, "queries": 10, "hidden": (100, 100), "bias_inputs": 10, "init": "he",
    **UNCLIPPED,
}  # fmt: skip
_INNER_LR = 0.001


def cells(options: TrainingOptions) -> list[Cell[Training]]:
    """MAML with five inner steps; the network that is given the task, and takes none in training."""
    plan = {
        "maml": ("MAML", {"inner_steps": 5, "inner_lr": _INNER_LR}),
        "told": ("told the task", {"inner_steps": 0, "inner_lr": _INNER_LR, "conditioned": True}),
    }  # fmt: skip
    experiment = lambda own: curve_experiment(options, "maml", "sinusoid", **_TASKS, **own)
    return [
        Cell(key, label, {}, Training(experiment(own), STEPS, elsewhere=ELSEWHERE))
        for key, (label, own) in plan.items()
    ]


def rows(results: Results[TrainingOptions, Training, Measurement]) -> list[Row]:
    """The error after 5, 50 and 100 steps, in range and out of it."""
    entries = []
    for cell, measurement in results.pairs:
        for where, scores in _places(measurement).items():
            by_steps = {score.inner_steps: score for score in scores}
            for steps in (5, 50, 100):
                setting = {**cell.setting, "inner steps": steps, "tasks": where}
                entries.append(make_row(cell, measurement, by_steps.get(steps), metric="mse", setting=setting))
    return with_verdicts(entries, _claim)


def _claim(row: Row, rows: list[Row]) -> bool | None:
    """After 50 steps MAML's error is not to be above that after 5."""
    if (row.method, row.setting["inner steps"]) != ("MAML", 50) or row.mean is None:
        return None
    five = {**row.setting, "inner steps": 5}
    return all(r.mean is None or row.mean <= r.mean for r in rows if (r.method, r.setting) == ("MAML", five))


def _places(measurement: Measurement) -> Mapping[str, Sequence[Score]]:
    return {IN_RANGE: measurement.scores, **measurement.elsewhere}


def figures(results: Results[TrainingOptions, Training, Measurement]) -> list[Figure]:
    """Error against inner steps, a panel for each kind of tasks."""
    data = [
        (where, cell.label, score.inner_steps, score.mean, score.interval95)
        for cell, measurement in results.pairs
        for where, scores in _places(measurement).items() for score in scores
    ]  # fmt: skip
    look: Look = {"labels": [cell.label for cell, _ in results.pairs], "xscale": "symlog", "yscale": "log"}
    return [
        Figure(
            "more-steps", "Figure 2: more gradient steps",
            "Mean squared error on unseen sine waves against the gradient steps on the same 5 points; trained with 5. "
            "The band is the 95% interval over tasks.",
            [lines(where, rows_of(data, where), "inner steps", **look) for where in keys(data)],
            ("tasks", "network", "inner_steps", "mean", "interval95"), data,
        ),
        training_curves({"5-shot sine waves": [(cell.label, measurement) for cell, measurement in results.pairs]}),
    ]  # fmt: skip


STUDY = Study("more-steps", TRAININGS, cells, rows, figures, full=TrainingOptions(seeds=3, steps=70_000), quick=QUICK)
