"""How many steps fit into a time: measured on this machine, before a training that is given a budget."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fewstep.experiments import Experiment
from fewstep.machine.steps import make_steps
from fewstep.runs.create import pinned
from fewstep.runs.run import CONFIG, open_run

_LOOK = 8.0  # seconds of training that are measured
_VALIDATIONS = 40


_ROWS = 10  # of the log and of validations, at least


class Deadline:
    """A time for several trainings: each gets its share of what is left."""

    def __init__(self, seconds: float):
        self._end, self._trained = time.monotonic() + seconds, 0

    def share(self, parts: int) -> float:
        """The seconds of the next of so many trainings, each of which may be repeated in the end."""
        self._trained += 1
        return max(1.0, (self._end - time.monotonic()) / max(1, 2 * parts + 1 - self._trained))


def planned(experiment: Experiment, path: Path, seconds: float, *, overwrite: bool = False) -> Experiment:
    """The experiment with as many steps as fit into the time; a run that was begun keeps those it began with."""
    if experiment.has("seconds"):  # its parts plan for themselves
        return experiment.replace(seconds=seconds)
    if not experiment.has("outer_lr"):
        return experiment
    if (path / CONFIG).is_file() and not overwrite:
        begun = open_run(path).experiment
        return _with_steps(experiment, begun.steps, begun.log_every, begun.validate_every)
    steps = steps_within(pinned(experiment, None), seconds)
    every = max(1, steps // _ROWS)
    return _with_steps(experiment, steps, min(experiment.log_every, every), min(experiment.validate_every, every))


def _with_steps(experiment: Experiment, steps: int, log_every: int, validate_every: int) -> Experiment:
    return experiment.replace(steps=steps, log_every=log_every, validate_every=validate_every)


Clock = Callable[[], float]


def steps_within(
    experiment: Experiment, seconds: float, *, validations: int = _VALIDATIONS, clock: Clock = time.perf_counter
) -> int:
    """The steps that training takes in that time on this machine, compiling and validating included; at least 1. By
    another clock, `time.process_time`, the time is that of the processor, in which other work counts little."""
    pace = pace_of(experiment, min(_LOOK, seconds / 10), clock)
    return pace.steps(seconds - pace.reading - pace.compiling, validations)


class Pace(NamedTuple):
    """Seconds that a training takes to read its data, to compile, for a validation, and for a step."""

    reading: float
    compiling: float
    validating: float
    step: float

    def steps(self, seconds: float, validations: int) -> int:
        """The steps that fit into a time, beside so many validations; at least 1."""
        return max(1, int((seconds - validations * self.validating) / self.step))


def pace_of(experiment: Experiment, seconds: float, clock: Clock = time.perf_counter) -> Pace:
    """How fast a training is on this machine; steps are watched for so many seconds."""
    begin = clock()
    built, run = make_steps(experiment)
    validate, held_out = built.validation()
    reading = clock() - begin
    begin = clock()
    state = jax.tree.map(jnp.copy, run(1))  # a validation takes its state's place in memory
    state, _ = jax.block_until_ready(validate(state, held_out))
    compiling = clock() - begin
    begin = clock()
    jax.block_until_ready(validate(state, held_out))
    validating = clock() - begin
    count, begin = 0, clock()
    while (spent := clock() - begin) < seconds or not count:
        run(5)
        count += 5
    return Pace(reading, compiling, validating, spent / count)
