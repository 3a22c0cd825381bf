"""One workload: every system checked against ours, then timed in turns, so that noise hits all alike."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

import numpy as np

from fewstep_studies.bench._problem import write_problem
from fewstep_studies.bench._records import Row
from fewstep_studies.bench._system import OURS, Process, System, SystemFailed, start
from fewstep_studies.bench._workloads import Workload

MAX_DIFFERENCE = 1e-4
_SLOW = 4.0  # times the length of a turn
T = TypeVar("T")
Gradient = dict[str, np.ndarray]


class Effort(NamedTuple):
    """How long to measure: turns of about so many seconds for each system, and calls that adapt one task."""

    turns: int = 7
    seconds: float = 1.0
    calls: int = 200


class Agreement(NamedTuple):
    """The relative distances of a query loss and a meta-gradient from ours, and whether they are small enough."""

    loss_differs: float
    gradient_differs: float
    agrees: bool


class _Processes:
    """The running systems by name. One that fails is removed, with the reason: the others go on."""

    def __init__(self) -> None:
        self.running: dict[str, Process] = {}
        self.errors: dict[str, str] = {}

    def ask(self, name: str, question: Callable[[Process], T]) -> T | None:
        """A system's answer, or `None` if it has failed."""
        if name not in self.running:
            return None
        try:
            return question(self.running[name])
        except SystemFailed as error:
            del self.running[name]
            self.errors[name] = str(error)
            return None


def measure(
    work: Workload, systems: list[System], folder: Path, python: Path | None, effort: Effort, say: Callable[[str], None]
) -> list[Row]:
    """A row for each system: steps per second, time to compile, peak memory, and milliseconds to adapt to one task."""
    with ExitStack() as stack:
        processes = _Processes()
        for system in systems:
            say(f"{work.name}: starting {system.name}")
            problem = write_problem(work.replace(**dict(system.changes)), folder)
            try:
                processes.running[system.name] = stack.enter_context(start(system, problem, python))
            except SystemFailed as error:
                processes.errors[system.name] = str(error)
        same = [system.name for system in systems if "method" not in dict(system.changes)]
        agreements = _compare_gradients(processes, same, folder)
        seconds = _take_turns(work, processes, effort, say)
        rows = {name: _row(work, name, processes, turns, effort) for name, turns in seconds.items()}
    failure = lambda name: Row(work.name, name, error=processes.errors[name])
    rows = {system.name: rows.get(system.name) or failure(system.name) for system in systems}
    return [_compare(row, agreements.get(name), seconds) for name, row in rows.items() if row]


def _compare_gradients(processes: _Processes, names: list[str], folder: Path) -> dict[str, Agreement]:
    """How far each system's query loss and meta-gradient are from ours."""
    results: dict[str, tuple[float, Gradient]] = {}
    file = folder / "gradient.npz"
    for name in names:
        if (loss := processes.ask(name, lambda process: process.check(file))) is not None:
            with np.load(file, allow_pickle=False) as arrays:
                results[name] = (loss, dict(arrays))
    if OURS not in results:
        return {}
    return {name: _difference(*results[OURS], *other) for name, other in results.items()}


def _difference(loss: float, gradient: Gradient, other_loss: float, other: Gradient) -> Agreement:
    apart = math.sqrt(sum(float(np.square(gradient[path] - other[path]).sum()) for path in gradient))
    size = math.sqrt(sum(float(np.square(array).sum()) for array in gradient.values()))
    distances = abs(loss - other_loss) / abs(loss), apart / size
    return Agreement(*distances, all(distance <= MAX_DIFFERENCE for distance in distances))  # NaN is not below


def _take_turns(
    work: Workload, processes: _Processes, effort: Effort, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Seconds per step of each system, one number per turn; a system whose step takes long gets two turns only."""
    counts = {name: _count(processes, name, effort.seconds) for name in list(processes.running)}
    seconds: dict[str, list[float]] = {name: [] for name in processes.running}
    for turn in range(effort.turns):
        say(f"{work.name}: turn {turn + 1} of {effort.turns}")
        for name in list(processes.running):
            slow = seconds[name] and seconds[name][0] > _SLOW * effort.seconds
            if slow and turn >= 2:
                continue
            if (duration := _steps(processes, name, counts[name])) is not None:
                seconds[name].append(duration / counts[name])
    return {name: seconds[name] for name in processes.running}


def _count(processes: _Processes, name: str, duration: float) -> int:
    """How many of a system's steps take about as long as `duration`, in seconds."""
    seconds, steps = _steps(processes, name, 1), 1
    if seconds is not None and seconds < duration / 20:
        steps = max(1, round(duration / seconds / 4))
        seconds = _steps(processes, name, steps)
    return 0 if seconds is None else max(1, round(duration / (seconds / steps)))


def _steps(processes: _Processes, name: str, count: int) -> float | None:
    return processes.ask(name, lambda process: process.steps(count))


def _row(work: Workload, name: str, processes: _Processes, seconds: list[float], effort: Effort) -> Row | None:
    calls = effort.calls if median(seconds) < _SLOW * effort.seconds else 3
    times = processes.ask(name, lambda process: sorted(process.adapt(calls)))
    peak = processes.ask(name, lambda process: process.memory(2))
    if times is None or name not in processes.running:
        return None
    ready = processes.running[name].ready
    return Row(
        work.name, name, 1 / median(seconds), spread=(1 / max(seconds), 1 / min(seconds)),
        compile_s=ready.compile_s, turns=len(seconds), peak_mb=peak, base_mb=ready.base_mb,
        adapt_p50_ms=1000 * median(times), adapt_p99_ms=1000 * times[int(0.99 * (len(times) - 1))],
        about=ready.about, tasks=work.tasks, inner_steps=work.inner_steps,
    )  # fmt: skip


def _compare(row: Row, agreement: Agreement | None, seconds: dict[str, list[float]]) -> Row:
    """The row with its distance from ours, and the ratio of the speeds: the median of the turns."""
    if agreement is not None:
        row = row._replace(**agreement._asdict())
    if row.system in seconds and OURS in seconds:
        ratios = [ours / own for ours, own in zip(seconds[OURS], seconds[row.system], strict=False)]
        row = row._replace(ratio_to_fewstep=median(ratios))
    return row
