"""Where a training goes on: the newest whole checkpoint, the log up to it, and what must not have changed since."""

from collections.abc import Callable

from fewstep._errors import FewstepError
from fewstep.experiments import Built
from fewstep.machine import distributed
from fewstep.runs.log import Line
from fewstep.runs.run import Run, open_run
from fewstep.runs.settings import differences
from fewstep.training import TrainState

Say = Callable[[str], None]


def check_unchanged(run: Run) -> None:
    """Raises if another process has replaced the run since it was created or opened here."""
    there, here = open_run(run.path).experiment.settings(), run.experiment.settings()
    if differ := differences(there, here, "`{}`".format, without=("steps",)):
        raise FewstepError(
            f"Another process has replaced {run.path} meanwhile: {', '.join(differ)}. Choose another folder."
        )


def begin(run: Run, built: Built, say: Say) -> tuple[TrainState, list[Line]]:
    """The state to go on from, and the log up to it."""
    state, messages = run.state(built) if distributed.first() else (None, [])
    step = distributed.agree(None if state is None else int(state.step))
    if step is not None and state is None:  # one of several processes reads what process 0 chose
        state = run.state_at(step, built)
    for message in messages:
        say(message)
    if state is None:
        if messages:
            raise FewstepError(f"No checkpoint of {run.path} is whole. Start again with `overwrite=True`.")
        state = built.first()
    _check_steps(run, int(state.step))
    if 0 < int(state.step) < run.experiment.steps:
        say(f"Going on from step {int(state.step)} of {run.path}.")
    return state, _restore_log(run, int(state.step), say) if distributed.first() else []


def _check_steps(run: Run, reached: int) -> None:
    if reached > run.experiment.steps:
        raise FewstepError(
            f"{run.path} has reached step {reached} and `steps` is {run.experiment.steps}: steps cannot be taken back. "
            f"Nothing was changed. Give `steps={reached}` or more, or choose another folder."
        )


def _restore_log(run: Run, step: int, say: Say) -> list[Line]:
    log = run.restore_log(step)
    if run.experiment.has("log_every") and len(log) < step // run.experiment.log_every * len(run.seeds):
        say(
            f"{run.metrics} has lost rows up to step {step}. They stay lost: an earlier version wrote the checkpoint, "
            "without a copy of them."
        )
    return log
