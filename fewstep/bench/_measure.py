"""One workload: every system checked against ours, then timed in turns, so that noise hits all alike."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from fewstep.bench._problem import write_problem
from fewstep.bench._system import OURS, Failed, Kind, Running, started
from fewstep.bench._workloads import Workload

Row = dict[str, Any]
AGREES = 1e-4
_SLOW = 4.0  # times the length of a turn


class Effort(NamedTuple):
    """How long is measured: turns of about so many seconds for each system, and calls that adapt one task."""

    turns: int = 7
    seconds: float = 1.0
    calls: int = 200


class _Systems:
    """Those that run, by name. One that fails leaves, and why it did is kept: the others go on."""

    def __init__(self) -> None:
        self.running: dict[str, Running] = {}
        self.failed: dict[str, str] = {}

    def ask(self, name: str, do: str, **more: Any) -> dict[str, Any] | None:
        """A system's answer, or nothing if it has failed."""
        if name not in self.running:
            return None
        try:
            return self.running[name].ask(do, **more)
        except Failed as error:
            del self.running[name]
            self.failed[name] = str(error)
            return None


def measure(
    work: Workload, kinds: list[Kind], folder: Path, python: Path | None, effort: Effort, say: Callable[[str], None]
) -> list[Row]:
    """A row for each system: steps a second, time to compile, peak memory, and milliseconds to adapt to one task."""
    with ExitStack() as stack:
        systems = _Systems()
        for kind in kinds:
            say(f"{work.name}: starting {kind.name}")
            problem = write_problem(work.but(**dict(kind.changes)), folder)
            try:
                systems.running[kind.name] = stack.enter_context(started(kind, problem, python))
            except Failed as error:
                systems.failed[kind.name] = str(error)
        alike = [kind.name for kind in kinds if "method" not in dict(kind.changes)]
        agreement = _agreement(systems, alike, folder)
        seconds = _in_turns(work, systems, effort, say)
        found = {name: _row(work, name, systems, taken, effort) for name, taken in seconds.items()}
    rows = [found.get(kind.name) or _failed(work, kind.name, systems) for kind in kinds]
    return _compared([row | agreement.get(row["system"], {}) for row in rows], seconds)


def _failed(work: Workload, name: str, systems: _Systems) -> Row:
    return {"workload": work.name, "system": name, "steps_per_s": None, "error": systems.failed[name]}


def _agreement(systems: _Systems, names: list[str], folder: Path) -> dict[str, Row]:
    """How far each system's query loss and meta-gradient are from ours, relative; what is above `AGREES` is told."""
    found, to = {}, folder / "gradient.npz"
    for name in names:
        if (answer := systems.ask(name, "check", to=str(to))) is not None:
            with np.load(to, allow_pickle=False) as held:
                found[name] = (answer["loss"], {path: held[path] for path in held.files})
    if OURS not in found:
        return {}
    loss, gradient = found[OURS]
    return {name: _difference(loss, gradient, *other) for name, other in found.items()}


def _difference(loss: float, gradient: dict[str, Any], other_loss: float, other: dict[str, Any]) -> Row:
    apart = math.sqrt(sum(float(np.square(gradient[path] - other[path]).sum()) for path in gradient))
    size = math.sqrt(sum(float(np.square(array).sum()) for array in gradient.values()))
    told = {"loss_differs": abs(loss - other_loss) / abs(loss), "gradient_differs": apart / size}
    return told | {"agrees": all(value <= AGREES for value in told.values())}  # not a number is above


def _in_turns(work: Workload, systems: _Systems, effort: Effort, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Seconds a step of each system, one number a turn; of one whose step takes long, two turns have to do."""
    counts = {name: _count(systems, name, effort.seconds) for name in list(systems.running)}
    seconds: dict[str, list[float]] = {name: [] for name in systems.running}
    for turn in range(effort.turns):
        say(f"{work.name}: turn {turn + 1} of {effort.turns}")
        for name in list(systems.running):
            slow = seconds[name] and seconds[name][0] > _SLOW * effort.seconds
            if slow and turn >= 2:
                continue
            if (answer := systems.ask(name, "steps", n=counts[name])) is not None:
                seconds[name].append(answer["seconds"] / counts[name])
    return {name: seconds[name] for name in systems.running}


def _count(systems: _Systems, name: str, wanted: float) -> int:
    """How many of a system's steps take about as long as wanted."""
    answer = systems.ask(name, "steps", n=1)
    if answer is not None and answer["seconds"] < wanted / 20:
        some = max(1, round(wanted / answer["seconds"] / 4))
        answer = systems.ask(name, "steps", n=some)
        return max(1, round(wanted / (answer["seconds"] / some))) if answer else 0
    return max(1, round(wanted / answer["seconds"])) if answer else 0


def _row(work: Workload, name: str, systems: _Systems, seconds: list[float], effort: Effort) -> Row | None:
    calls = effort.calls if median(seconds) < _SLOW * effort.seconds else 3
    adapting, peak = systems.ask(name, "adapt", n=calls), systems.ask(name, "memory", n=2)
    if adapting is None or peak is None:
        return None
    times, first = sorted(adapting["seconds"]), systems.running[name].first
    return {
        "workload": work.name, "system": name, "steps_per_s": 1 / median(seconds),
        "spread": [1 / max(seconds), 1 / min(seconds)], "compile_s": first["compile_s"], "turns": len(seconds),
        "peak_mb": peak["peak_mb"], "base_mb": first["base_mb"],
        "adapt_p50_ms": 1000 * median(times), "adapt_p99_ms": 1000 * times[int(0.99 * (len(times) - 1))],
        "about": first["about"], "tasks": work.tasks, "inner_steps": work.inner_steps,
    }  # fmt: skip


def _compared(rows: list[Row], seconds: dict[str, list[float]]) -> list[Row]:
    """With the ratio of each system's speed to ours, turn by turn: the median."""
    for row in rows:
        mine = seconds.get(row["system"])
        if mine and OURS in seconds:
            ratios = [ours / own for ours, own in zip(seconds[OURS], mine, strict=False)]
            row["ratio_to_fewstep"] = median(ratios)
    return rows
