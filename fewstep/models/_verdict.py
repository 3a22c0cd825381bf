"""Whether learning from a task's rows pays: a model beside one that does not learn from the task, on the same draws."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np

from fewstep.files import JSON
from fewstep.problems import Answers, task_errors

Decision = Literal["use", "pooled", "undecided"]
_WORTH = 0.01  # a gain that is surely smaller than this is none


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How much better a model is for what it learned from so many rows of a task.

    `error` is the model's on the held-out tasks and `pooled` that of the reference, in the target's unit, or the log
    loss of classes. `improvement` is relative to the reference, with its paired 95% interval from `low` to `high`;
    `better` counts the tasks on which the model is ahead, or the groups, where tasks are held out in so many `groups`.
    `accuracy` of classes is of the model and of the reference.
    """

    shots: int
    metric: str
    error: float
    pooled: float
    improvement: float
    low: float
    high: float
    better: int
    tasks: int
    decision: Decision
    accuracy: tuple[float, float] | None = None
    diverged: int = 0
    groups: int = 0

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        rows = "1 row" if self.shots == 1 else f"{self.shots} rows"
        if self.diverged:
            return f"Learning from {rows} diverges on {self.diverged} of {_tasks(self.tasks)}: use the pooled model."
        error = f"Learning from {rows}: {self.metric} {self.error:.3g}"
        if self.accuracy is not None:
            error += " (accuracy {:.0%}, pooled {:.0%})".format(*self.accuracy)
        ahead = f"better on {self.better} of {_tasks(self.groups, 'group') if self.groups else _tasks(self.tasks)}"
        if self.decision == "use":
            gain = f"{_percent(self.improvement)} better than a pooled model ({_span(self.low, self.high)})"
            return f"{error}, {gain}, {ahead}: use it."
        if self.decision == "pooled":
            against = "no better than" if self.high > 0 else f"{_percent(-self.improvement)} worse than"
            ends = _span(self.low, self.high) if self.high > 0 else _span(-self.high, -self.low)
            gain = f"{against} a pooled model ({ends}), {ahead}"
            return f"{error}, {gain}; adapting does not help here: use the pooled model."
        against = f"{error}, {self.pooled:.3g} of a pooled model, {ahead}"
        if not np.isfinite(self.low):
            what = "group" if self.groups else "task"
            return f"{against}; one held-out {what} cannot tell: evaluate on more {what}s."
        return f"{against}; the difference is within noise ({_span(self.low, self.high)}): evaluate on more tasks."

    def to_json(self) -> dict[str, JSON]:
        """For machines."""
        return {**dataclasses.asdict(self), "sentence": self.sentence}


def judge(
    answers: Answers, pooled: Answers, shots: int, *, scale: float | np.ndarray = 1.0, classes: bool = False
) -> Verdict:
    """The verdict on a model from its answers and those of a reference on the same draws of the same tasks, each after
    one number of steps; of classes they are probabilities."""
    own, other = (task_errors(some, scale=scale, classes=classes) for some in (answers, pooled))
    accuracy = None
    if classes:
        accuracy = (_accuracy(answers), _accuracy(pooled))
    return judge_errors(own, other, shots, classes=classes, accuracy=accuracy, units=answers.unit)


def judge_errors(
    own: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray, shots: int, *, classes: bool = False,
    accuracy: tuple[float, float] | None = None, units: np.ndarray | None = None,
) -> Verdict:  # fmt: skip
    """The verdict from the error of each task, a mean square or a log loss, of a model and of the reference.

    The interval is that of the logarithm of the ratio of the two means, with the tasks as pairs, by Student's t; with
    the groups of tasks, numbered by `units`, where tasks come in groups: those of one group are alike.
    """
    own, other = np.asarray(own, float), np.asarray(other, float)
    half = 1.0 if classes else 0.5  # errors are shown as the root of the mean square
    metric, bad = "log loss" if classes else "error", int((~np.isfinite(own)).sum())
    if bad:
        nan = float("nan")
        return Verdict(shots, metric, nan, _root(other, half), nan, nan, nan, 0, len(own), "pooled", accuracy, bad)
    units = np.arange(len(own)) if units is None else units
    low, middle, high = (1 - np.exp(half * end) for end in _log_ratio(own, other, units))
    decision: Decision = "use" if low > 0 else "pooled" if high < _WORTH else "undecided"
    groups = int(units.max()) + 1
    better = int((np.bincount(units, own - other) < 0).sum())
    return Verdict(
        shots, metric, _root(own, half), _root(other, half), middle, low, high, better, len(own), decision, accuracy,
        groups=groups if groups < len(own) else 0,
    )  # fmt: skip


def _log_ratio(own: np.ndarray, other: np.ndarray, units: np.ndarray) -> tuple[float, float, float]:
    """The logarithm of the ratio of two means over the same tasks, and its 95% interval: upper end, middle, lower end.
    The interval is infinite for one unit, a task or a group of them."""
    from scipy.special import stdtrit

    small = np.finfo(float).tiny
    above, below, count = max(own.mean(), small), max(other.mean(), small), int(units.max()) + 1
    middle = float(np.log(above / below))
    if count < 2:
        return np.inf, middle, -np.inf
    apart = np.bincount(units, own / above - other / below)  # the influence of each unit on the logarithm, times tasks
    reach = float(stdtrit(count - 1, 0.975) * apart.std(ddof=1) * count**0.5 / len(own))
    return middle + reach, middle, middle - reach


def _root(errors: np.ndarray, power: float) -> float:
    return float(errors.mean() ** power)


def _accuracy(answers: Answers) -> float:
    right = (answers.mean[:, :, 0].argmax(-1) == answers.y) * answers.weight
    return float((right.sum(-1) / answers.weight.sum(-1)).mean())


def _tasks(count: int, what: str = "task") -> str:
    return f"{count} {what}{'s' * (count > 1)}"


def _percent(share: float) -> str:
    """A share in percent, with a digit behind the point where it is small."""
    return f"{100 * share:.0f}%" if abs(share) >= 0.0095 else f"{100 * share:.1f}%"


def _span(low: float, high: float) -> str:
    return f"{_percent(low)} to {_percent(high)}"
