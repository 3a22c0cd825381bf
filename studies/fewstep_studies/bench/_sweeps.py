"""How time and memory grow: with tasks, inner steps, width and devices; and how long a start takes."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fewstep.machine.devices import cores
from fewstep_studies.bench._measure import Effort, measure
from fewstep_studies.bench._records import Row, Startup
from fewstep_studies.bench._system import REMAT, SYSTEMS, VMAP, is_installed
from fewstep_studies.bench._workloads import Workload, omniglot

_OURS = SYSTEMS[0]


def sweeps() -> dict[str, list[tuple[int, Workload]]]:
    """Omniglot with one thing changed, by the name of that thing."""
    base = omniglot(1)
    return {
        "tasks": [(n, base.replace(tasks=n)) for n in (1, 8, 32, 128)],
        "inner steps": [(n, omniglot(n, tasks=16)) for n in (1, 5, 10, 20)],
        "filters": [(n, base.replace(filters=n)) for n in (16, 32, 64, 128)],
        "devices": [(n, base.replace(devices=n)) for n in sorted({1, cores()})],
    }


def measure_sweeps(folder: Path, python: Path | None, effort: Effort, say: Callable[[str], None]) -> list[Row]:
    """The rows of all sweeps: ours, ours with rematerialization along the inner steps, and `torch.func` beside them."""
    rows = []
    for along, points in sweeps().items():
        systems = [_OURS, *([REMAT] if along == "inner steps" else []), *([VMAP] if along != "devices" else [])]
        systems = [system for system in systems if is_installed(system, python)]
        for at, work in points:
            work = work.replace(name=f"{at} {along}")
            rows += [row._replace(along=along, at=at) for row in measure(work, systems, folder, python, effort, say)]
    return rows


def measure_startup(say: Callable[[str], None]) -> Startup:
    """Seconds to import the package, and from `fewstep train` to the end of the first step, without and with programs
    that an earlier start has compiled."""
    say("how long a start takes")
    with tempfile.TemporaryDirectory() as cache:
        base, with_import = _seconds("-c", "pass"), _seconds("-c", "import fewstep")
        first, second = (_first_step(cache, "maml", "sinusoid") for _ in range(2))
    return Startup(with_import - base, first, second)


def _first_step(cache: str, *what: str) -> float:
    with tempfile.TemporaryDirectory() as run:
        words = ("train", *what, "--steps", "1", "--no-report", "--run", f"{run}/x")
        return _seconds("-m", "fewstep", *words, environment={"FEWSTEP_CACHE": cache})


def _seconds(*words: str, environment: dict[str, str] | None = None) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env={**os.environ, **(environment or {})})
    return time.perf_counter() - begin
