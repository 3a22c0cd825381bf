"""The whole bench: workloads one after the other, a roofline, sweeps; the result as JSON, a table and plots."""

import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median_high
from typing import NamedTuple

from fewstep._errors import FewstepError, unknown
from fewstep.files import JSON, finite, write_json
from fewstep_studies.bench._measure import Effort, measure
from fewstep_studies.bench._problem import write_images
from fewstep_studies.bench._records import Result, Roof, Row, Startup, to_json
from fewstep_studies.bench._report import write_report
from fewstep_studies.bench._roofline import matmul_gflops, step_gflop
from fewstep_studies.bench._sweeps import measure_startup, measure_sweeps
from fewstep_studies.bench._system import OURS, SYSTEMS, System, how_to_install, is_installed
from fewstep_studies.bench._workloads import WORKLOADS
from fewstep_studies.reproduce import made_by, made_with

NAME = "bench"
_QUICK = Effort(turns=3, seconds=0.2, calls=30)


class Choice(NamedTuple):
    """What to measure: workloads and systems by name (all by default), `sweeps` too; `quick` is a look; `peers` is a
    Python that has the other libraries."""

    workloads: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    sweeps: bool = False
    quick: bool = False
    seed: int = 0
    peers: Path | None = None


def run(choice: Choice, folder: Path, say: Callable[[str], None]) -> tuple[Result, dict[str, JSON]]:
    """Measures, and writes `result.json`, `report.html` and the figures into a folder; the result, also as JSON."""
    names, systems = _select(choice, say)
    effort = _QUICK if choice.quick else Effort()
    begin = time.monotonic()
    rows: list[Row] = []
    sweeps: list[Row] = []
    roofs: dict[str, Roof] = {}
    products: list[float] = []
    folder.mkdir(parents=True, exist_ok=True)

    def write(startup: Startup | None = None) -> tuple[Result, dict[str, JSON]]:
        """Writes what is measured so far, so that a bench that is stopped loses only the rest."""
        result = Result(rows, median_high(products), roofs, sweeps, startup, images, choice.quick)
        content = to_json(result) | _provenance(choice, folder)
        content |= {"effort": effort._asdict(), "total_seconds": time.monotonic() - begin}
        write_json(folder / "result.json", content := finite(content))
        write_report(folder, result, made_by(content["command"], content["versions"], content["commit"]))
        return result, content

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        images = write_images(place)
        for name in names:
            products.append(matmul_gflops())
            rows += measure(WORKLOADS[name].replace(seed=choice.seed), systems, place, choice.peers, effort, say)
            roofs |= _roof(name, rows, products[-1])
            write()
        shorter = effort._replace(turns=3, seconds=effort.seconds / 2, calls=5)
        sweeps += measure_sweeps(place, choice.peers, shorter, say) if choice.sweeps else []
    return write(measure_startup(say) if choice.sweeps else None)


def _provenance(choice: Choice, folder: Path) -> dict[str, JSON]:
    return {
        "name": NAME, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "command": _command(choice),
        **made_with(), "scale": {"seed": choice.seed}, "report": str(folder / "report.html"),
    }  # fmt: skip


def _select(choice: Choice, say: Callable[[str], None]) -> tuple[list[str], list[System]]:
    for name in choice.workloads:
        if name not in WORKLOADS:
            raise unknown("workload", name, WORKLOADS)
    names = [system.name for system in SYSTEMS]
    for name in choice.systems:
        if name not in names:
            raise unknown("system", name, names)
    candidates = [system for system in SYSTEMS if not choice.systems or system.name in (OURS, *choice.systems)]
    systems = [system for system in candidates if is_installed(system, choice.peers)]
    if missing := ", ".join(system.name for system in candidates if system not in systems):
        if choice.systems:
            raise FewstepError(f"{missing} cannot be measured: {how_to_install(choice.peers)}")
        say(f"Not measured: {missing}: {how_to_install(choice.peers)}")
    return list(choice.workloads) or list(WORKLOADS), systems


def _roof(name: str, rows: list[Row], product: float) -> dict[str, Roof]:
    """For a workload with one inner step: its operations, and which share of a matrix product's rate ours reaches."""
    work = WORKLOADS[name]
    flop = step_gflop(work)
    ours = next(row for row in rows if row.workload == work.name and row.system == OURS)
    if flop is None or not ours.steps_per_s:
        return {}
    rate = flop * ours.steps_per_s
    return {name: Roof(flop, rate, product, rate / product)}


def _command(choice: Choice) -> str:
    words = ["fewstep bench", *(["--workloads", *choice.workloads] if choice.workloads else [])]
    words += ["--systems", *(repr(name) for name in choice.systems)] if choice.systems else []
    words += ["--seed", str(choice.seed)] if choice.seed else []
    words += ["--sweeps"] * choice.sweeps + ["--quick"] * choice.quick
    return " ".join(words)
