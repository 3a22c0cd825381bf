"""How sure a model is: intervals from its spread, and probabilities of classes, calibrated on held-out tasks."""

import dataclasses

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.problems import Answers, best_temperature, tempered

LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclasses.dataclass(frozen=True)
class Calibration:
    """For each number of rows learned from: the size of an error, and for each level how many of them an interval is.

    Half an interval is `ratio * sqrt(spread^2 + floor^2)`, with the spread of the ensemble's members; `floor` is the
    usual error on the held-out tasks and `ratio` the quantile of their errors over that root. All is in the unit of
    the standardized target. Of classes there is a temperature instead.
    """

    floors: dict[int, float]
    ratios: dict[int, dict[float, float]]
    temperatures: dict[int, float] = dataclasses.field(default_factory=dict)

    def half(self, spread: np.ndarray, shots: int, level: float) -> np.ndarray:
        """Half the interval around predictions of that spread, after learning from so many rows."""
        if level not in LEVELS:
            raise FewstepError(f"The level is {level}. Intervals are calibrated at {', '.join(map(str, LEVELS))}.")
        at = _nearest(self.floors, shots)
        return self.ratios[at][level] * np.sqrt(np.square(spread) + self.floors[at] ** 2)

    def probabilities(self, raw: np.ndarray, shots: int) -> np.ndarray:
        """The probabilities of classes after learning from so many rows, at their temperature."""
        return tempered(raw, self.temperatures[_nearest(self.temperatures, shots)])

    def to_dict(self) -> dict[str, JSON]:
        """For JSON."""
        ratios = {str(n): {str(level): q for level, q in of.items()} for n, of in self.ratios.items()}
        by_text = lambda numbers: {str(n): number for n, number in numbers.items()}
        return {"floors": by_text(self.floors), "ratios": ratios, "temperatures": by_text(self.temperatures)}

    @staticmethod
    def from_dict(values: dict[str, JSON]) -> "Calibration":
        """What `to_dict` gave."""
        ratios = {int(n): {float(level): q for level, q in of.items()} for n, of in values["ratios"].items()}
        by_number = lambda numbers: {int(n): number for n, number in numbers.items()}
        return Calibration(by_number(values["floors"]), ratios, by_number(values.get("temperatures", {})))


def _nearest(sizes: dict[int, float], shots: int) -> int:
    """The largest known number of rows that is not more; the smallest, if all are."""
    return max([number for number in sizes if number <= shots], default=min(sizes))


def calibrate(by_shots: dict[int, Answers], *, classes: bool = False) -> Calibration:
    """The calibration from what an ensemble answered on held-out tasks, after one number of steps."""
    if classes:
        return Calibration({}, {}, {shots: best_temperature(answers) for shots, answers in by_shots.items()})
    floors, ratios = {}, {}
    for shots, answers in by_shots.items():
        wrong, spread = _errors(answers)
        floors[shots] = max(float(np.sqrt(np.mean(np.square(wrong)))), 1e-6)
        sizes = wrong / np.sqrt(np.square(spread) + floors[shots] ** 2)
        ratios[shots] = {level: float(np.quantile(sizes, level)) for level in LEVELS}
    return Calibration(floors, ratios)


def coverage(calibration: Calibration, answers: Answers, shots: int, level: float) -> float:
    """The share of true values inside the intervals, each task counting alike."""
    inside = np.abs(answers.mean[:, :, 0] - answers.y) <= calibration.half(answers.spread[:, :, 0], shots, level)
    weight = np.broadcast_to(answers.weight[..., None], inside.shape)
    return float(((inside * weight).sum((1, 2, 3)) / weight.sum((1, 2, 3))).mean())


def each_left_out(answers: Answers, shots: int, level: float = 0.9) -> float | None:
    """The share of each task's true values inside intervals that were calibrated on the other tasks."""
    tasks = len(answers.mean)
    if tasks < 2:
        return None
    only = lambda which: Answers(*(part[:, which] if name == "members" else part[which] for name, part in zip(
        Answers._fields, answers, strict=True)))  # fmt: skip
    numbers = np.arange(tasks)
    shares = [coverage(calibrate({shots: only(numbers != n)}), only(numbers == n), shots, level) for n in numbers]
    return float(np.mean(shares))


def _errors(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """The absolute errors of all rows that count, and the ensemble's spread there."""
    counts = np.broadcast_to(answers.weight[..., None] > 0, answers.y.shape)
    wrong = np.abs(answers.mean[:, :, 0] - answers.y)[counts]
    return wrong, answers.spread[:, :, 0][counts]
