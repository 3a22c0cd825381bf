"""What a person sees: messages on stderr, results on stdout."""

import dataclasses
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fewstep import data
from fewstep.experiments.experiment import Experiment, flag
from fewstep.files import finite
from fewstep.machine.meter import time_left

_SECONDS = 2.0
_NAMES = (
    *(field.name for field in dataclasses.fields(Experiment)),
    "drop",
    "overwrite",
    "resume",
    "out",
    "only",
    "n_tasks",
    "folds",
    "bins",
    "examples",
    "images",
)
_QUOTES = "'\""
_ARGUMENT = re.compile(rf"`({'|'.join(_NAMES)})(?:=([^`]*))?`")
_WIDE = 1000  # columns
_STATISTICS = {
    "transductive": "of the query (transductive)", "support": "of the support",
    "layer": "of an image", "group": "of an image",
}  # fmt: skip


def error(message: str) -> None:
    """A mistake, on stderr."""
    print(f"fewstep: {flags(message)}", file=sys.stderr)


def say(message: str) -> None:
    """A remark, on stderr, so that results stay clean."""
    print(flags(message), file=sys.stderr)


def flags(message: str) -> str:
    """A message of the library with its arguments as the command line spells them: `inner_lr=0.1` as --inner-lr 0.1."""

    def spelled(found: re.Match[str]) -> str:
        name, value = found.groups()
        return flag(name) if value in (None, "True") else f"{flag(name)} {value.strip(_QUOTES)}"

    return _ARGUMENT.sub(spelled, message).replace("`fewstep.data.look_in(FOLDER)`", "--data-dir FOLDER")


def watch_data(folder: Path | None) -> None:
    """Looks for data in a folder, and tells of work on them that takes longer than a moment."""
    data.look_in(folder)
    last, begun = [time.monotonic()], dict[str, tuple[float, float]]()

    def progress(what: str, done: float, total: float, unit: str) -> None:
        now = time.monotonic()
        first, before = begun.setdefault(what, (now, done))  # what an earlier process has done says nothing of the rate
        if now - last[0] > _SECONDS and now > first:
            last[0] = now
            rate = (done - before) / (now - first)
            left = f", {time_left((total - done) / rate)}" if rate and total else ""
            share = f" of {_amount(total)}" if total else ""
            say(f"{what}: {_amount(done)}{share} {unit}, {_amount(rate)} {unit}/s{left}")

    data.on_progress(progress, say)


def _amount(number: float) -> str:
    return f"{number:,.1f}" if number < 100 else f"{number:,.0f}"


def as_json(result: Any) -> None:
    """A result for machines."""
    print(json.dumps(finite(result), indent=2, allow_nan=False))


def table(head: list[str], rows: list[list[Any]]) -> None:
    """A result for people."""
    made = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:  # for another program, or a file: no cell is cut or broken
        console = Console(highlight=False, width=_WIDE)
    elif console.is_dumb_terminal:  # whose width rich does not ask for
        console = Console(highlight=False, width=shutil.get_terminal_size().columns)
    console.print(made)


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"


def _entry(key: str, name: str, row: dict[str, Any]) -> str:
    return _number(row.get(key))


def scores_table(judged: dict[str, list[dict[str, Any]]]) -> None:
    """A table of scores, one line for each model, number of shots and number of inner steps."""
    rows = [(name, row) for name, some in judged.items() for row in some]
    metric = rows[0][1]["metric"]
    columns: dict[str, Callable[[str, dict[str, Any]], Any]] = {
        **({"model": lambda name, row: name} if len(judged) > 1 else {}),
        **({"ways": lambda name, row: row["ways"]} if "ways" in rows[0][1] else {}),
        "shots": lambda name, row: row["shots"],
        **({"statistics": lambda name, row: _STATISTICS.get(row.get("norm", ""), "")} if "norm" in rows[0][1] else {}),
        "inner steps": lambda name, row: "" if row["inner_steps"] is None else row["inner_steps"],
        metric: lambda name, row: f"{row['mean']:.4f}",
        "± 95 %": lambda name, row: _number(row["interval95"]),
        "tasks": lambda name, row: row["n_tasks"],
    }
    if any("seed_std" in row for _, row in rows):
        columns["std over seeds"] = lambda name, row: _number(row.get("seed_std"))
    for name, head in (("log_loss", "log loss"), ("auc", "AUC"), ("ece", "calibration error")):
        if any(name in row for _, row in rows):
            columns[head] = partial(_entry, name)
    if any("coverage90" in row for _, row in rows):
        columns["in 90 % interval"] = lambda name, row: (
            f"{100 * row['coverage90']:.0f} %" if "coverage90" in row else ""
        )
    table(list(columns), [[cell(name, row) for cell in columns.values()] for name, row in rows])
