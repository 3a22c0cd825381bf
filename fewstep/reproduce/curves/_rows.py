"""From splits to rows: the error over all held-out tasks, its interval, the spread over splits, and who is ahead."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fewstep.reproduce._rows import Row, with_verdicts
from fewstep.reproduce._study import Results
from fewstep.reproduce.curves._measure import OURS, SHOTS, Scores
from fewstep.reproduce.curves._sets import SETS


def rows(results: Results[Any, Any, dict[str, Scores]]) -> list[Row]:
    """One row for each set, method and number of points, over all splits."""
    splits: dict[tuple[str, str], list[Scores]] = {}
    for cell, found in sorted(results.pairs, key=lambda pair: list(SETS).index(pair[0].plan.set)):
        for label, scores in found.items():
            splits.setdefault((cell.plan.set, label), []).append(scores)
    made = [_row(name, label, shots, some) for (name, label), some in splits.items() for shots in SHOTS]
    return with_verdicts(made, _claim)


def _claim(row: Row, rows: list[Row]) -> str | None:
    """Whether the best of ours is ahead of every baseline."""
    here = [r for r in rows if r.setting == row.setting]
    ours, others = [r for r in here if r.ours], [r for r in here if not r.ours]
    if not ours or not others or row is not min(ours, key=_mean):
        return None
    rival = min(others, key=_mean)
    return "ahead of all baselines" if _mean(row) <= _mean(rival) else f"behind: {rival.method}"


def _mean(row: Row) -> float:
    return math.inf if row.mean is None else row.mean


def _row(name: str, label: str, shots: int, splits: list[Scores]) -> Row:
    """The root of the mean squared error over the tasks of all splits; the interval takes them as independent. A task
    on which a method diverged has no finite error, which a cell's file marks by null."""
    scores = [split.by_shots[str(shots)] for split in splits]
    squared = np.concatenate([_numbers(score.by_task) for score in scores])
    each = _numbers([score.rmse for score in scores])
    root, diverged = float(np.sqrt(squared.mean())), int((~np.isfinite(squared)).sum())
    covered = [score.coverage90 for score in scores if score.coverage90 is not None]
    return Row(
        label, {"set": name, "points": shots, "unit": SETS[name].unit}, "rmse",
        root if math.isfinite(root) else None, _half(squared, root), n_tasks=len(squared),
        seed_std=float(np.std(each, ddof=1)) if len(each) > 1 and not diverged else None, seeds=len(each),
        diverged_tasks=diverged, ours=label in OURS, seconds=float(np.mean([split.seconds for split in splits])),
        more={"coverage90": float(np.mean(covered)) if covered else None},
    )  # fmt: skip


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.asarray([np.inf if value is None else value for value in values])


def _half(squared: np.ndarray, root: float) -> float | None:
    """The 95% interval of a root: that of what is under it over twice the root."""
    if not math.isfinite(root):
        return None
    return float(1.96 * squared.std() / len(squared) ** 0.5 / (2 * root)) if root else 0.0
