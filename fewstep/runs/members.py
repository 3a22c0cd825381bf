"""The members of a run that is made of several: each is a run of its own, in a folder of it."""

from collections.abc import Callable
from pathlib import Path

from fewstep.experiments import Built, Experiment
from fewstep.runs.create import create_run
from fewstep.runs.outcome import Outcome, Progress
from fewstep.runs.run import Run, member_path

TrainRun = Callable[..., Outcome]


class Stopped(Exception):
    """A signal came while a member was trained, whose progress is saved."""

    def __init__(self, outcome: Outcome):
        super().__init__()
        self.outcome = outcome


class Members:
    """Makes and trains the members of the run in a folder."""

    def __init__(self, path: Path, progress: Progress, train_run: TrainRun, save_seconds: float):
        self._path, self._progress, self._train_run, self._save_seconds = path, progress, train_run, save_seconds

    def path(self, name: str) -> Path:
        """The folder of a member."""
        return member_path(self._path, name)

    def create(self, name: str, experiment: Experiment) -> Run:
        """The run of a member, or the one that was begun."""
        return create_run(self.path(name), experiment, say=self._progress.say)

    def train(self, run: Run, *, built: Built | None = None, until: int | None = None) -> Outcome:
        """Trains a member, to its end or `until` a step. Raises `Stopped` after a signal."""
        outcome = self._train_run(run, self._progress, save_seconds=self._save_seconds, built=built, until=until)
        if outcome.signalled:
            raise Stopped(outcome._replace(interrupted=True))
        return outcome
