"""Trains a run that keeps the best of several methods: all go a quarter of the way, and the best two to the end.

Methods are compared by their lowest error so far on the same validation tasks. How many steps each takes is decided
before the first one starts, and kept with the run: a training that was stopped ends as one that was not.
"""

import math
import time
from collections.abc import Mapping

import numpy as np

from fewstep._errors import FewstepError
from fewstep.experiments import Built, Experiment
from fewstep.files import read_json, write_json
from fewstep.models import Choice, Trial
from fewstep.runs.budget import Pace, pace_of
from fewstep.runs.log import to_numbers
from fewstep.runs.members import Members, Stopped, TrainRun
from fewstep.runs.outcome import Outcome, Progress
from fewstep.runs.resume import Say
from fewstep.runs.run import CHOICE, Run
from fewstep.training import NotFinite

PLAN = "plan.json"  # the steps of each member, where they were measured
_FINALISTS = 2
_PART = 4  # of its steps, that every member takes
_VALIDATIONS = _PART  # of a training, at least
_LOOK = 8.0  # seconds of a training that are measured, at most


def pick_run(run: Run, progress: Progress, train_run: TrainRun, save_seconds: float) -> Outcome:
    """Trains the members, and keeps the best; or resumes that."""
    if run.choice is not None:
        return train_run(run.answering, progress, save_seconds=save_seconds)
    race = _Race(_planned(run, progress.say), Members(run.path, progress, train_run, save_seconds), progress.say)
    try:
        choice, outcome = race.run()
    except Stopped as stopped:
        return stopped.outcome
    write_json(run.path / CHOICE, choice.to_json())
    progress.say(choice.sentence)
    return outcome


class _Race:
    """The members by name, on their way."""

    def __init__(self, experiments: Mapping[str, Experiment], members: Members, say: Say):
        self._experiments, self._members, self._say = experiments, members, say
        self._trials: dict[str, Trial] = {}
        self._built: dict[str, Built] = {}  # which those that go on need not compile again

    def run(self) -> tuple[Choice, Outcome]:
        """The best member, and how its training ended."""
        names = list(self._experiments)
        if len(names) > _FINALISTS:
            for number, name in enumerate(names, 1):
                self._train(name, _part(self._experiments[name]), f", {number} of {len(names)}")
            names = self._ranked(names)[:_FINALISTS]
        outcomes = {name: self._train(name, self._experiments[name].steps, " further") for name in names}
        best = self._ranked(names)[0]
        outcome = outcomes[best]
        assert outcome is not None
        return Choice(self._trials[best].method, tuple(self._trials.values())), outcome

    def _train(self, name: str, until: int, which: str) -> Outcome | None:
        """Trains a member until a step, and notes its error; nothing if it diverges."""
        experiment = self._experiments[name]
        method = experiment.public_method
        self._say(f"Training {method}{which}, to step {until} of {experiment.steps}.")
        run = self._members.create(name, experiment)
        self._built[name] = self._built.get(name) or run.build()
        try:
            outcome = self._members.train(run, built=self._built[name], until=until)
        except NotFinite as error:
            self._say(f"{method} diverged and is not kept. {error}")
            self._trials[name] = Trial(method, error.step, experiment.steps, math.inf)
            return None
        self._trials[name] = Trial(method, until, experiment.steps, _error(run, until))
        return outcome

    def _ranked(self, names: list[str]) -> list[str]:
        """The names of those that did not diverge, the best first."""
        sound = [name for name in names if math.isfinite(self._trials[name].error)]
        if not sound:
            raise FewstepError(
                f"None of {', '.join(self._trials[name].method for name in names)} was trained without diverging. Name "
                "others as `members`."
            )
        return sorted(sound, key=lambda name: self._trials[name].error)


def _error(run: Run, until: int) -> float:
    """The lowest error on the validation tasks until a step, the mean over seeds that have one."""
    lowest: dict[int, float] = {}
    for line in to_numbers(run.log()):
        if line.step <= until and line.validation is not None and math.isfinite(line.validation):
            lowest[line.seed] = min(line.validation, lowest.get(line.seed, math.inf))
    return float(np.mean(list(lowest.values()))) if lowest else math.inf


def _part(experiment: Experiment) -> int:
    """The step of a validation after about a quarter of the training."""
    every = experiment.validate_every
    return every * max(1, round(experiment.steps / every / _PART))


def _planned(run: Run, say: Say) -> dict[str, Experiment]:
    """The experiments of the members; if a time was given, of those that it is enough for, with the steps that fit."""
    parts, seconds = run.experiment.parts, run.experiment.seconds
    if not seconds:
        return {name: _validated(part, part.steps) for name, part in parts.items()}
    steps = read_json(run.path / PLAN)
    if steps is None:
        steps = _steps_within(parts, seconds, say)
        write_json(run.path / PLAN, steps)
    return {name: _validated(parts[name], steps[name]) for name in steps}


def _validated(experiment: Experiment, steps: int) -> Experiment:
    """The experiment with about so many steps, of which the last one of each part is validated."""
    every = max(1, min(experiment.validate_every, steps // _VALIDATIONS))
    return experiment.replace(
        steps=steps // every * every, validate_every=every, log_every=min(experiment.log_every, every)
    )


def _steps_within(parts: Mapping[str, Experiment], seconds: float, say: Say) -> dict[str, int]:
    """The steps of each member, at most its own number, for the same time if it goes to the end."""
    begin, look = time.monotonic(), min(_LOOK, seconds / _whole(len(parts)) / 20)
    paces: dict[str, Pace] = {}
    for number, (name, part) in enumerate(parts.items(), 1):
        if _too_many(number, time.monotonic() - begin, seconds):
            others = ", ".join(each.public_method for each in [*parts.values()][number - 1 :])
            say(f"{seconds:.0f} seconds are enough for {number - 1} of {len(parts)} members. Left out: {others}.")
            break
        say(f"Measuring how fast {part.public_method} trains, {number} of {len(parts)}.")
        paces[name] = pace_of(part, look)
    rest = seconds - (time.monotonic() - begin) - sum(pace.compiling for pace in paces.values())
    each = max(0.0, rest) / _whole(len(paces))
    within = {name: _fitting(parts[name], pace, each) for name, pace in paces.items()}
    return {name: min(parts[name].steps, max(_VALIDATIONS, within[name])) for name in paces}


def _too_many(members: int, spent: float, seconds: float) -> bool:
    """Whether to read and compile for so many members, for the measurement and again for the training, takes more than
    half of the time, if it took so long for those before the last of them."""
    return members > 1 and 2 * spent / (members - 1) * members > seconds / 2


def _fitting(experiment: Experiment, pace: Pace, seconds: float) -> int:
    """The steps that fit into a time, with validations as often as usual, or a few where steps are few."""
    return min(
        pace.steps(seconds, _VALIDATIONS), int(seconds / (pace.step + pace.validating / experiment.validate_every))
    )


def _whole(members: int) -> float:
    """How many whole trainings so many members take together."""
    return members if members <= _FINALISTS else (members - _FINALISTS) / _PART + _FINALISTS
