"""The speed of methods side by side: the same tasks, compiled first, then timed in turns so that noise hits all."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

from fewstep.experiments.experiment import Experiment
from fewstep.machine.steps import make_steps


class Rate(NamedTuple):
    """The median, lowest and highest steps per second, the seconds to compile, and the time of a step over the
    reference's: the median over the turns. The same of the processor's time, in which other work counts little."""

    steps_per_second: float
    lowest: float
    highest: float
    compile_seconds: float
    times_reference: float | None
    seeds: int
    processor_seconds: float | None = None
    processor_times_reference: float | None = None


class _Turn(NamedTuple):
    """The seconds of a step in one turn, and those of the processor."""

    seconds: float
    processor: float


Speed = Mapping[str, Mapping[str, Rate]]  # `alone` with one seed, `together` with all; by the cell's title


def measure(
    experiments: dict[str, Experiment], reference: str, say: Callable[[str], None], *, seconds: float, repeats: int
) -> dict[str, Rate]:
    """The rate of each, by its label."""
    timed = {}
    for number, (label, experiment) in enumerate(experiments.items()):
        say(f"Timing {number + 1} of {len(experiments)}: compiling {label}.")
        timed[label] = _prepare(experiment, seconds)
    turns: dict[str, list[_Turn]] = {label: [] for label in timed}
    for _ in range(repeats):
        for label, (_, run) in timed.items():
            turns[label].append(run())
    return {
        label: _rate(own, turns.get(reference, []), timed[label][0], experiments[label].seeds)
        for label, own in turns.items()
    }


def _rate(own: list[_Turn], others: list[_Turn], compiling: float, seeds: int) -> Rate:
    rates = [1 / turn.seconds for turn in own]
    pairs = list(zip(own, others, strict=True)) if others else []
    return Rate(
        median(rates), min(rates), max(rates), compiling,
        median(a.seconds / b.seconds for a, b in pairs) if pairs else None, seeds,
        median(turn.processor for turn in own),
        median(a.processor / b.processor for a, b in pairs) if pairs else None,
    )  # fmt: skip


def _prepare(experiment: Experiment, seconds: float) -> tuple[float, Callable[[], _Turn]]:
    """The seconds to compile, and a function that runs for about so many seconds and returns what a step took."""
    _, take = make_steps(experiment)
    begin = time.perf_counter()
    take(1)
    compiling = time.perf_counter() - begin
    steps = 1

    def run() -> _Turn:
        nonlocal steps
        begin, before = time.perf_counter(), time.process_time()
        take(steps)
        turn = _Turn((time.perf_counter() - begin) / steps, (time.process_time() - before) / steps)
        steps = max(1, int(seconds / turn.seconds))
        return turn

    for _ in range(3):  # from one step on to as many as fit
        run()
    return compiling, run
