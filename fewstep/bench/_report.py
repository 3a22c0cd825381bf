"""What is shown of the bench: a table for a terminal and a page, and plots with their data."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fewstep.files import write_text
from fewstep.reports.page import page, table
from fewstep.reproduce import Figure, made_by, style, write_figure

TITLE = "How fast, beside other libraries"
HEAD = [
    "workload", "system", "steps/s", "lowest to highest", "times fewstep's", "compile, s", "peak, MB", "adapt, ms",
    "p99, ms", "same gradient",
]  # fmt: skip
GROWN = ["along", "at", "system", "ms a step", "peak, MB", "of it beyond the start"]
_LEGEND = (
    "Meta-steps a second: the median of turns in which the systems took steps one after the other, each in a process "
    "of its own with all cores. Ours draw their tasks inside the step, the others have them ready. Compiling is apart. "
    "Peak is the most memory held while stepping; adapt is learning one new task and predicting, from arrays to "
    "arrays. Each system's query loss and meta-gradient were first compared with ours: the last column is their "
    "relative distance."
)


def write(folder: Path, result: dict[str, Any]) -> None:
    """Writes report.html and the figures."""
    mark = "a quick look, not a measurement" if result["quick"] else ""
    parts = [f"<h1>{TITLE}</h1>", f"<p>{_LEGEND}</p>", table(HEAD, table_rows(result["rows"]))]
    parts += [f"<p>{line}</p>" for line in remarks(result)]
    parts.append(write_figure(folder / "figures", _speeds(result["rows"]), mark))
    if result["sweeps"]:
        parts += [table(GROWN, grown_rows(result["sweeps"])), write_figure(folder / "figures", _growth(result), mark)]
    parts.append(made_by(result["command"], result["versions"], result["commit"]))
    write_text(folder / "report.html", page(TITLE, parts))


def table_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The rows as text."""
    return [_cells(row) for row in rows]


def _cells(row: dict[str, Any]) -> list[str]:
    if row["steps_per_s"] is None:
        return [row["workload"], row["system"], f"failed: {row['error']}", *[""] * (len(HEAD) - 3)]
    apart = f"{max(row['loss_differs'], row['gradient_differs']):.0e}" if "agrees" in row else ""
    return [
        row["workload"], row["system"], _short(row["steps_per_s"]), " to ".join(map(_short, row["spread"])),
        _short(row.get("ratio_to_fewstep")), _short(row["compile_s"]), _short(row["peak_mb"]),
        _short(row["adapt_p50_ms"]), _short(row["adapt_p99_ms"]), apart if row.get("agrees", True) else f"NO: {apart}",
    ]  # fmt: skip


def grown_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The sweeps as text."""
    return [
        [row["along"], str(row["at"]), row["system"], _short(1000 / row["steps_per_s"]), _short(row["peak_mb"]),
         _short(row["peak_mb"] - row["base_mb"] if row["peak_mb"] and row["base_mb"] else None)]
        for row in rows if row["steps_per_s"]
    ]  # fmt: skip


def remarks(result: dict[str, Any]) -> list[str]:
    """What the tables do not say."""
    said = [f"A product of two matrices of 2,048 rows reaches {result['matmul_gflops']:.0f} GFLOP/s here."]
    for name, roof in result["roofline"].items():
        said.append(
            f"{name}: {roof['gflop']:.3g} GFLOP a step at {roof['gflops']:.0f} GFLOP/s, {100 * roof['fraction']:.0f} % "
            "of a large matrix product."
        )
    if begin := result["beginning"]:
        said.append(
            f"Importing fewstep takes {begin['import_s']:.1f} s; from `fewstep train maml sinusoid` to the end of its "
            f"first step {begin['first_step_s']:.1f} s, and {begin['first_step_again_s']:.1f} s at the second start."
        )
    return [*said, f"Images: {result['images']}."]


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _speeds(rows: list[dict[str, Any]]) -> Figure:
    data = [(r["workload"], r["system"], r["steps_per_s"], *r["spread"]) for r in rows if r["steps_per_s"]]
    works = list(dict.fromkeys(row[0] for row in data))
    return Figure(
        "speed", "Meta-steps a second", "Bars from the lowest to the highest turn. Logarithmic.",
        [partial(_bars, work, [row for row in data if row[0] == work]) for work in works],
        ("workload", "system", "steps_per_s", "lowest", "highest"), data,
    )  # fmt: skip


def _bars(work: str, rows: list[tuple[Any, ...]], ax: Any) -> None:
    for number, (_, system, rate, low, high) in enumerate(reversed(rows)):
        color = style(0 if system.startswith("fewstep") else 1)["color"]
        ax.barh(number, rate, color=color, xerr=[[rate - low], [high - rate]], capsize=2)
        ax.text(high, number, f" {_short(rate)}", va="center", fontsize=6)
    ax.set_yticks(range(len(rows)), [row[1] for row in reversed(rows)], fontsize=7)
    ax.set(title=work, xlabel="meta-steps/s", xscale="log")
    ax.margins(x=0.25)


def _growth(result: dict[str, Any]) -> Figure:
    rows = [row for row in result["sweeps"] if row["steps_per_s"]]
    data = [(r["along"], r["at"], r["system"], 1000 / r["steps_per_s"], r["peak_mb"], r["base_mb"]) for r in rows]
    kinds = list(dict.fromkeys(row[0] for row in data))
    panels: list[Callable[[Any], None]] = [partial(_lines, kind, "ms a meta-step", 3, data) for kind in kinds]
    panels.append(partial(_lines, "inner steps", "peak memory, MB", 4, data))
    return Figure(
        "growth", "How time and memory grow", "Omniglot 5-way 1-shot; 32 tasks, along the inner steps 16.", panels,
        ("along", "at", "system", "ms", "peak_mb", "base_mb"), data,
    )  # fmt: skip


def _lines(kind: str, what: str, column: int, data: list[tuple[Any, ...]], ax: Any) -> None:
    mine = [row for row in data if row[0] == kind]
    for number, system in enumerate(dict.fromkeys(row[2] for row in mine)):
        own = [row for row in mine if row[2] == system]
        ax.plot([row[1] for row in own], [row[column] for row in own], marker="o", label=system, **style(number))
    ax.set(xlabel=kind, ylabel=what, xscale="log", yscale="log")
    ax.set_xticks([row[1] for row in mine], [str(row[1]) for row in mine])
    ax.minorticks_off()
    ax.legend(fontsize=6)
