"""Fits a run whose method is not trained by outer steps: each of its parts is a run of its own in a folder of it."""

from fewstep.experiments import Built, TrainedMember
from fewstep.files import write_json
from fewstep.models import Model, calibrate_by, kept_metas
from fewstep.runs.budget import Deadline, planned
from fewstep.runs.members import Members, Stopped, TrainRun
from fewstep.runs.outcome import Outcome, Progress
from fewstep.runs.run import CALIBRATION, Run
from fewstep.runs.signals import stop_signals
from fewstep.training import TrainState


def fit_run(
    run: Run, built: Built, state: TrainState, progress: Progress, train_run: TrainRun, save_seconds: float
) -> Outcome:
    """Fits a run, unless that has been done: the parts that are trained already are not trained again."""
    last = run.experiment.steps
    if int(state.step) >= last:
        return Outcome(state, last, False, False)
    deadline = Deadline(run.experiment.seconds) if run.experiment.has("seconds") and run.experiment.seconds else None

    def train(name: str, part: Built) -> TrainedMember:
        experiment = part.experiment
        if deadline is not None:
            shorter = planned(experiment, members.path(name), deadline.share(len(built.parts)))
            experiment = shorter if shorter.steps < experiment.steps else experiment
        own = members.create(name, experiment)
        if own.experiment != part.experiment:
            part = own.build()
        return part.kept(members.train(own, built=part).state)

    with stop_signals() as signals:
        members = Members(run.path, progress, train_run, save_seconds)
        try:
            state, fitted = built.fit(train, progress.say)
        except Stopped:
            return Outcome(state, int(state.step), True, True)
        if fitted.answers is not None:
            model = Model(built, kept_metas(built, state), last)
            write_json(run.path / CALIBRATION, calibrate_by(model, fitted.answers)[0].to_dict())
        run.save(state)
        progress.begin(0, last)
        progress.step(last, None)
    return Outcome(state, last, False, bool(signals))
