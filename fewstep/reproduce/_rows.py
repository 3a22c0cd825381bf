"""Rows of a study's table: what was measured of a cell, beside what a paper has."""

from typing import Any

from fewstep.reproduce._study import Cell, Judged, Row

Published = tuple[float, float | None] | None  # a mean and its 95 % interval, if that is known


def verdict(mean: float | None, interval: float | None, published: Published, *, higher: bool = False) -> str:
    """`meets` unless ours is worse than the paper's by more than the 95 % interval of the difference; `higher` says
    that more is better."""
    if published is None:
        return ""
    if mean is None:
        return "misses"
    worse = published[0] - mean if higher else mean - published[0]
    return "meets" if worse <= ((interval or 0.0) ** 2 + (published[1] or 0.0) ** 2) ** 0.5 else "misses"


def make_row(
    cell: Cell, judged: Judged, found: Row, *, metric: str, setting: dict[str, Any], published: Published
) -> Row:
    """The row of one score, `found`, which is empty where every seed diverged; a mean that is not finite is nothing."""
    told = ("mean", "interval95", "median", "seed_std", "n_tasks")
    judgement = verdict(found.get("mean"), found.get("interval95"), published, higher=metric == "accuracy")
    return {
        "method": cell.label,
        "setting": setting,
        "metric": metric,
        **{key: found.get(key) for key in told},
        "seeds": cell.experiment.seeds,
        "diverged_seeds": judged["diverged_seeds"],
        "diverged_tasks": found.get("diverged_tasks", 0),
        "published": published[0] if published else None,
        "published_interval95": published[1] if published else None,
        "verdict": judgement if found else "diverged",
        "ours": cell.ours,
        "seconds": judged["seconds"],
    }


def error_row(cell: Cell, judged: Judged, shots: int, published: Published) -> Row:
    """The row of one cell's error after one step, beside the paper's."""
    lost = judged["diverged_seeds"] == cell.experiment.seeds
    rows = [row for row in judged["errors"] if (row["shots"], row["inner_steps"]) == (shots, 1)]
    setting = {**cell.setting, "shots": shots}
    return make_row(cell, judged, {} if lost else rows[0], metric="mse", setting=setting, published=published)


def accuracy_rows(
    cell: Cell, judged: Judged, published: dict[tuple[int, int], tuple[float, float | None]]
) -> list[Row]:
    """The rows of a cell of images: at each test transductive beside the paper's, and by the support's statistics."""
    rows = []
    for ways, shots, _ in cell.tests:
        mine = [row for row in judged["errors"] if (row["ways"], row["shots"]) == (ways, shots)]
        for norm in dict.fromkeys(row["norm"] for row in mine) or ["transductive"]:
            paper = published.get((ways, shots)) if norm == "transductive" else None
            asked = {"ways": ways, "shots": shots}
            for steps in cell.steps_at_test if mine else cell.steps_at_test[:1]:
                found: Row = next((row for row in mine if (row["norm"], row["inner_steps"]) == (norm, steps)), {})
                several = {"inner steps": steps} if len(cell.steps_at_test) > 1 else {}
                rows.append(_accuracy(cell, judged, found, asked | several, norm, paper))
    return rows


def _accuracy(cell: Cell, judged: Judged, found: Row, asked: dict[str, int], norm: str, published: Published) -> Row:
    whose = {"transductive": "of the query", "support": "of the support"}.get(norm, "of an image")
    setting = {**asked, **cell.setting, "statistics": whose}
    return make_row(cell, judged, found, metric="accuracy", setting=setting, published=published) | {
        "cell": cell.name,
        "inner_steps": found.get("inner_steps"),
        "transductive": found.get("transductive", norm == "transductive"),
        "steps": cell.experiment.steps,
    }
