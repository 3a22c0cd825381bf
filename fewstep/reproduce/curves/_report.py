"""The report of the comparison: one HTML file that needs nothing else, its figures beside it."""

import html
import math
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import page, table
from fewstep.reports.table_plots import Curve, draw_curve
from fewstep.reproduce._figure import Figure, style, write_figure
from fewstep.reproduce._report import made_by
from fewstep.reproduce.curves._sets import Entry
from fewstep.reproduce.curves._tables import tables

TITLE = "Many small data sets, learned from a few points each"
LEGEND = (
    "The root of the mean squared error on held-out tasks, in the unit of the target: each task is learned up to ten "
    "times from other points and judged on the same rows by all methods. ± is the 95 % interval over the tasks of all "
    "splits. Baselines are fitted to the same training tasks; what they leave open is chosen on validation tasks."
)


def write(
    folder: Path, result: dict[str, Any], known: dict[str, Entry], curves: dict[str, list[dict[str, Any]]], mark: str
) -> None:
    """Writes report.html and the figures."""
    parts = [f"<h1>{TITLE}</h1>", f"<p>{html.escape(LEGEND)} {html.escape(result['protocol'])}</p>"]
    for name, (head, rows) in tables(result).items():
        parts += [f"<h2>{html.escape(name)}: {html.escape(known[name].what)}</h2>", table(head, rows)]
    parts.append(write_figure(folder / "figures", _figure(result["rows"]), mark))
    if drawn := [(name, Curve(**told)) for name, some in curves.items() for told in some]:
        parts.append(write_figure(folder / "figures", _adapted(drawn), mark))
    parts.append(made_by(result))
    write_text(folder / "report.html", page(TITLE, map(Markup, parts)))


def _figure(rows: list[dict[str, Any]]) -> Figure:
    data = [
        (row["setting"]["set"], row["method"], row["setting"]["points"], row["mean"], row["interval95"]) for row in rows
    ]
    sets = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        "error-by-points", "Error against the number of points learned from",
        "Each line a method; bars are 95 % intervals over held-out tasks. Baselines are dashed.",
        [partial(_lines, name, rows) for name in sets], ("set", "method", "points", "rmse", "interval95"), data,
    )  # fmt: skip


def _adapted(drawn: list[tuple[str, Curve]]) -> Figure:
    data = [(name, c.task, at, m) for name, c in drawn for at, m in zip(c.at, c.middle, strict=True)]
    return Figure(
        "adapted-curves", "Tasks that were held out, learned from five points",
        "MT-net in the first split: the points learned from, the others, the prediction and its 90 % interval.",
        [partial(_one, name, curve) for name, curve in drawn], ("set", "task", "x", "prediction"), data,
    )  # fmt: skip


def _one(name: str, curve: Curve, ax: Any) -> None:
    draw_curve(ax, curve, ("MT-net", style(1)["color"]))
    ax.set_title(f"{name}: {curve.task}", fontsize=8)
    ax.legend(fontsize=5)


def _lines(name: str, rows: list[dict[str, Any]], ax: Any) -> None:
    mine = [row for row in rows if row["setting"]["set"] == name]
    for number, method in enumerate(dict.fromkeys(row["method"] for row in mine)):
        own = [row for row in mine if row["method"] == method]
        look = style(number) | {"linestyle": "-" if own[0]["ours"] else "--"}
        points = [row["setting"]["points"] for row in own]
        mean, half = ([math.nan if r[key] is None else r[key] for r in own] for key in ("mean", "interval95"))
        ax.errorbar(points, mean, half, label=method, capsize=2, **look)
    ax.set(title=name, xlabel="points learned from", ylabel=f"error, {mine[0]['setting']['unit']}", yscale="log")
    ax.legend(fontsize=5)
