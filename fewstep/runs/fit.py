"""Fits a run whose method is not trained by outer steps: each of its parts is a run of its own in a folder of it."""

from collections.abc import Callable

from fewstep.experiments import Built, TrainedMember
from fewstep.files import write_json
from fewstep.models import Model, calibrate_by, kept_metas
from fewstep.runs.budget import Deadline, planned
from fewstep.runs.create import create_run
from fewstep.runs.outcome import Outcome, Progress
from fewstep.runs.run import CALIBRATION, Run
from fewstep.runs.signals import stop_signals
from fewstep.training import TrainState

PARTS = "members"
TrainRun = Callable[..., Outcome]


class _Stopped(Exception):
    """A signal came while a part was trained, whose progress is saved."""


def fit_run(
    run: Run, built: Built, state: TrainState, progress: Progress, train_run: TrainRun, save_seconds: float
) -> Outcome:
    """Fits a run, unless that has been done: the parts that are trained already are not trained again."""
    last = run.experiment.steps
    if int(state.step) >= last:
        return Outcome(state, last, False, False)
    deadline = Deadline(run.experiment.seconds) if run.experiment.has("seconds") and run.experiment.seconds else None

    def train(name: str, part: Built) -> TrainedMember:
        path, experiment, built = run.path / PARTS / name, part.experiment, part
        if deadline is not None:
            shorter = planned(experiment, path, deadline.share(len(built.parts)))
            experiment = shorter if shorter.steps < experiment.steps else experiment
        own = create_run(path, experiment, say=progress.say)
        if own.experiment != part.experiment:
            built = own.build()
        outcome = train_run(own, progress, save_seconds=save_seconds, built=built)
        if outcome.interrupted:
            raise _Stopped
        return built.kept(outcome.state)

    with stop_signals() as stopped:
        try:
            state, fitted = built.fit(train, progress.say)
        except _Stopped:
            return Outcome(state, int(state.step), True, True)
        if fitted.answers is not None:
            model = Model(built, kept_metas(built, state), last)
            write_json(run.path / CALIBRATION, calibrate_by(model, fitted.answers)[0].to_dict())
        run.save(state)
        progress.begin(0, last)
        progress.step(last, None)
    return Outcome(state, last, False, bool(stopped))
