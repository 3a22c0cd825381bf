"""The speed of methods side by side: the same tasks, compiled first, then timed in turns so that noise hits all."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

from fewstep.experiments.experiment import Experiment
from fewstep.machine.steps import make_steps


class Rate(NamedTuple):
    """The median, lowest and highest steps per second, the seconds to compile, and the time of a step over the
    reference's: the median over the turns."""

    steps_per_second: float
    lowest: float
    highest: float
    compile_seconds: float
    times_reference: float | None
    seeds: int


Speed = Mapping[str, Mapping[str, Rate]]  # `alone` with one seed, `together` with all; by the cell's title


def measure(
    experiments: dict[str, Experiment], reference: str, say: Callable[[str], None], *, seconds: float, repeats: int
) -> dict[str, Rate]:
    """The rate of each, by its label."""
    timed = {}
    for number, (label, experiment) in enumerate(experiments.items()):
        say(f"Timing {number + 1} of {len(experiments)}: compiling {label}.")
        timed[label] = _prepare(experiment, seconds)
    rates: dict[str, list[float]] = {label: [] for label in timed}
    for _ in range(repeats):
        for label, (_, run) in timed.items():
            rates[label].append(run())
    turns = rates.get(reference, [])
    return {
        label: Rate(
            median(own), min(own), max(own), timed[label][0],
            median(a / b for a, b in zip(turns, own, strict=True)) if turns else None, experiments[label].seeds,
        )
        for label, own in rates.items()
    }  # fmt: skip


def _prepare(experiment: Experiment, seconds: float) -> tuple[float, Callable[[], float]]:
    """The seconds to compile, and a function that runs for about so many seconds and returns the steps per second."""
    _, take = make_steps(experiment)
    begin = time.perf_counter()
    take(1)
    compiling = time.perf_counter() - begin
    steps = 100

    def run() -> float:
        nonlocal steps
        begin = time.perf_counter()
        take(steps)
        rate = steps / (time.perf_counter() - begin)
        steps = max(1, int(rate * seconds))
        return rate

    run()
    return compiling, run
