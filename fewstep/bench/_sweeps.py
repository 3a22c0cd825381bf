"""How time and memory grow: with tasks, inner steps, width and devices; and how long it takes to begin."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewstep.bench._measure import Effort, measure
from fewstep.bench._system import KINDS, REMAT, VMAP, present
from fewstep.bench._workloads import Workload, omniglot
from fewstep.machine.layout import cores

Row = dict[str, Any]
_OURS = KINDS[0]


def sweeps() -> dict[str, list[tuple[int, Workload]]]:
    """Omniglot with one thing changed, by the name of that thing."""
    plain = omniglot(1)
    return {
        "tasks": [(n, plain.but(tasks=n)) for n in (1, 8, 32, 128)],
        "inner steps": [(n, omniglot(n, tasks=16)) for n in (1, 5, 10, 20)],
        "filters": [(n, plain.but(filters=n)) for n in (16, 32, 64, 128)],
        "devices": [(n, plain.but(devices=n)) for n in sorted({1, cores()})],
    }


def grow(folder: Path, python: Path | None, effort: Effort, say: Callable[[str], None]) -> list[Row]:
    """The rows of all sweeps: ours, ours with rematerialization along the inner steps, and `torch.func` beside them."""
    rows = []
    for along, points in sweeps().items():
        kinds = [_OURS, *([REMAT] if along == "inner steps" else []), *([VMAP] if along != "devices" else [])]
        kinds = [kind for kind in kinds if present(kind, python)]
        for value, work in points:
            work = work.but(name=f"{value} {along}")
            rows += [row | {"along": along, "at": value} for row in measure(work, kinds, folder, python, effort, say)]
    return rows


def beginning(say: Callable[[str], None]) -> Row:
    """Seconds to import the package, and from `fewstep train` to the end of the first step, with and without programs
    that an earlier start has compiled."""
    say("how long it takes to begin")
    with tempfile.TemporaryDirectory() as cache:
        plain, imported = _seconds("-c", "pass"), _seconds("-c", "import fewstep")
        first = [_first_step(cache, "maml", "sinusoid") for _ in range(2)]
    return {"import_s": imported - plain, "first_step_s": first[0], "first_step_again_s": first[1]}


def _first_step(cache: str, *what: str) -> float:
    with tempfile.TemporaryDirectory() as run:
        words = ("train", *what, "--steps", "1", "--no-report", "--run", f"{run}/x")
        return _seconds("-m", "fewstep", *words, environment={"FEWSTEP_CACHE": cache})


def _seconds(*words: str, environment: dict[str, str] | None = None) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env={**os.environ, **(environment or {})})
    return time.perf_counter() - begin
