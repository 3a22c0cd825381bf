"""What a student loses against its teacher, measured on the test tasks."""

import dataclasses

import jax
import numpy as np

from fewstep.files import JSON
from fewstep.models._evaluate import evaluate_held_out
from fewstep.models._model import Model
from fewstep.models._verdict import judge
from fewstep.problems import Answers, Plan


@dataclasses.dataclass(frozen=True)
class Distilled:
    """How a student does beside its teacher after learning from so many rows of the test tasks.

    `error` is the student's and `teacher_error` the teacher's, in the target's unit, or the log loss of classes. `loss`
    is how much larger the student's is, relative to the teacher's, with its paired 95% interval from `low` to `high`:
    negative where the student is better. `accuracy` of classes is of the student and of the teacher. `parameters`
    are numbers in the student and in the teacher, of all seeds that answer.
    """

    method: str
    teacher: str
    shots: int
    metric: str
    error: float
    teacher_error: float
    loss: float
    low: float
    high: float
    tasks: int
    parameters: int
    teacher_parameters: int
    accuracy: tuple[float, float] | None = None
    episodes: int = 0
    bank_seconds: float = 0.0
    train_seconds: float = 0.0

    @property
    def sentence(self) -> str:
        """The comparison in one sentence."""
        rows = "1 row" if self.shots == 1 else f"{self.shots} rows"
        count = "1 test task" if self.tasks == 1 else f"{self.tasks} test tasks"
        if not np.isfinite(self.error):
            return f"{self.method} diverges after learning from {rows} of the test tasks: do not use it."
        text = (
            f"{self.method} instead of {self.teacher}, after learning from {rows} of {count}: {self.metric} "
            f"{self.error:.3g} instead of {self.teacher_error:.3g}"
        )
        if self.accuracy is not None:
            text += " (accuracy {:.1%} instead of {:.1%})".format(*self.accuracy)
        span = f" (95% interval {self.low:+.1%} to {self.high:+.1%})" if np.isfinite(self.low) else ""
        share = f"{self.parameters:,} parameters instead of {self.teacher_parameters:,}"
        return f"{text}, {self.loss:+.1%}{span}, with {share}."

    def to_json(self) -> dict[str, JSON]:
        """For machines."""
        return {**dataclasses.asdict(self), "sentence": self.sentence}


def compare(student: Model, teacher: Model) -> Distilled:
    """Both on the same draws of the test tasks, at the number of rows that the teacher was trained for."""
    problem, shots = teacher.problem, teacher.experiment.shots
    own, other = (_answers(model, shots) for model in (student, teacher))
    verdict = judge(own, other, shots, scale=problem.scale, classes=problem.classes)
    return Distilled(
        student.experiment.public_method, teacher.experiment.public_method, shots, verdict.metric, verdict.error,
        verdict.pooled, -verdict.improvement, -verdict.high, -verdict.low, verdict.tasks, _size(student),
        _size(teacher), verdict.accuracy,
    )  # fmt: skip


def _answers(model: Model, shots: int) -> Answers:
    """What a model answers on the test tasks; its probabilities of classes are calibrated."""
    answers = evaluate_held_out(model, Plan((shots,)), steps=(model.steps,)).answers[shots]
    if model.problem.classes and model.calibration is not None:
        return answers._replace(mean=model.calibration.probabilities(answers.mean, shots))
    return answers


def _size(model: Model) -> int:
    """The numbers in all seeds that did not diverge."""
    return sum(int(np.size(leaf)) for meta in model.finite.values() for leaf in jax.tree.leaves(meta))
