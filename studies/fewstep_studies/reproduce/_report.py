"""The report of a study: its tables and figures in one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import heading, link, note, page, paragraph, table
from fewstep_studies.reproduce._figure import write_figure
from fewstep_studies.reproduce._rows import Cost, Result, Row, Unfinished
from fewstep_studies.reproduce._study import AnyStudy, M, O, P, Results, Study, Table

HEAD = ["method", "setting", "ours", "std", "paper", ""]
_UNFINISHED = ["row", "validated at step", "accuracy there", "minutes", "goes on with"]
_COST = {
    "setting": "setting", "steps": "steps", "training_minutes": "training, min", "training_seconds": "training, s",
    "steps_per_second": "steps/s", "times_maml": "times MAML", "steps_per_second_all_seeds": "steps/s, all seeds",
    "times_maml_all_seeds": "times MAML, all seeds", "steps_to_maml_final_error": "steps to MAML's error",
    "seconds_to_maml_final_error": "seconds to it",
}  # fmt: skip
_COST_LEGEND = (
    "Training is that of all seeds, with compiling. Steps per second are without: of one seed and of all together, "
    "with the methods taking turns; where no ratio to MAML stands, it is the training's own rate. For MT-net against "
    "MAML the paper has 2.1. The last columns: when the error on the validation tasks, the mean over seeds, reaches "
    "MAML's final one, and how long that takes at the speed of all seeds together."
)
_ROWS_LEGEND = "Training is the wall time of all processes that trained the row, with compiling and validating."
_PLAIN = {
    "shots": "{} shots", "ways": "{} ways", "inner steps": "{} inner steps", "statistics": "statistics {}",
    "steps": "{:,} steps",
}  # fmt: skip


def tables_of(study: AnyStudy, result: Result) -> list[Table]:
    """The tables of a result: the study's own, or that of its rows, with costs and what is under way."""
    if study.tables:
        return study.tables(result)
    tables = [main_table(study.name, result.rows, study.texts.legend)]
    if result.cost:
        legend = _ROWS_LEGEND if study.gathers else _COST_LEGEND
        tables.append(Table(f"{study.name} cost", *cost_table(result.cost), "Cost and convergence", legend))
    if result.unfinished:
        rows = unfinished_rows(result.unfinished)
        tables.append(Table(f"{study.name} under way", _UNFINISHED, rows, "Under way"))
    return tables


def main_table(mark: str, rows: list[Row], legend: str = "") -> Table:
    """The table of a result's rows, or of some of them."""
    return Table(mark, HEAD, table_rows(rows), legend=legend)


def write_report(folder: Path, study: Study[O, P, M], results: Results[O, P, M], result: Result) -> None:
    """Writes `report.html`, the figures' files and the pages beside it."""
    mark = "" if study.is_full(results.options) else study.describe(results.options)
    parts = [heading(study.texts.title, 1), *([paragraph(f"{mark[:1].upper()}{mark[1:]}.", "mark")] if mark else [])]
    parts += [paragraph(text) for text in (result.protocol, *study.texts.reading.split("\n\n"))]
    for shown in tables_of(study, result):
        parts += [heading(shown.title)] if shown.title else []
        parts += [table(shown.head, shown.body), *([note(shown.legend)] if shown.legend else [])]
    parts += [write_figure(folder / "figures", figure, mark) for figure in study.figures(results) if figure.panels]
    for name, text in (study.pages(results) if study.pages else {}).items():
        write_text(folder / f"{name}.html", page(f"{study.texts.title}: {name}", [text]))
        parts.append(paragraph(link(f"{name}.html", name.capitalize())))
    parts.append(made_by(result.command, result.versions, result.commit))
    write_text(folder / "report.html", page(study.texts.title + (f" ({mark})" if mark else ""), parts))


def made_by(command: str, versions: Mapping[str, str], commit: str | None) -> Markup:
    """The last line of a report: command, versions and commit."""
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    text = Markup("Made by <code>{}</code> with {}, commit {}.").format(command, packages, commit or "unknown")
    return note(text)


def table_rows(rows: list[Row]) -> list[list[str]]:
    """The rows of the result as text."""
    return [
        [
            row.method + (" *" if row.ours else ""),
            _setting(row),
            _ours(row) + _lost(row),
            "-" if row.seed_std is None else _short(row.seed_std, 3),
            _with_interval(row.published, row.published_interval95, row.metric),
            row.verdict,
        ]
        for row in rows
    ]


def unfinished_rows(rows: Sequence[Unfinished]) -> list[list[str]]:
    """The rows under way as text."""
    return [
        [
            row.cell, f"{row.step:,} of {row.steps:,}", _with_interval(row.validation_accuracy, None, "accuracy"),
            f"{row.seconds / 60:.0f}", row.command,
        ]
        for row in rows
    ]  # fmt: skip


def cost_table(cost: Sequence[Cost]) -> tuple[list[str], list[list[str]]]:
    """The head and rows of the table of costs, without the columns that were not measured."""
    columns = [key for key in _COST if any(getattr(row, key) is not None for row in cost)]
    body = [[row.method, *(_cost(getattr(row, key)) for key in columns)] for row in cost]
    return ["method", *(_COST[key] for key in columns)], body


def _cost(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _ours(row: Row) -> str:
    if row.mean is None and row.verdict != "diverged":
        lost = f"not finite on {row.diverged_tasks} of {row.n_tasks} tasks"
        return lost if row.median is None else f"{lost}, median {_short(row.median, 3)}"
    return "diverged" if row.mean is None else _with_interval(row.mean, row.interval95, row.metric)


def _with_interval(mean: float | str | None, interval: float | None, metric: str) -> str:
    if mean is None or isinstance(mean, str):
        return mean or "-"
    if metric == "accuracy":
        return f"{100 * mean:.2f}" + (f" ± {100 * interval:.2f}" if interval is not None else "") + " %"
    return _short(mean, 3) + (f" ± {_short(interval, 3)}" if interval is not None else "")


def _lost(row: Row) -> str:
    return f" ({row.diverged_seeds} of {row.seeds} seeds diverged)" if 0 < row.diverged_seeds < row.seeds else ""


def _short(value: float | str, digits: int | None = None) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:g}" if digits is None else f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.4g}"


def _setting(row: Row) -> str:
    """The setting in words; what is measured is said where it is not the error."""
    words = [
        _PLAIN[key].format(value) if key in _PLAIN else f"{key.replace('_', '-')} {_short(value)}"
        for key, value in row.setting.items()
    ]
    return ", ".join([*([row.metric] if row.metric not in ("mse", "accuracy") else []), *words])
