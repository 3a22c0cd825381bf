"""How sure a model is: intervals from its spread, and probabilities of classes, calibrated on held-out tasks."""

import dataclasses
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.models._conformal import multipliers
from fewstep.problems import Answers, best_temperature, tempered

LEVELS = (0.5, 0.8, 0.9, 0.95)
_SHARES = tuple(n / 10 for n in range(10))  # of the scale's square that may come from what is left over on the support
_FOLDS = 30

Numbers = tuple[float, ...]  # one for each output, or one for all


@dataclasses.dataclass(frozen=True)
class Calibration:
    """For each number of rows learned from: the scale of an error, and for each level how many of them an interval is.

    Half an interval is `ratio * sqrt(spread^2 + floor^2 + gain * residual^2)`: the spread is that of the ensemble's
    members, `floor` the part of the usual error on held-out tasks that is the same for all tasks, and `residual` what
    the model leaves over on the rows it learned from: more on a task that is hard. `ratio` is chosen so that a new task
    has the share of its values inside. All is in the unit of the standardized target, with a number for each output. Of
    classes there is a temperature instead.
    """

    floors: dict[int, Numbers]
    ratios: dict[int, dict[float, Numbers]]
    temperatures: dict[int, float] = dataclasses.field(default_factory=dict)
    gains: dict[int, Numbers] = dataclasses.field(default_factory=dict)

    def half(self, spread: np.ndarray, residual: np.ndarray | float, shots: int, level: float) -> np.ndarray:
        """Half the interval around predictions of that spread, after learning from so many rows with that residual. The
        last axis of both is that of the outputs."""
        if level not in LEVELS:
            raise FewstepError(f"The level is {level}. Intervals are calibrated at {', '.join(map(str, LEVELS))}.")
        at = _nearest(self.floors, shots)
        own = np.asarray(self.gains.get(at, (0.0,))) * np.square(residual)
        return np.asarray(self.ratios[at][level]) * np.sqrt(np.square(spread) + np.square(self.floors[at]) + own)

    def probabilities(self, raw: np.ndarray, shots: int) -> np.ndarray:
        """The probabilities of classes after learning from so many rows, at their temperature."""
        return tempered(raw, self.temperatures[_nearest(self.temperatures, shots)])

    def to_dict(self) -> dict[str, JSON]:
        """For JSON."""
        plain = lambda of: {str(n): _plain(numbers) for n, numbers in of.items()}
        ratios = {str(n): {str(level): _plain(q) for level, q in of.items()} for n, of in self.ratios.items()}
        temperatures = {str(n): number for n, number in self.temperatures.items()}
        return {
            "floors": plain(self.floors), "ratios": ratios, "temperatures": temperatures, "gains": plain(self.gains)
        }  # fmt: skip

    @staticmethod
    def from_dict(values: dict[str, JSON]) -> "Calibration":
        """What `to_dict` gave, also that of a version without gains."""
        numbers = lambda of: {int(n): _numbers(value) for n, value in of.items()}
        ratios = {int(n): {float(level): _numbers(q) for level, q in of.items()} for n, of in values["ratios"].items()}
        temperatures = {int(n): number for n, number in values.get("temperatures", {}).items()}
        return Calibration(numbers(values["floors"]), ratios, temperatures, numbers(values.get("gains", {})))


def _plain(numbers: Numbers) -> JSON:
    return numbers[0] if len(numbers) == 1 else list(numbers)


def _numbers(value: JSON) -> Numbers:
    return tuple(value) if isinstance(value, list) else (value,)


def _nearest(sizes: dict[int, float] | dict[int, Numbers], shots: int) -> int:
    """The largest known number of rows that is not more; the smallest, if all are."""
    return max([number for number in sizes if number <= shots], default=min(sizes))


def calibrate(by_shots: dict[int, Answers], *, classes: bool = False) -> Calibration:
    """The calibration from what an ensemble answered on held-out tasks, after one number of steps.

    **Arguments:** the answers by the number of rows learned from. They may be on any tasks that neither the model nor
    what combines it was fitted to: those of folds that were fitted crosswise are joined by `problems.concatenate`.
    """
    if classes:
        return Calibration({}, {}, {shots: best_temperature(answers) for shots, answers in by_shots.items()})
    fits = {shots: [_fit(errors) for errors in _by_output(answers)] for shots, answers in by_shots.items()}
    return Calibration(
        {shots: tuple(fit.floor for fit in some) for shots, some in fits.items()},
        {shots: {level: tuple(fit.ratios[n] for fit in some) for n, level in enumerate(LEVELS)}
         for shots, some in fits.items()},
        gains={shots: tuple(fit.gain for fit in some) for shots, some in fits.items()},
    )  # fmt: skip


class _Errors(NamedTuple):
    """The absolute errors of an output on one task, the ensemble's spread there, and what was left over on the support;
    each of all rows that count, of all draws."""

    size: np.ndarray
    spread: np.ndarray
    residual: np.ndarray


class _Fit(NamedTuple):
    floor: float
    gain: float
    ratios: list[float]


def _by_output(answers: Answers) -> list[list[_Errors]]:
    """The errors of each output, task by task, or group by group where tasks are held out in groups: those of one group
    are alike, as the rows of one task are."""
    wrong, spread = np.abs(answers.mean[:, :, 0] - answers.y), answers.spread[:, :, 0]
    left = np.broadcast_to(residual_of(answers), wrong.shape)
    counts, of_unit = answers.weight > 0, [answers.unit == n for n in range(answers.unit.max() + 1)]
    return [
        [_Errors(*(part[own][counts[own]][:, output] for part in (wrong, spread, left))) for own in of_unit]
        for output in range(wrong.shape[-1])
    ]


def residual_of(answers: Answers) -> np.ndarray:
    """The root of the mean square of what was left over on the support of each draw, of each output, for all rows of
    the query."""
    if answers.residual is None:
        return np.zeros((*answers.y.shape[:2], 1, answers.y.shape[-1]))
    return np.sqrt(np.square(answers.residual[:, :, 0]).sum(2, keepdims=True))


def _fit(tasks: list[_Errors]) -> _Fit:
    """The scale that makes normal errors likeliest, up to a factor for all tasks alike, and the intervals in it."""
    square = lambda name: float(np.mean([np.mean(np.square(getattr(task, name))) for task in tasks]))
    usual, left = max(square("size"), 1e-12), square("residual")

    def scales(share: float) -> list[np.ndarray]:
        floor, gain = (1 - share) * usual, share * usual / max(left, 1e-12)
        return [np.sqrt(np.square(task.spread) + floor + gain * np.square(task.residual)) for task in tasks]

    def surprise(share: float) -> float:
        found = scales(share)
        sizes = [np.mean(np.square(task.size / scale)) for task, scale in zip(tasks, found, strict=True)]
        return float(np.mean([np.log(scale).mean() for scale in found]) + np.log(np.mean(sizes)) / 2)

    share = min(_SHARES, key=surprise) if left > 1e-12 and len(tasks) > 1 else 0.0
    ratios = multipliers([task.size / scale for task, scale in zip(tasks, scales(share), strict=True)], LEVELS)
    return _Fit(float(np.sqrt((1 - share) * usual)), share * usual / max(left, 1e-12), ratios)


def coverage_by_task(calibration: Calibration, answers: Answers, shots: int, level: float) -> np.ndarray:
    """The share of each task's true values inside the intervals."""
    half = calibration.half(answers.spread[:, :, 0], residual_of(answers), shots, level)
    inside = np.abs(answers.mean[:, :, 0] - answers.y) <= half
    weight = np.broadcast_to(answers.weight[..., None], inside.shape)
    return (inside * weight).sum((1, 2, 3)) / weight.sum((1, 2, 3))


def coverage(calibration: Calibration, answers: Answers, shots: int, level: float) -> float:
    """The share of true values inside the intervals, each task counting alike."""
    return float(coverage_by_task(calibration, answers, shots, level).mean())


def each_left_out(answers: Answers, shots: int, level: float = 0.9) -> float | None:
    """The share of each task's true values inside intervals that were calibrated on the other tasks, or groups."""
    units = answers.unit
    if (count := units.max() + 1) < 2:
        return None
    shares = []
    for fold in np.array_split(np.arange(count), min(count, _FOLDS)):
        own = np.isin(units, fold)
        known = calibrate({shots: answers.of_tasks(~own)})
        shares.append(coverage_by_task(known, answers.of_tasks(own), shots, level))
    return float(np.concatenate(shares).mean())
