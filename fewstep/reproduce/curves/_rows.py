"""From splits to rows: the error over all held-out tasks, its interval, the spread over splits, and who is ahead."""

from typing import Any

import numpy as np

from fewstep.reproduce.curves._measure import OURS, SHOTS
from fewstep.reproduce.curves._sets import Entry

Row = dict[str, Any]


def rows_of(found: dict[tuple[str, str], list[Any]], known: dict[str, Entry], *, judged: bool) -> list[Row]:
    """One row for each set, method and number of points."""
    rows = [
        _row(name, label, shots, known[name].unit, splits)
        for (name, label), splits in found.items() for shots in SHOTS
    ]  # fmt: skip
    for name in known:
        for shots in SHOTS if judged else ():
            here = [row for row in rows if row["setting"] == _setting(name, shots, known[name].unit)]
            ours = [row for row in here if row["ours"]]
            others = [row for row in here if not row["ours"]]
            if ours and others:
                best, rival = min(ours, key=_mean), min(others, key=_mean)
                best["verdict"] = (
                    "ahead of all baselines" if _mean(best) <= _mean(rival) else f"behind: {rival['method']}"
                )
    return rows


def _mean(row: Row) -> float:
    return row["mean"] if np.isfinite(row["mean"]) else np.inf


def _setting(name: str, shots: int, unit: str) -> dict[str, Any]:
    return {"set": name, "points": shots, "unit": unit}


def _row(name: str, label: str, shots: int, unit: str, splits: list[Any]) -> Row:
    """The root of the mean squared error over the tasks of all splits; the interval takes them as independent. A task
    on which a method diverged has no finite error, which a cell's file tells by null."""
    numbers = lambda values: np.asarray([np.inf if value is None else value for value in values])
    squared = np.concatenate([numbers(told["scores"][str(shots)]["by_task"]) for told in splits])
    each = numbers([told["scores"][str(shots)]["rmse"] for told in splits])
    root, wild = float(np.sqrt(squared.mean())), int((~np.isfinite(squared)).sum())
    covered = [told["scores"][str(shots)].get("coverage90") for told in splits]
    return {
        "method": label, "setting": _setting(name, shots, unit), "metric": "rmse", "mean": root,
        "interval95": _half(squared, root), "diverged_tasks": wild,
        "seed_std": float(np.std(each, ddof=1)) if len(each) > 1 and not wild else None, "seeds": len(each),
        "n_tasks": len(squared), "coverage90": None if covered[0] is None else float(np.mean(covered)),
        "published": None, "verdict": "", "ours": label in OURS,
        "seconds": float(np.mean([told["seconds"] for told in splits])),
    }  # fmt: skip


def _half(squared: np.ndarray, root: float) -> float:
    """The 95 % interval of a root: that of what is under it over twice the root."""
    if not np.isfinite(root):
        return np.inf
    return float(1.96 * squared.std() / len(squared) ** 0.5 / (2 * root)) if root else 0.0
