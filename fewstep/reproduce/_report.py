"""The report of a study: its table and figures in one HTML file that needs nothing else."""

import html
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import page, table
from fewstep.reproduce._figure import Figure, write_figure
from fewstep.reproduce._study import Row, Scale, Study

_COST_LEGEND = (
    "Training is that of all seeds, with compiling. Steps a second are without: of one seed and of all together, with "
    "the methods taking turns; where no ratio to MAML stands, it is the training's own rate. For MT-net against MAML "
    "the paper has 2.1. The last columns: when the error on the validation tasks, the mean over seeds, reaches MAML's "
    "final one, and how long that takes at the speed of all seeds together."
)
_ROWS_LEGEND = "Training is the wall time of all processes that trained the row, with compiling and validating."


def write_report(
    folder: Path, study: Study, scale: Scale, result: dict[str, Any], figures: list[Figure], pages: dict[str, str]
) -> Path:
    """Writes `report.html`, the figures' files and the pages beside it; returns the report's path."""
    mark = "" if scale.full else scale.describe()
    parts = [f"<h1>{html.escape(study.title)}</h1>"]
    parts += [f"<p class=mark>{html.escape(mark.capitalize())}.</p>"] if mark else []
    parts += [f"<p>{html.escape(text)}</p>" for text in (result["protocol"], study.reading)]
    parts += [table(HEAD, table_rows(result["rows"])), f"<p class=note>{html.escape(study.legend)}</p>"]
    if result.get("cost"):
        head, body = cost_table(result["cost"])
        legend = _ROWS_LEGEND if study.by_row else _COST_LEGEND
        parts += ["<h2>Cost and convergence</h2>", table(head, body), f"<p class=note>{html.escape(legend)}</p>"]
    if result.get("unfinished"):
        parts += ["<h2>Under way</h2>", table(UNFINISHED, unfinished_rows(result["unfinished"]))]
    parts += [write_figure(folder / "figures", figure, mark) for figure in figures if figure.panels]
    for name, text in pages.items():
        write_text(folder / f"{name}.html", page(f"{study.title}: {name}", [Markup(text)]))
        parts.append(f'<p><a href="{name}.html">{html.escape(name.capitalize())}</a></p>')
    parts.append(made_by(result))
    write_text(folder / "report.html", page(study.title + (f" ({mark})" if mark else ""), map(Markup, parts)))
    return folder / "report.html"


def made_by(result: dict[str, Any]) -> str:
    """The last line of a report: command, versions and commit."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    made = f"Made by <code>{html.escape(result['command'])}</code> with {html.escape(versions)}"
    return f"<p class=note>{made}, commit {html.escape(str(result['commit'] or 'unknown'))}.</p>"


HEAD = ["method", "setting", "ours", "std", "paper", ""]
UNFINISHED = ["row", "validated at step", "accuracy there", "minutes", "goes on with"]


def table_rows(rows: list[Row]) -> list[list[str]]:
    """The rows of the result as text."""
    return [
        [
            row["method"] + (" *" if row["ours"] else ""),
            _setting(row),
            _ours(row) + _lost(row),
            "-" if row["seed_std"] is None else _short(row["seed_std"], 3),
            _with_interval(row["published"], row.get("published_interval95"), row["metric"]),
            row["verdict"],
        ]
        for row in rows
    ]


def unfinished_rows(rows: list[Row]) -> list[list[str]]:
    """The rows under way as text."""
    return [
        [
            row["cell"], f"{row['step']:,} of {row['steps']:,}",
            _with_interval(row["validation_accuracy"], None, "accuracy"), f"{row['seconds'] / 60:.0f}", row["command"],
        ]
        for row in rows
    ]  # fmt: skip


def cost_table(cost: list[Row]) -> tuple[list[str], list[list[str]]]:
    """The head and rows of the table of costs, without the columns that were not measured."""
    columns = {
        "setting": "setting",
        "steps": "steps",
        "training, min": "training_minutes",
        "training, s": "training_seconds",
        "steps/s": "steps_per_second",
        "times MAML": "times_maml",
        "steps/s, all seeds": "steps_per_second_all_seeds",
        "times MAML, all seeds": "times_maml_all_seeds",
        "steps to MAML's error": "steps_to_maml_final_error",
        "seconds to it": "seconds_to_maml_final_error",
    }
    told = {title: key for title, key in columns.items() if any(row.get(key) is not None for row in cost)}
    body = [[row["method"], *("-" if row[key] is None else _cost(row[key]) for key in told.values())] for row in cost]
    return ["method", *told], body


def _cost(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _ours(row: Row) -> str:
    if row["mean"] is None and row["verdict"] != "diverged":
        told = f"not finite on {row['diverged_tasks']} of {row['n_tasks']} tasks"
        return told if row["median"] is None else f"{told}, median {_short(row['median'], 3)}"
    return "diverged" if row["mean"] is None else _with_interval(row["mean"], row["interval95"], row["metric"])


def _with_interval(mean: float | None, interval: float | None, metric: str) -> str:
    if mean is None:
        return "-"
    if metric == "accuracy":
        return f"{100 * mean:.2f}" + (f" ± {100 * interval:.2f}" if interval is not None else "") + " %"
    return _short(mean, 3) + (f" ± {_short(interval, 3)}" if interval is not None else "")


def _lost(row: Row) -> str:
    lost = row.get("diverged_seeds") or 0
    return f" ({lost} of {row['seeds']} seeds diverged)" if 0 < lost < row["seeds"] else ""


def _short(value: Any, digits: int | None = None) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if digits is None else f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.4g}"


def _setting(row: Row) -> str:
    """The setting in words; what is measured is said where it is not the error."""
    plain = {
        "shots": "{} shots", "ways": "{} ways", "inner steps": "{} inner steps", "statistics": "statistics {}",
        "steps": "{:,} steps",
    }  # fmt: skip
    words = [
        plain[key].format(value) if key in plain else f"{key.replace('_', '-')} {_short(value)}"
        for key, value in row["setting"].items()
    ]
    return ", ".join([*([row["metric"]] if row["metric"] not in ("mse", "accuracy") else []), *words])
