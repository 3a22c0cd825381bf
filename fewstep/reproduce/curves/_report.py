"""What is shown of the comparison: a table per set, errors against points, and tasks that were learned."""

from functools import partial
from typing import Any

from fewstep.reports.table_plots import Curve, draw_curve
from fewstep.reproduce._figure import Figure, style
from fewstep.reproduce._panels import keys, lines, rows_of
from fewstep.reproduce._rows import Result, Row
from fewstep.reproduce._study import Results, Table
from fewstep.reproduce.curves._measure import OURS, SHOTS, Scores
from fewstep.reproduce.curves._rows import rows
from fewstep.reproduce.curves._sets import SETS

_DRAWN = "MT-net"  # whose curves the report shows, in the first split


def tables(result: Result) -> list[Table]:
    """The table of each set: a line per method, a column for each number of points."""
    made = []
    for name in dict.fromkeys(str(row.setting["set"]) for row in result.rows):
        mine = [row for row in result.rows if row.setting["set"] == name]
        unit = mine[0].setting["unit"]
        head = [f"{name}, {unit}", *(f"{shots} points" for shots in SHOTS), "in 90 % at 5", ""]
        body = [
            _line([row for row in mine if row.method == method]) for method in dict.fromkeys(r.method for r in mine)
        ]
        made.append(Table("curves", head, body, f"{name}: {SETS[name].what}"))
    return made


def _line(rows: list[Row]) -> list[str]:
    at = {row.setting["points"]: row for row in rows}
    first, covered = at[SHOTS[0]], at[5].more["coverage90"]
    verdicts = [f"{shots}: {at[shots].verdict}" for shots in SHOTS if at[shots].verdict not in ("", "quick")]
    return [
        first.method + ("" if first.ours else " (baseline)"), *(_cell(at[shots]) for shots in SHOTS),
        "" if covered is None else f"{100 * covered:.0f} %", "; ".join(verdicts),
    ]  # fmt: skip


def _cell(row: Row) -> str:
    if row.mean is None:
        return f"diverged on {row.diverged_tasks} of {row.n_tasks} tasks"
    return f"{row.mean:.2f} ± {row.interval95:.2f}"


def figures(results: Results[Any, Any, dict[str, Scores]]) -> list[Figure]:
    """Error against points, and adapted curves."""
    curves = [
        (cell.plan.set, Curve(**curve))
        for cell, found in results.pairs if cell.plan.split == 0 and _DRAWN in found for curve in found[_DRAWN].curves
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
        "MT-net in the first split: the points learned from, the others, the prediction and its 90% interval.",
        [partial(_one, name, curve) for name, curve in curves], ("set", "task", "x", "prediction"), data,
    )  # fmt: skip


def _one(name: str, curve: Curve, ax: Any) -> None:
    draw_curve(ax, curve, ("MT-net", style(1)["color"]))
    ax.set_title(f"{name}: {curve.task}", fontsize=8)
    ax.legend(fontsize=5)
