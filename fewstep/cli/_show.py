"""What a person sees: messages on stderr, results on stdout."""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fewstep import data
from fewstep.experiments import flag, option_names
from fewstep.files import finite
from fewstep.machine.meter import time_left
from fewstep.problems import ScoreRow

_SECONDS = 2.0
NAMES = {
    *option_names(), "n_tasks", "drop", "overwrite", "out", "format", "resume", "only", "folds", "bins", "examples",
    "images", "distill",
}  # and the options of a user's own code  # fmt: skip
_QUOTES = "'\""
_ARGUMENT = re.compile(r"`(\w+)(?:=([^`]*))?`")
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

    def spelled(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in NAMES:
            return match.group()
        return flag(name) if value in (None, "True") else f"{flag(name)} {value.strip(_QUOTES)}"

    return _ARGUMENT.sub(spelled, message).replace("`fewstep.data.look_in(FOLDER)`", "--data-dir FOLDER")


def watch_data(folder: Path | None) -> None:
    """Looks for data in a folder, and reports work on them that takes longer than a moment."""
    data.look_in(folder)
    data.on_progress(follow(), say)


def follow() -> Callable[[str, float, float, str], None]:
    """What reports work that takes longer than a moment: how much of what is done, its rate, and the time left."""
    last, begun = [time.monotonic()], dict[str, tuple[float, float]]()

    def progress(what: str, done: float, total: float, unit: str) -> None:
        now = time.monotonic()
        first, before = begun.setdefault(what, (now, done))  # what an earlier process has done says nothing of the rate
        if now - last[0] > _SECONDS and now > first:
            last[0] = now
            rate = (done - before) / (now - first)
            rest = f", {time_left((total - done) / rate)}" if rate and total else ""
            share = f" of {_amount(total)}" if total else ""
            say(f"{what}: {_amount(done)}{share} {unit}, {_amount(rate)} {unit}/s{rest}")

    return progress


def _amount(number: float) -> str:
    return f"{number:,.1f}" if number < 100 and number % 1 else f"{number:,.0f}"


def print_json(result: object) -> None:
    """A result for machines."""
    print(json.dumps(finite(result), indent=2, allow_nan=False))


def print_line(text: str) -> None:
    """A result in words, for people."""
    print(text)


def print_table(head: list[str], rows: Sequence[Sequence[object]]) -> None:
    """A result for people."""
    grid = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:  # for another program, or a file: no cell is cut or broken
        console = Console(highlight=False, width=_WIDE)
    elif console.is_dumb_terminal:  # whose width rich does not ask for
        console = Console(highlight=False, width=shutil.get_terminal_size().columns)
    console.print(grid)


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"


def _of_target(target: str, name: str, row: ScoreRow) -> str:
    return _number((row.targets or {}).get(target))


def scores_table(scores: dict[str, list[ScoreRow]]) -> None:
    """A table of scores, one line for each model, number of shots and number of inner steps."""
    rows = [(name, row) for name, some in scores.items() for row in some]
    has = lambda field: any(getattr(row, field) is not None for _, row in rows)
    columns: dict[str, Callable[[str, ScoreRow], object]] = {
        **({"model": lambda name, row: name} if len(scores) > 1 else {}),
        **({"ways": lambda name, row: row.ways} if has("ways") else {}),
        "shots": lambda name, row: row.shots,
        **({"statistics": lambda name, row: _STATISTICS.get(row.norm or "", "")} if has("norm") else {}),
        "inner steps": lambda name, row: "" if row.inner_steps is None else row.inner_steps,
        rows[0][1].metric: lambda name, row: f"{row.mean:.4f}",
        "± 95%": lambda name, row: _number(row.interval95),
        "tasks": lambda name, row: row.n_tasks,
        "std over seeds": lambda name, row: _number(row.seed_std),
        "log loss": lambda name, row: _number(row.log_loss),
        "AUC": lambda name, row: _number(row.auc),
        "calibration error": lambda name, row: _number(row.ece),
        "AUROC of unknown": lambda name, row: _number(row.auroc),
        "in 90% interval": lambda name, row: "" if row.coverage90 is None else f"{100 * row.coverage90:.0f}%",
    }
    optional = {"std over seeds": "seed_std", "log loss": "log_loss", "AUC": "auc", "calibration error": "ece",
                "AUROC of unknown": "auroc", "in 90% interval": "coverage90"}  # fmt: skip
    columns = {head: cell for head, cell in columns.items() if head not in optional or has(optional[head])}
    for target in dict.fromkeys(name for _, row in rows for name in row.targets or ()):
        columns[f"rmse of {target}"] = partial(_of_target, target)
    print_table(list(columns), [[cell(name, row) for cell in columns.values()] for name, row in rows])
