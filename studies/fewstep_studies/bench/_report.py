"""The bench's tables, for a terminal and a page, and its plots with their data."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from fewstep.files import write_text
from fewstep.pages import heading, page, paragraph, table
from fewstep_studies.bench._records import Result, Row
from fewstep_studies.reproduce import Figure, style, write_figure

if TYPE_CHECKING:
    import matplotlib.axes

TITLE = "How fast, beside other libraries"
HEAD = [
    "workload", "system", "steps/s", "lowest to highest", "times fewstep's", "compile, s", "peak, MB", "adapt, ms",
    "p99, ms", "same gradient",
]  # fmt: skip
SWEEP_HEAD = ["along", "at", "system", "ms per step", "peak, MB", "above the start"]
_LEGEND = (
    "Meta-steps per second: the median of turns in which the systems took steps one after the other, each in a process "
    "of its own with all cores. fewstep draws its tasks inside the step, the others have them ready. Compiling is not "
    "included. "
    "Peak is the maximum of memory while stepping; adapt is learning one new task and predicting, from arrays to "
    "arrays. Each system's query loss and meta-gradient were first compared with ours: the last column is their "
    "relative distance."
)


def write_report(folder: Path, result: Result, provenance: Markup) -> None:
    """Writes report.html and the figures; `provenance` is its last line, as HTML."""
    mark = "a quick look, not a measurement" if result.quick else ""
    parts = [heading(TITLE, 1), paragraph(_LEGEND), table(HEAD, table_rows(result.rows))]
    parts += [paragraph(line) for line in remarks(result)]
    parts.append(write_figure(folder / "figures", _speeds(result.rows), mark))
    if result.sweeps:
        sweeps = table(SWEEP_HEAD, sweep_rows(result.sweeps))
        parts += [sweeps, write_figure(folder / "figures", _growth(result.sweeps), mark)]
    parts.append(provenance)
    write_text(folder / "report.html", page(TITLE, parts))


def table_rows(rows: list[Row]) -> list[list[str]]:
    """The rows as text."""
    return [_cells(row) for row in rows]


def _cells(row: Row) -> list[str]:
    if row.steps_per_s is None:
        return [row.workload, row.system, f"failed: {row.error}", *[""] * (len(HEAD) - 3)]
    distance = "" if row.agrees is None else f"{max(row.loss_differs or 0, row.gradient_differs or 0):.0e}"
    return [
        row.workload, row.system, _short(row.steps_per_s), " to ".join(map(_short, row.spread or ())),
        _short(row.ratio_to_fewstep), _short(row.compile_s), _short(row.peak_mb), _short(row.adapt_p50_ms),
        _short(row.adapt_p99_ms), f"NO: {distance}" if row.agrees is False else distance,
    ]  # fmt: skip


def sweep_rows(rows: list[Row]) -> list[list[str]]:
    """The sweeps as text."""
    return [
        [row.along or "", str(row.at), row.system, _short(1000 / row.steps_per_s), _short(row.peak_mb),
         _short(row.peak_mb - row.base_mb if row.peak_mb and row.base_mb else None)]
        for row in rows if row.steps_per_s
    ]  # fmt: skip


def remarks(result: Result) -> list[str]:
    """What the tables do not show."""
    lines = [f"A product of two matrices of 2,048 rows reaches {result.matmul_gflops:.0f} GFLOP/s here."]
    for name, roof in result.roofline.items():
        lines.append(
            f"{name}: {roof.gflop:.3g} GFLOP per step at {roof.gflops:.0f} GFLOP/s, {100 * roof.fraction:.0f}% of a "
            "large matrix product."
        )
    if start := result.beginning:
        lines.append(
            f"Importing fewstep takes {start.import_s:.1f} s; from `fewstep train maml sinusoid` to the end of its "
            f"first step {start.first_step_s:.1f} s, and {start.first_step_again_s:.1f} s at the second start."
        )
    return [*lines, f"Images: {result.images}."]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _speeds(rows: list[Row]) -> Figure:
    data = [(row.workload, row.system, row.steps_per_s, *row.spread) for row in rows if row.steps_per_s and row.spread]
    works = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        "speed", "Meta-steps per second", "Bars from the lowest to the highest turn. Logarithmic.",
        [partial(_bars, work, [row for row in data if row[0] == work]) for work in works],
        ("workload", "system", "steps_per_s", "lowest", "highest"), data,
    )  # fmt: skip


def _bars(work: str, rows: list[tuple], ax: "matplotlib.axes.Axes") -> None:
    for number, (_, system, rate, low, high) in enumerate(reversed(rows)):
        color = style(0 if system.startswith("fewstep") else 1)["color"]
        ax.barh(number, rate, color=color, xerr=[[rate - low], [high - rate]], capsize=2)
        ax.text(high, number, f" {_short(rate)}", va="center", fontsize=6)
    ax.set_yticks(range(len(rows)), [row[1] for row in reversed(rows)], fontsize=7)
    ax.set(title=work, xlabel="meta-steps/s", xscale="log")
    ax.margins(x=0.25)


def _growth(rows: list[Row]) -> Figure:
    data = [
        (row.along or "", row.at, row.system, 1000 / row.steps_per_s, row.peak_mb, row.base_mb)
        for row in rows if row.steps_per_s
    ]  # fmt: skip
    kinds = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        "growth", "How time and memory grow", "Omniglot 5-way 1-shot; 32 tasks, along the inner steps 16.",
        [*(partial(_lines, kind, "ms per meta-step", 3, data) for kind in kinds),
         partial(_lines, "inner steps", "peak memory, MB", 4, data)],
        ("along", "at", "system", "ms", "peak_mb", "base_mb"), data,
    )  # fmt: skip


def _lines(kind: str, what: str, column: int, data: list[tuple], ax: "matplotlib.axes.Axes") -> None:
    rows = [row for row in data if row[0] == kind]
    for number, system in enumerate(dict.fromkeys(row[2] for row in rows)):
        points = [(row[1], row[column]) for row in rows if row[2] == system]
        ax.plot(*zip(*points, strict=True), marker="o", label=system, **style(number))
    ax.set(xlabel=kind, ylabel=what, xscale="log", yscale="log")
    ax.set_xticks([row[1] for row in rows], [str(row[1]) for row in rows])
    ax.minorticks_off()
    ax.legend(fontsize=6)
