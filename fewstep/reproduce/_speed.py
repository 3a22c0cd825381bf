"""The speed of methods side by side: the same tasks, compiled first, then timed in turns so that noise hits all."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from fewstep.experiments.experiment import Experiment
from fewstep.machine.steps import make_steps


def measure(
    experiments: dict[str, Experiment], reference: str, say: Callable[[str], None], *, seconds: float, repeats: int
) -> dict[str, Any]:
    """For each label the median, lowest and highest steps a second, the seconds to compile, and, if the reference is
    among them, the ratio of its time to the reference's: the median over the turns."""
    timed = {}
    for number, (label, experiment) in enumerate(experiments.items()):
        say(f"Timing {number + 1} of {len(experiments)}: compiling {label}.")
        timed[label] = _prepare(experiment, seconds)
    rates: dict[str, list[float]] = {label: [] for label in timed}
    for _ in range(repeats):
        for label, (_, run) in timed.items():
            rates[label].append(run())
    compared = rates.get(reference, [])
    return {
        label: {
            "steps_per_second": median(found),
            "lowest": min(found),
            "highest": max(found),
            "compile_seconds": timed[label][0],
            "times_reference": median(a / b for a, b in zip(compared, found, strict=True)) if compared else None,
            "seeds": experiments[label].seeds,
        }
        for label, found in rates.items()
    }


def _prepare(experiment: Experiment, seconds: float) -> tuple[float, Callable[[], float]]:
    """The seconds to compile, and a function that runs for about so many seconds and tells the steps a second."""
    _, take = make_steps(experiment)
    begin = time.perf_counter()
    take(1)
    compiled = time.perf_counter() - begin
    steps = 100

    def run() -> float:
        nonlocal steps
        begin = time.perf_counter()
        take(steps)
        rate = steps / (time.perf_counter() - begin)
        steps = max(1, int(rate * seconds))
        return rate

    run()
    return compiled, run
