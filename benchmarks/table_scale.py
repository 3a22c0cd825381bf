"""Trains `auto` on tables of 10,000 and 100,000 rows, each in a process of its own: time, memory, and a profile.

python benchmarks/table_scale.py

Everything is at its default but for `--no-report`, and no compiled program is kept from before. Time is that on the
clock, core time that of all cores together, and the profile is the core time of each stage, as the training reports
them. Linux only: core time and memory are read from /proc. With --compiling the time that XLA takes to compile is
added up, too; it is time on the clock, so it is right on a quiet machine only.

The tables have 20 columns: the task, 17 numbers and a category to predict from, and a number to predict. Tasks differ
in their offset and in the slopes of three columns.
"""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from fewstep.files import write_json

OUT = Path(__file__).parent / "results" / "table-scale.json"
TASKS = {10_000: 200, 100_000: 1000}
NUMBERS, SLOPES, KINDS = 17, 3, ("a", "b", "c", "d")
GOALS = {10_000: 2, 100_000: 10}  # minutes on two cores that do nothing else
GIGABYTES = 3.0
_STAGE = re.compile(r"Training (\S+?),|(Choosing the weights)|Training (\S+) (again)")
_COMPILED = re.compile(r"Finished (?:XLA compilation of|jaxpr to MLIR module conversion|tracing).* in ([0-9.e-]+) sec")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Options:
    """Trainings of `auto` on tables of 20 columns."""

    rows: tuple[int, ...] = tuple(TASKS)
    """Rows of each table: 10,000 or 100,000."""
    members: tuple[str, ...] = ()
    """`members` of `auto` (default: all)."""
    compiling: bool = False
    """Add up the time for compiling."""
    out: Path = OUT
    """The file of the result."""


def table(rows: int, seed: int = 0) -> str:
    """A table as CSV."""
    rng, tasks = np.random.default_rng(seed), TASKS[rows]
    task = np.repeat(np.arange(tasks), rows // tasks)
    x = rng.standard_normal((rows, NUMBERS))
    kind = rng.integers(len(KINDS), size=rows)
    offset, slopes = rng.standard_normal(tasks), 0.5 * rng.standard_normal((tasks, SLOPES))
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * kind + offset[task] + (slopes[task] * x[:, :SLOPES]).sum(1)
    y += 0.3 * rng.standard_normal(rows)
    header = ",".join(["task", *(f"x{n}" for n in range(NUMBERS)), "kind", "y"])
    lines = (
        ",".join([f"t{task[n]}", *(f"{value:.4f}" for value in x[n]), KINDS[kind[n]], f"{y[n]:.4f}"])
        for n in range(rows)
    )
    return "\n".join([header, *lines]) + "\n"


def measure(options: Options, rows: int, folder: Path) -> dict[str, Any]:
    """One training, and what it took."""
    file = folder / "table.csv"
    file.write_text(table(rows))
    x = [f"x{n}" for n in range(NUMBERS)]
    members = ["--members", *options.members] if options.members else []
    command = [
        sys.executable, "-m", "fewstep", "train", "auto", f"table:{file}", "--task", "task", "--x", *x, "kind",
        "--y", "y", "--run", str(folder / "run"), "--no-report", *members,
    ]  # fmt: skip
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    environment |= {"JAX_LOG_COMPILES": "1"} if options.compiling else {}
    begin, stages, compiling, words = time.monotonic(), [("reading", 0.0)], {"reading": 0.0}, ""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    for line in process.stderr or ():
        if (stage := _stage(line)) is not None:
            stages.append((stage, _core_seconds(process.pid)))
            compiling[stage] = 0.0
            print(f"{rows:,} rows, {stages[-1][1]:.0f} s of cores: {stage}", file=sys.stderr, flush=True)
        for seconds in _COMPILED.findall(line):
            compiling[stages[-1][0]] += float(seconds)
        words = line if line.strip() else words
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"The training of {rows:,} rows failed: {words}")
    core = usage.ru_utime + usage.ru_stime
    times = [at for _, at in stages[1:]] + [core]
    shares = zip(stages, times, strict=True)
    return {
        "rows": rows, "tasks": TASKS[rows],
        "seconds": round(time.monotonic() - begin, 1), "goal_seconds": 60 * GOALS[rows], "core_seconds": round(core, 1),
        "peak_megabytes": round(usage.ru_maxrss / 1024), "goal_megabytes": round(1024 * GIGABYTES),
        "core_seconds_by_stage": {name: round(end - start, 1) for (name, start), end in shares},
        **({"compiling_seconds_by_stage": _rounded(compiling)} if options.compiling else {}),
    }  # fmt: skip


def _stage(line: str) -> str | None:
    if (match := _STAGE.search(line)) is None:
        return None
    first, choosing, again, _ = match.groups()
    return first or (choosing and "choosing weights") or f"{again} again"


def _core_seconds(process: int) -> float:
    """The core time of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}


def measured(options: Options) -> Iterator[dict[str, Any]]:
    """All trainings, one after the other."""
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            yield measure(options, rows, Path(folder))


def main(options: Options) -> None:
    """Measures, prints, and writes the result."""
    from fewstep_studies.reproduce import made_with

    rows = []
    for row in measured(options):
        rows.append(row)
        print(json.dumps(row), flush=True)
        command = shlex.join(["python", "benchmarks/table_scale.py", *sys.argv[1:]])
        write_json(
            options.out, {"name": "table-scale", "command": command, "rows": rows, **made_with("scikit-learn")}
        )  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
