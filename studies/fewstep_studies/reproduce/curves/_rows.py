"""From splits to rows: the error over all held-out tasks and who is ahead; as tables, and as figures."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from fewstep.problems import Curve, draw_curve
from fewstep_studies.reproduce._figure import Axes, Figure, keys, lines, rows_of, style
from fewstep_studies.reproduce._rows import Result, Row, with_verdicts
from fewstep_studies.reproduce._study import O, Results, Table
from fewstep_studies.reproduce.curves._measure import AUTO, OURS, SHOTS, Comparison, Scores
from fewstep_studies.reproduce.curves._sets import SETS

_MARGIN = 0.03  # of the error, by which `auto` may be behind its best member
_DRAWN = AUTO  # whose curves the report shows, in the first split


def rows(results: Results[O, Comparison, dict[str, Scores]]) -> list[Row]:
    """One row for each set, method and number of points, over all splits."""
    splits: dict[tuple[str, str], list[Scores]] = {}
    for cell, by_label in sorted(results.pairs, key=lambda pair: list(SETS).index(pair[0].plan.set)):
        for label, scores in by_label.items():
            splits.setdefault((cell.plan.set, label), []).append(scores)
    entries = [_row(name, label, shots, some) for (name, label), some in splits.items() for shots in SHOTS]
    return with_verdicts([_compared(row, splits) for row in entries], _claim)


def _compared(row: Row, splits: dict[tuple[str, str], list[Scores]]) -> Row:
    """The row of `auto` with its rank among its own members, and how much larger its error is than the best one's, with
    the paired 95% interval over the tasks of all splits."""
    name, shots = str(row.setting["set"]), str(row.setting["points"])
    mine = splits[name, row.method]
    if not mine[0].members or row.mean is None:
        return row
    tasks = lambda scores: np.concatenate([_numbers(score.by_task) for score in scores])
    own = tasks([scores.by_shots[shots] for scores in mine])
    others = {member: tasks([s.members[member][shots] for s in mine]) for member in mine[0].members}
    best = min(others, key=lambda member: others[member].mean())
    there, classes = others[best].mean(), SETS[name].classes
    apart = own - others[best]
    slope = there if classes else 2 * there  # of a root, over what is under it
    middle, half = apart.mean() / slope, 1.96 * apart.std(ddof=1) / len(apart) ** 0.5 / slope
    return row._replace(more={
        **row.more, "rank": 1 + sum(bool(each.mean() < own.mean()) for each in others.values()), "best_member": best,
        "best_error": float(there if classes else np.sqrt(there)), "behind": float(middle),
        "behind_low": float(middle - half), "behind_high": float(middle + half),
        "members": {member: float(each.mean() if classes else np.sqrt(each.mean())) for member, each in others.items()},
    })  # fmt: skip


def _claim(row: Row, rows: list[Row]) -> str | None:
    """Whether the best of ours is ahead of every baseline; of `auto`, whether it is as good as its best member."""
    if (behind := row.more.get("behind")) is not None:
        low, high = row.more["behind_low"], row.more["behind_high"]
        good = low <= 0 or high < _MARGIN
        return (
            f"{'meets' if good else 'misses'}: {behind:+.1%} ({low:+.1%} to {high:+.1%}) of {row.more['best_member']}"
        )
    here = [r for r in rows if r.setting == row.setting]
    ours, others = [r for r in here if r.ours], [r for r in here if not r.ours]
    if not ours or not others or row is not min(ours, key=_mean):
        return None
    rival = min(others, key=_mean)
    return "ahead of all baselines" if _mean(row) <= _mean(rival) else f"behind: {rival.method}"


def _mean(row: Row) -> float:
    return math.inf if row.mean is None else row.mean


def _row(name: str, label: str, shots: int, splits: list[Scores]) -> Row:
    """The root of the mean squared error over the tasks of all splits, or the logarithmic loss; the interval takes them
    as independent. A task on which a method diverged has no finite error, which a cell's file marks by null."""
    scores = [split.by_shots[str(shots)] for split in splits]
    each, values = _numbers([score.error for score in scores]), np.concatenate([_numbers(s.by_task) for s in scores])
    mean, diverged = float(values.mean()), int((~np.isfinite(values)).sum())
    half = float(1.96 * values.std() / len(values) ** 0.5) if math.isfinite(mean) else None
    if not SETS[name].classes and math.isfinite(mean):  # the interval of a root: that of what is under it over twice it
        mean, half = mean**0.5, half / (2 * mean**0.5) if half and mean else 0.0
    covered = [score.coverage90 for score in scores if score.coverage90 is not None]
    right = [score.accuracy for score in scores if score.accuracy is not None]
    return Row(
        label, {"set": name, "points": shots, "unit": SETS[name].unit}, "log loss" if SETS[name].classes else "rmse",
        mean if math.isfinite(mean) else None, half, n_tasks=len(values),
        seed_std=float(np.std(each, ddof=1)) if len(each) > 1 and not diverged else None, seeds=len(each),
        diverged_tasks=diverged, ours=label in OURS, seconds=float(np.mean([split.seconds for split in splits])),
        more={"coverage90": float(np.mean(covered)) if covered else None}
        | ({"accuracy": float(np.mean(right))} if right else {}),
    )  # fmt: skip


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.asarray([np.inf if value is None else value for value in values])


_SHARE = {False: "in 90% at 5", True: "right at 5"}


def tables(result: Result) -> list[Table]:
    """The table of each set: a line per method, a column for each number of points."""
    sheets = []
    for name in dict.fromkeys(str(row.setting["set"]) for row in result.rows):
        mine = [row for row in result.rows if row.setting["set"] == name]
        unit = mine[0].setting["unit"]
        head = [f"{name}, {unit}", *(f"{shots} points" for shots in SHOTS), _SHARE[SETS[name].classes], ""]
        methods = [[row for row in mine if row.method == method] for method in dict.fromkeys(r.method for r in mine)]
        body = [line for of_method in methods for line in (_line(of_method), *_member_lines(of_method))]
        sheets.append(Table("curves", head, body, f"{name}: {SETS[name].what}"))
    return sheets


def _line(rows: list[Row]) -> list[str]:
    at = {row.setting["points"]: row for row in rows}
    first, covered = at[SHOTS[0]], at[5].more.get("accuracy") or at[5].more["coverage90"]
    verdicts = [f"{shots}: {at[shots].verdict}" for shots in SHOTS if at[shots].verdict not in ("", "quick")]
    return [
        first.method + ("" if first.ours else " (baseline)"), *(_cell(at[shots]) for shots in SHOTS),
        "" if covered is None else f"{100 * covered:.0f}%", "; ".join(verdicts),
    ]  # fmt: skip


def _member_lines(rows: list[Row]) -> list[list[str]]:
    """A line for each method that this one is made of, alone."""
    at = {row.setting["points"]: row.more.get("members", {}) for row in rows}
    return [
        [f"- its member {member}", *(_number(at[shots][member]) for shots in SHOTS), "", ""] for member in at[SHOTS[0]]
    ]


def _number(value: float) -> str:
    return f"{value:.{2 if value >= 1 else 3}f}"


def _cell(row: Row) -> str:
    if row.mean is None:
        return f"diverged on {row.diverged_tasks} of {row.n_tasks} tasks"
    digits = 2 if row.mean >= 1 else 3
    return f"{row.mean:.{digits}f} ± {row.interval95:.{digits}f}"


def figures(results: Results[O, Comparison, dict[str, Scores]]) -> list[Figure]:
    """Error against points, and adapted curves."""
    curves = [
        (cell.plan.set, curve)
        for cell, by_label in results.pairs if cell.plan.split == 0 and _DRAWN in by_label
        for curve in by_label[_DRAWN].curves
    ]  # fmt: skip
    return [_errors(rows(results)), _adapted(curves)]


def _errors(rows: list[Row]) -> Figure:
    data = [(row.setting["set"], row.method, row.setting["points"], row.mean, row.interval95) for row in rows]
    units = {row.setting["set"]: row.setting["unit"] for row in rows}
    looks = {
        label: style(n) | {"linestyle": "-" if label in OURS else "--"}
        for n, label in enumerate(dict.fromkeys(row.method for row in rows))
    }
    return Figure(
        "error-by-points", "Error against the number of points learned from",
        "Each line a method; bars are 95% intervals over held-out tasks. Baselines are dashed.",
        [
            lines(str(name), rows_of(data, name), "points learned from", f"error, {units[name]}", looks=looks,
                  yscale="log", bars=True) for name in keys(data)
        ],
        ("set", "method", "points", "rmse", "interval95"), data,
    )  # fmt: skip


def _adapted(curves: list[tuple[str, Curve]]) -> Figure:
    data = [(name, c.task, at, m) for name, c in curves for at, m in zip(c.at, c.middle, strict=True)]
    return Figure(
        "adapted-curves", "Tasks that were held out, learned from five points",
        f"{_DRAWN} in the first split: the points learned from, the others, the prediction and its 90% interval.",
        [partial(_one, name, curve) for name, curve in curves], ("set", "task", "x", "prediction"), data,
    )  # fmt: skip


def _one(name: str, curve: Curve, ax: Axes) -> None:
    draw_curve(ax, curve, (_DRAWN, style(1)["color"]))
    ax.set_title(f"{name}: {curve.task}", fontsize=8)
    ax.legend(fontsize=5)
