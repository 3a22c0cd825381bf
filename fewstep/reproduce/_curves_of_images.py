"""The figures of the studies of images: accuracy against training time, and against inner steps."""

import itertools
import statistics
from typing import Any

from fewstep.reproduce._draw import rows_of
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._study import Cell, Judged


def figures(cells: list[Cell], judged: list[Judged], speed: Judged) -> list[Figure]:
    """Accuracy against training time and against inner steps, a panel for each number of ways and shots."""
    return [_by_time(cells, judged), _by_inner_steps(cells, judged)]


def _by_time(cells: list[Cell], judged: list[Judged]) -> Figure:
    data = []
    for cell, found in zip(cells, judged, strict=True):
        when, rate = dict(map(tuple, found["times"])), _rate(found)
        ways = cell.experiment.validation_ways or cell.experiment.ways or 5
        setting = _setting(cell, ways, cell.experiment.shots)
        for point in found["training"]:
            step, right = point["step"], 1 - sum(point["errors"]) / len(point["errors"])
            if step in when and rate:
                data.append((setting, _label(cell), step / rate / 60, right, step, when[step] / 60))
    return Figure(
        "accuracy-by-time", "Accuracy against training time",
        "Accuracy on the validation classes, with the inner steps of the training, against its time: steps over "
        "the steps a second, so that pauses and other work on the machine do not count; the wall time is in the data.",
        _panels(data, "training time in minutes"),
        ("setting", "method", "minutes", "accuracy", "step", "wall_minutes"), data,
    )  # fmt: skip


def _setting(cell: Cell, ways: int, shots: int) -> str:
    """What a panel shows: methods stand in one only if their tasks are alike."""
    split = cell.setting.get("split")
    return f"{ways} ways, {shots} shots" + (f", split {split}" if split else "")


def _label(cell: Cell) -> str:
    return cell.label + (" *" if cell.ours else "")


def _rate(found: Judged) -> float | None:
    """Steps a second: as measured in training; of one that is under way, the median between its validations."""
    if found.get("steps_per_second"):
        return float(found["steps_per_second"])
    since = found["times"] if len(found["times"]) > 1 else [(0, 0.0), *found["times"]]
    between = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in itertools.pairwise(since) if b[1] > a[1]]
    return statistics.median(between) if between else None


def _by_inner_steps(cells: list[Cell], judged: list[Judged]) -> Figure:
    data = []
    for cell, found in zip(cells, judged, strict=True):
        if len(cell.steps) > 1:
            for row in found["errors"]:
                kind = "" if row["transductive"] else ", of the support"
                setting = _setting(cell, row["ways"], row["shots"])
                data.append((setting, _label(cell) + kind, row["inner_steps"], row["mean"], row["interval95"]))
    return Figure(
        "accuracy-by-inner-steps", "Accuracy against inner steps at test",
        "Accuracy on the test classes after each number of inner steps, normalized by the statistics of the query "
        "(transductive) or of the support.",
        _panels(data, "inner steps at test"), ("setting", "method", "inner_steps", "accuracy", "interval95"), data,
    )  # fmt: skip


def _panels(data: list[tuple[Any, ...]], xlabel: str) -> list[Any]:
    def panel(setting: str) -> Any:
        mine = rows_of(data, setting)

        def draw(ax: Any) -> None:
            for number, label in enumerate(dict.fromkeys(row[0] for row in mine)):
                points = [row for row in rows_of(mine, label) if row[1] is not None]
                ax.plot(
                    [p[0] for p in points],
                    [100 * p[1] for p in points],
                    "o-",
                    ms=3,
                    label=label,
                    color=style(number)["color"],
                )
            ax.set(title=setting, xlabel=xlabel, ylabel="accuracy in %")
            ax.legend(fontsize=7)

        return draw

    return [panel(setting) for setting in dict.fromkeys(row[0] for row in data)]
