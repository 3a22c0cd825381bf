"""The report of the table: one HTML file that needs nothing else, its figures beside it."""

import html
import math
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import page, table
from fewstep.reproduce._figure import Figure, style, write_figure
from fewstep.reproduce._report import made_by
from fewstep.reproduce.layerwise import _claims
from fewstep.reproduce.layerwise._measures import NAMES
from fewstep.reproduce.layerwise._published import COLUMNS
from fewstep.reproduce.layerwise._rows import Row, columns

TITLE = "Networks without backpropagation, learned layer by layer"
HEAD = ["set", "method", "", "sigma", *COLUMNS, ""]
OURS = ["set", "method", *NAMES]
REAL = ["method", "sets", "mean test accuracy", "ISM's", "ISM's time, of its", "largest"]
SCORES = ["set", "method", "test accuracy", "seconds", "ISM's time is"]
LEGENDS = {
    "poster": (
        "Mean ± standard deviation over the test folds; * is ours, not the authors'. MSE, CE, C and T as the authors "
        "define them for each method. Published: the poster; for W_s, on a third line, the authors' later files. ISM "
        "meets the poster where each column but time is within two of its deviations, or .01 where that is more; W_s "
        "meets where its test accuracy is within .05 of the later files. Test rows are scaled with the training rows' "
        "statistics."
    ),
    "ours": "The same networks, every measure in one definition for all, of the features that the read-out reads.",
    "real": (
        "Wine, cancer, UCI car, face and divorce, those that are here: the mean over these sets of the test accuracy "
        "of the method and of ISM with balanced classes, and how long ISM takes for each second of the method: the "
        "median and the largest over the sets."
    ),
    "scores": (
        "One fold's fit alone, without compiling and without calibration. The comparisons are scikit-learn's at their "
        "defaults, columns scaled."
    ),
}  # fmt: skip


def write(folder: Path, result: dict[str, Any], mark: str) -> Path:
    """Writes `report.html` and the figures."""
    parts = [f"<h1>{TITLE}</h1>", *([f"<p class=mark>{html.escape(mark.capitalize())}.</p>"] if mark else [])]
    for name, (head, body) in tables(result).items():
        parts += [f"<h2>{_TITLES[name]}</h2>", table(head, body)]
        parts += [f"<p class=note>{html.escape(LEGENDS[name])}</p>"] if name in LEGENDS else []
    drawn = [*_figures(result["rows"]), *_claims.figures(result.get("claims", {}))]
    parts += [write_figure(folder / "figures", figure, mark) for figure in drawn]
    parts.append(made_by(result))
    write_text(folder / "report.html", page(TITLE, map(Markup, parts)))
    return folder / "report.html"


_TITLES = {
    "poster": "The poster's table", "ours": "One definition for all", "scores": "Accuracy and time",
    "real": "On the sets of the world", "sets": "The sets", "claims": "The claims",
}  # fmt: skip


def tables(result: dict[str, Any]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """The tables of a result as text, by name: head and rows."""
    rows = result["rows"]
    measured = [row for row in rows if row["ours"]]
    made = {
        "poster": (HEAD, [line for row in measured for line in _lines(row)]),
        "ours": (OURS, [[row["set"], row["label"], *(_pair(row["ours"][name]) for name in NAMES)] for row in measured]),
        "scores": (SCORES, [_score(row, rows) for row in rows]),
    }  # fmt: skip
    if real := _real(rows):
        made["real"] = (REAL, real)
    made["sets"] = (["set", "what"], [[name, what] for name, what in {row["set"]: row["what"] for row in rows}.items()])
    if result.get("claims"):
        made["claims"] = _claims.table(result["claims"])
    return made


def _lines(row: Row) -> list[list[str]]:
    own = [row["set"], row["label"], _folds(row), _number(row["sigma"] and row["sigma"][0])]
    lines = [[*own, *(_pair(pair) for pair in columns(row).values()), row["verdict"]]]
    for name, told in (("poster", row["published"]), ("later files", row["later"])):
        if told is not None:
            lines.append(["", "", name, _number(told["sigma"]), *(_pair(told[column]) for column in COLUMNS), ""])
    return lines


def _folds(row: Row) -> str:
    told = "ours" if row["folds"] >= 10 else f"ours, {row['folds']} folds"
    return told if row.get("timed", row["folds"]) == row["folds"] else f"{told}, {row['timed']} of them timed"


def _seconds(row: Row) -> float:
    """The mean time of a fold, not a number where none was timed."""
    return row["seconds"][0] if row["seconds"] else math.nan


def _score(row: Row, rows: list[Row]) -> list[str]:
    ism = next((other for other in rows if other["set"] == row["set"] and other["method"] == "ism"), None)
    ratio = math.nan if ism is None or ism is row else _seconds(ism) / _seconds(row)
    time = _number(row["seconds"] and row["seconds"][0])
    return [row["set"], row["label"], _pair(row["test"]), time, "" if math.isnan(ratio) else f"{ratio:.2g} of it"]


def _real(rows: list[Row]) -> list[list[str]]:
    """Each method against ISM with balanced classes on the sets of the world that both have."""
    ism = {row["set"]: row for row in rows if row["method"] == "ism-balanced" and row["real"]}
    made = []
    for method in dict.fromkeys(row["method"] for row in rows):
        pairs = [(row, ism[row["set"]]) for row in rows if row["method"] == method and row["set"] in ism]
        if pairs and method != "ism-balanced":
            mean = lambda part, pairs=pairs: sum(pair[part]["test"][0] for pair in pairs) / len(pairs)
            ratios = [ratio for row, own in pairs if not math.isnan(ratio := _seconds(own) / _seconds(row))] or [
                math.nan
            ]
            median = sorted(ratios)[len(ratios) // 2]
            made.append([pairs[0][0]["label"], str(len(pairs)), f"{mean(0):.3f}", f"{mean(1):.3f}",
                         f"{median:.2g}", f"{max(ratios):.2g}"])  # fmt: skip
    return made


def _figures(rows: list[Row]) -> list[Figure]:
    sets = list(dict.fromkeys(row["set"] for row in rows))
    data = [(row["set"], row["label"], _seconds(row), row["test"][0], row["test"][1]) for row in rows]
    return [Figure(
        "accuracy-by-time", "Test accuracy against the time of a fit",
        "A point a method: mean over the folds, bars of one deviation; seconds of one fit, without compiling.",
        [partial(_points, name, [row[1:] for row in data if row[0] == name]) for name in sets],
        ("set", "method", "seconds", "test", "deviation"), data,
    )]  # fmt: skip


def _points(title: str, rows: list[tuple[Any, ...]], ax: Any) -> None:
    for number, (label, seconds, test, spread) in enumerate(rows):
        look = {"color": style(number)["color"], "marker": "osD^vP*"[number % 7], "capsize": 2}
        ax.errorbar(seconds, test, spread, label=label, linestyle="none", **look)
    ax.set(title=title, xscale="log", xlabel="seconds", ylim=(0, 1.05))
    ax.legend(fontsize=6, loc="lower right")


def _pair(pair: Any) -> str:
    if pair is None:
        return "-"
    return f"{_number(pair[0])} ± {_number(pair[1])}"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
