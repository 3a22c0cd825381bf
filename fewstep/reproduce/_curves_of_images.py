"""The figures of the studies of images: accuracy against training time, and against inner steps."""

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
        when = dict(map(tuple, found["times"]))
        setting = f"{cell.experiment.validation_ways or cell.experiment.ways or 5} ways, {cell.experiment.shots} shots"
        for point in found["training"]:
            if point["step"] in when:
                right = 1 - sum(point["errors"]) / len(point["errors"])
                data.append((setting, cell.label, when[point["step"]] / 60, right, point["step"]))
    return Figure(
        "accuracy-by-time", "Accuracy against training time",
        "Accuracy on the validation classes, with the inner steps of the training, against its wall time.",
        _panels(data, "training time in minutes"), ("setting", "method", "minutes", "accuracy", "step"), data,
    )  # fmt: skip


def _by_inner_steps(cells: list[Cell], judged: list[Judged]) -> Figure:
    data = []
    for cell, found in zip(cells, judged, strict=True):
        if len(cell.steps) > 1:
            for row in found["errors"]:
                kind = "" if row["transductive"] else ", of the support"
                setting = f"{row['ways']} ways, {row['shots']} shots"
                data.append((setting, cell.label + kind, row["inner_steps"], row["mean"], row["interval95"]))
    return Figure(
        "accuracy-by-inner-steps", "Accuracy against inner steps at test",
        "Accuracy on the test classes after each number of inner steps, normalised by the statistics of the query "
        "(transductive) or of the support.",
        _panels(data, "inner steps at test"), ("setting", "method", "inner_steps", "accuracy", "interval95"), data,
    )  # fmt: skip


def _panels(data: list[tuple[Any, ...]], xlabel: str) -> list[Any]:
    def panel(setting: str) -> Any:
        mine = rows_of(data, setting)

        def draw(ax: Any) -> None:
            for number, label in enumerate(dict.fromkeys(row[0] for row in mine)):
                points = [row for row in rows_of(mine, label) if row[1] is not None]
                ax.plot([p[0] for p in points], [100 * p[1] for p in points], "o-", ms=3, label=label, **_line(number))
            ax.set(title=setting, xlabel=xlabel, ylabel="accuracy in %")
            ax.legend(fontsize=7)

        return draw

    return [panel(setting) for setting in dict.fromkeys(row[0] for row in data)]


def _line(number: int) -> dict[str, Any]:
    return {"color": style(number)["color"]}
