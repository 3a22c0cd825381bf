"""The reference of a verdict: the better of two models that do not learn from a task, a network and boosted trees.

Which is better, the validation tasks say: a model must not look good because its reference is of the wrong kind.
"""

from collections.abc import Sequence

import numpy as np

from fewstep.problems._baselines import OF_POOLED, Baseline, answer, fitted
from fewstep.problems._held_out import Answers
from fewstep.problems._probability import best_temperature, task_errors, tempered
from fewstep.tables import Table, large_enough


def answer_pooled(of: Table, shots: Sequence[int], part: str = "test", seed: int = 0) -> dict[int, Answers]:
    """What the pooled model answers on the tasks of a part of a table, by the number of shots: it learns from none, but
    the draws are those of a run. Its probabilities are calibrated on the validation tasks, as a run's are."""
    within = max(shots)
    baseline, temperature = _best(of, within, seed)
    rows = large_enough(of.parts[part], within, part)  # those that the run is evaluated on
    answers = answer(of, baseline, rows, within, within, seed)  # alike for every number of rows
    if temperature is not None:
        answers = answers._replace(mean=tempered(answers.mean, temperature))
    return dict.fromkeys(shots, answers)


def _best(of: Table, within: int, seed: int) -> tuple[Baseline, float | None]:
    """The pooled model of the smaller error on the validation tasks; of classes with its temperature."""
    rows, tried = of.parts["validation"], []
    few = max(1, min(within, int(rows.counts.min()) - 1))
    for name in OF_POOLED:
        baseline, temperature = fitted(of, seed).get(name, within, within), None
        answers = answer(of, baseline, rows, few, few, seed)
        if of.schema.classes:
            temperature = best_temperature(answers)
            answers = answers._replace(mean=tempered(answers.mean, temperature))
        error = float(task_errors(answers, classes=bool(of.schema.classes)).mean())
        tried.append((error if np.isfinite(error) else np.inf, baseline, temperature))
    _, baseline, temperature = min(tried, key=lambda each: each[0])
    return baseline, temperature
