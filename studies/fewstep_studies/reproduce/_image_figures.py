"""The figures of the studies of images: accuracy against training time, and against inner steps."""

import itertools
import statistics

from fewstep_studies.reproduce._figure import Figure, Panel, Points, keys, lines, rows_of
from fewstep_studies.reproduce._measurement import Measurement, Training
from fewstep_studies.reproduce._study import Cell, O, Pairs, Results


def figures(results: Results[O, Training, Measurement]) -> list[Figure]:
    """Accuracy against training time and against inner steps, a panel for each number of ways and shots."""
    pairs = results.all
    return [accuracy_by_time(pairs), _by_inner_steps(pairs)]


def accuracy_by_time(pairs: Pairs[Training, Measurement]) -> Figure:
    """Accuracy on the validation classes against training time."""
    data = []
    for cell, measurement in pairs:
        when, rate, experiment = dict(measurement.times), _rate(measurement), cell.plan.experiment
        setting = _setting(cell, experiment.validation_ways or experiment.ways or 5, experiment.shots)
        for step, errors in measurement.training:
            known = [error for error in errors if error is not None]
            if step in when and rate and known:
                right = 1 - sum(known) / len(known)
                data.append((setting, _label(cell), step / rate / 60, right, step, when[step] / 60))
    return Figure(
        "accuracy-by-time", "Accuracy against training time",
        "Accuracy on the validation classes, with the inner steps of the training, against its time: steps over "
        "the steps per second, so that pauses and other work on the machine do not count; the wall time is in the "
        "data.",
        _panels([row[:4] for row in data], "training time in minutes"),
        ("setting", "method", "minutes", "accuracy", "step", "wall_minutes"), data,
    )  # fmt: skip


def _by_inner_steps(pairs: Pairs[Training, Measurement]) -> Figure:
    data = [
        (_setting(cell, score.ways, score.shots), _label(cell) + ("" if score.transductive else ", of the support"),
         score.inner_steps, score.mean, score.interval95)
        for cell, measurement in pairs if len(cell.plan.inner_steps) > 1 for score in measurement.scores
    ]  # fmt: skip
    return Figure(
        "accuracy-by-inner-steps", "Accuracy against inner steps at test",
        "Accuracy on the test classes after each number of inner steps, normalized by the statistics of the query "
        "(transductive) or of the support.",
        _panels(data, "inner steps at test"), ("setting", "method", "inner_steps", "accuracy", "interval95"), data,
    )  # fmt: skip


def _panels(data: Points, xlabel: str) -> list[Panel]:
    return [lines(setting, rows_of(data, setting), xlabel, "accuracy in %", factor=100) for setting in keys(data)]


def _setting(cell: Cell[Training], ways: int | None, shots: int | None) -> str:
    """What a panel shows: methods stand in one only if their tasks are alike."""
    split = cell.setting.get("split")
    return f"{ways} ways, {shots} shots" + (f", split {split}" if split else "")


def _label(cell: Cell[Training]) -> str:
    return cell.label + (" *" if cell.ours else "")


def _rate(measurement: Measurement) -> float | None:
    """Steps per second: as measured in training; of one that is under way, the median between its validations."""
    if measurement.steps_per_second:
        return measurement.steps_per_second
    since = measurement.times if len(measurement.times) > 1 else [(0, 0.0), *measurement.times]
    between = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in itertools.pairwise(since) if b[1] > a[1]]
    return statistics.median(between) if between else None
