"""What a report for practitioners stands on: a model and a pooled one on the same held-out tasks, at several sizes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fewstep.models import Model, Pooled, Verdict, evaluate_held_out, pooled_of, verdicts_of
from fewstep.problems import Answers, Plan, Say, ScoreRow, score_answers, task_errors

SHOTS = (1, 2, 3, 5, 10, 20)
POOLED = "pooled model"

Curve = Sequence[tuple[int, float]]


class Evidence(NamedTuple):
    """What was measured of a model on its held-out test tasks.

    `answers` and `pooled` are on the same draws, of `shots` rows; nothing is pooled where the kind has no such model.
    `curves` are scores by the number of rows learned from, by name, the model's first. `names` are those of the tasks.
    """

    rows: list[ScoreRow]
    shots: int
    names: tuple[str, ...]
    answers: Answers
    pooled: Answers | None
    verdict: Verdict | None
    curves: dict[str, Curve]

    def errors(self, model: Model) -> tuple[np.ndarray, np.ndarray | None]:
        """The error of each task of the model and of the pooled one: the root of the mean square, or the log loss."""
        classes = model.problem.classes
        shown = lambda some: task_errors(some, scale=model.problem.scale, classes=classes) ** (1.0 if classes else 0.5)
        own = self.answers
        if classes and model.calibration is not None:
            own = own._replace(mean=model.calibration.probabilities(own.mean, self.shots))
        return shown(own), None if self.pooled is None else shown(self.pooled)


def gather(
    model: Model, steps: tuple[int, ...], *, name: str = "", say: Say = lambda message: None,
    pooled: Pooled | None = None, curves: Mapping[str, Curve] | None = None,
) -> Evidence | None:  # fmt: skip
    """Evaluates a model for a report; `None` where its tasks are drawn anew, and are no list.

    **Arguments:** `pooled(plan)` gives the answers, by the number of shots, of a model that does not learn from a task;
    by default `models.pooled_of`. `curves` are scores of more models by the number of rows learned from, beside those
    of the members of a portfolio.
    """
    if model.problem.held_out is None:
        return None
    pooled = pooled or pooled_of(model)
    tasks, shots = model.problem.held_out("test"), model.experiment.shots
    plan = Plan((shots,))
    found = evaluate_held_out(model, plan, steps=steps, say=say)
    if pooled is not None:
        say("Comparing with a pooled model, which does not learn from a task.")
    other = {} if pooled is None else pooled(plan)
    verdicts = verdicts_of(model, found, other) if other else []
    far = Plan(tuple(n for n in sorted({*SHOTS, shots}) if n <= max(shots, int(tasks.counts.min()) * 2 // 3)))
    own = evaluate_held_out(model, far, steps=(model.steps,), say=say)
    drawn: dict[str, Curve] = {name or model.experiment.public_method: _scores(model, own.answers)}
    for member, part in model.parts.items():
        say(f"Evaluating the member {member}.")
        drawn[member] = _scores(part, evaluate_held_out(part, far, steps=(part.steps,)).answers)
    if pooled is not None and other:
        drawn[POOLED] = _scores(model, pooled(far))
    return Evidence(
        found.rows, shots, tasks.names[: len(found.answers[shots].mean)], found.answers[shots], other.get(shots),
        verdicts[0] if verdicts else None, drawn | dict(curves or {}),
    )  # fmt: skip


def _scores(model: Model, answers: Mapping[int, Answers]) -> Curve:
    score = lambda some: score_answers(some.mean, some, scale=model.problem.scale, classes=model.problem.classes)[0]
    return [(shots, score(some).mean) for shots, some in answers.items()]
