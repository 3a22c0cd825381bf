"""A run, or a model that comes with the package, as a `Model`."""

import dataclasses
import difflib
from pathlib import Path
from typing import Literal

from fewstep._errors import FewstepError
from fewstep.encoders import ENCODERS, is_encoder
from fewstep.experiments import build, make_problem
from fewstep.files import is_locked, read_json, write_json
from fewstep.models import (
    Calibration,
    Choice,
    Model,
    Rejection,
    calibrate_model,
    calibrate_rejection,
    kept_metas,
    load_pretrained,
    pretrained,
    untrained,
)
from fewstep.problems import Say
from fewstep.runs.log import to_numbers
from fewstep.runs.run import CALIBRATION, Run, open_run

Which = Literal["last", "best", "average"]
REJECTION = "rejection.json"
Draw = Literal["sample", "expected", "threshold"]


def load(path: Path | str, *, which: Which | None = None, draw: Draw | None = None) -> Model:
    """Loads a run with the parameters that it keeps, with its `last`, its `best` on the validation tasks, or
    its moving `average`.

    **Arguments:** the run's folder, or the name of a model that comes with the package; `draw` replaces the way masks
    are drawn (`sample`, `expected`, `threshold`).

    Example::

        model = load("runs/x")
        prediction = adapt(model, support).answer(query_x).mean
    """
    if not Path(path).exists():
        if str(path) in pretrained():
            model = load_pretrained(str(path))
            return model if draw is None else dataclasses.replace(
                model, built=build(model.experiment.replace(draw=draw)), calibration=None
            )  # fmt: skip
        if is_encoder(str(path)):
            return untrained(str(path))
        if close := difflib.get_close_matches(str(path), [*pretrained(), *ENCODERS]):
            raise FewstepError(f"There is no run folder {path}. Did you mean the package's model '{close[0]}'?")
    run, choice = _answering(Path(path))
    # Checked against the experiment as it was asked for now, so that a draw for a rule without a mask is refused.
    built = build(run.experiment.replace(draw=draw) if draw else run.experiment)
    state, notes = run.state(built)
    if state is None:
        raise FewstepError(_without_checkpoint(run, notes))
    usual = draw is None and (which is None or not run.experiment.has("keep") or which == run.experiment.keep)
    facts = read_json(run.path / CALIBRATION) if usual else None
    return Model(
        built, kept_metas(built, state, which), int(state.step), Calibration.from_dict(facts) if facts else None,
        tuple(to_numbers(run.log())), (*notes, *([] if choice is None else [choice.sentence])),
        Rejection.from_dict(unknown) if (unknown := read_json(run.path / REJECTION)) else None, choice,
    )  # fmt: skip


def calibrate_run(run: Run, say: Say = lambda message: None) -> None:
    """Calibrates a run on its validation tasks, where its tasks are a list, and keeps that with the run."""
    run = run.answering
    problem = make_problem(run.experiment)
    if problem.rejects:
        _calibrate_rejection(run, say)
    if problem.held_out is None or _calibrated_by_its_fit(run):
        return
    model = load(run.path)
    assert model.problem.held_out is not None
    say(f"Calibrating the {'probabilities' if model.problem.classes else 'intervals'} on the validation tasks.")
    calibration, _ = calibrate_model(model, model.problem.held_out("validation"))
    if calibration is not None:
        write_json(run.path / CALIBRATION, calibration.to_dict())


def _calibrate_rejection(run: Run, say: Say) -> None:
    """Keeps with a run how well a query must fit one of the classes, for 1 and 5 shots and those of its training."""
    model = load(run.path)
    say("Calibrating the threshold for unknown classes on the validation tasks.")
    if rejection := calibrate_rejection(model, tuple(sorted({1, 5, model.experiment.shots})), say=say):
        write_json(run.path / REJECTION, rejection.to_dict())


def _calibrated_by_its_fit(run: Run) -> bool:
    """Whether a fit has left a calibration, by tasks that it had not chosen anything on."""
    return run.build().method.fit is not None and (run.path / CALIBRATION).exists()


def _answering(path: Path) -> tuple[Run, Choice | None]:
    """The run in a folder; where it keeps the best of several methods, that one's, and the choice."""
    run = open_run(path)
    choice = run.choice if run.experiment.picks else None
    if run.experiment.picks and choice is None:
        state = "a process is training it now" if is_locked(path) else "its training was stopped"
        again = f"fewstep train {run.experiment.method} {run.experiment.tasks} ... --run {path}"
        raise FewstepError(f"{path} has not chosen its method yet: {state}. The command that began it resumes: {again}")
    return run.answering, choice


def _without_checkpoint(run: Run, notes: list[str]) -> str:
    again = f"fewstep train {run.experiment.method} {run.experiment.tasks} ... --run {run.path}"
    if notes:
        return f"{run.path} holds no whole checkpoint. {' '.join(notes)} Train it anew: {again} --overwrite"
    if is_locked(run.path):
        return (
            f"{run.path} has no checkpoint yet: a process is training it now, and saves the first one some seconds "
            "after compiling. Wait for it, and run this command again."
        )
    return (
        f"{run.path} has no checkpoint: its training ended before the first one was saved. Run the command that began "
        f"it again: {again}"
    )
