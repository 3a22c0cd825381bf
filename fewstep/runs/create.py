"""Makes the run of an experiment: checks everything and makes the devices before it touches the folder."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment, build, plans_for_its_steps
from fewstep.files import empty, locked, read_json, write_json, writing
from fewstep.machine import distributed
from fewstep.machine.autotune import fastest
from fewstep.machine.devices import Layout, cores
from fewstep.machine.layout import lay_out
from fewstep.runs.code import check_code, copy_code
from fewstep.runs.run import CONFIG, OtherVersion, Run, holds_something, open_run
from fewstep.runs.settings import differences

_LAYOUT = "layout.json"
Say = Callable[[str], None]


def create_run(
    path: Path,
    experiment: Experiment,
    *,
    overwrite: bool = False,
    tune: bool = False,
    say: Say = lambda message: None,
) -> Run:
    """The run of an experiment in a folder: a new one, or the same experiment's that was begun there.

    A folder that holds something else, or that another process is training, is refused; a run of another experiment is
    replaced if `overwrite` is set. Of several processes the first makes it and the others open it. `tune` tries out how
    to spread heavy tasks over the machine before a long training, which `say` reports.
    """
    if distributed.several():
        _refuse_several(experiment)
        lay_out(experiment)  # all together, before one makes the run while the others wait
    if not distributed.first():
        return _open_shared(path, experiment)
    run = _create(path, experiment, overwrite=overwrite, tune=tune and not distributed.several(), say=say)
    distributed.agree((str(path), experiment.to_json()))
    return run


def _open_shared(path: Path, experiment: Experiment) -> Run:
    there, settings = distributed.agree(None)
    number = distributed.index()
    if (there, Experiment.from_json(settings)) != (str(path), experiment):
        raise FewstepError(
            f"Process {number} was given another command than process 0. Give all processes the same one; only "
            "--process differs."
        )
    if not (path / CONFIG).is_file():
        raise FewstepError(
            f"Process {number} does not see {path}, which process 0 has made. Choose a --run on a file system that all "
            "processes share."
        )
    return Run(path, open_run(path).experiment.replace(steps=experiment.steps))


def _create(path: Path, experiment: Experiment, *, overwrite: bool, tune: bool, say: Say) -> Run:
    if path.is_file():
        raise FewstepError(f"{path} is a file. Choose another folder.")
    there = path.is_dir() and holds_something(path)
    existing = _open(path, overwrite=overwrite) if there else None
    run = Run(path, pinned(experiment, existing))
    if there:
        with locked(path, run.busy):  # said before anything that takes time
            pass
    if existing is not None:
        _check_same(existing, run.experiment)
    chosen = begun_layout(run) if existing is not None else None
    if chosen is None and tune:
        chosen = fastest(run.experiment, say)
    if not distributed.several():
        lay_out(run.experiment, chosen)  # before anything starts JAX, after which no devices can be made
    _check(run.experiment)  # whatever is wrong is said before a folder is touched
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    with locked(path, run.busy):
        run = run if existing is not None else _write_new(run, replace=there)
        if chosen is not None:
            write_json(path / _LAYOUT, {**chosen._asdict(), "cores": cores()})
    return run


def _refuse_several(experiment: Experiment) -> None:
    if experiment.picks:
        raise FewstepError(
            f"{experiment.method} on {experiment.public_tasks} trains one method after the other, in a single process. "
            "Start it without others, or train one method."
        )


def _check(experiment: Experiment) -> None:
    """Reads the data, and builds what is to be trained: the experiment, or the members of which it keeps one."""
    for part in experiment.parts.values() if experiment.picks else (experiment,):
        if experiment.picks and not part.has("outer_lr"):
            raise FewstepError(
                f"`members` has {part.public_method}, which is not trained by outer steps. Leave it out."
            )
        build(part).check_data()


def _open(path: Path, *, overwrite: bool) -> Run | None:
    """The run to go on with, if it is not to be replaced; a folder that holds something else is neither."""
    if overwrite and (path / "checkpoints").is_dir():  # a run, whether or not it can be read
        return None
    try:
        run = open_run(path)
    except OtherVersion:
        if overwrite:
            return None
        raise
    return None if overwrite else run


def _write_new(run: Run, *, replace: bool) -> Run:
    """Begins a run, with copies of the user's own code. One that is continued instead keeps its configuration until its
    training really goes on."""
    if replace:
        empty(run.path)
    elif (run.path / CONFIG).exists():
        raise FewstepError(run.busy)  # it was made since this process looked
    run = dataclasses.replace(run, experiment=copy_code(run.experiment, run.path))
    run.write_config()
    return run


def begun_layout(run: Run) -> Layout | None:
    """The layout that the run was begun with on as many cores, which another one would round differently."""
    layout = read_json(run.path / _LAYOUT)
    return Layout(layout["devices"], layout["chunk"]) if layout and layout["cores"] == cores() else None


def pinned(experiment: Experiment, begun: Run | None) -> Experiment:
    """The experiment with what its data say, such as the classes of a folder, drawn now, or as the run that was begun
    has it; of that run, also the copies of the user's own code."""
    tasks = experiment.located(experiment.tasks)
    same = begun is not None and begun.experiment.tasks == experiment.tasks
    before = begun.experiment.groups[0] if begun is not None and same else None
    usual = experiment.kind_options
    options = experiment.kind.pin(tasks, usual, before)
    changed = {
        field.name: value for field in dataclasses.fields(options)
        if (value := getattr(options, field.name)) != getattr(usual, field.name)
    }  # fmt: skip
    pinned = experiment.replace(**changed) if changed else experiment
    if begun is not None and same and begun.experiment.folder is not None:
        check_code(begun.experiment, experiment, begun.path)
        return pinned.at(begun.experiment.folder)
    return pinned


def _check_same(old: Run, wanted: Experiment) -> None:
    there, here = old.experiment.settings(), wanted.settings()
    if differ := differences(there, here, "`{}`".format, without=("steps",)):
        raise FewstepError(
            f"{old.path} holds another experiment: {', '.join(differ)}. Nothing was changed. Choose another folder, "
            "or replace the old run with `overwrite=True`."
        )
    if old.experiment.steps != wanted.steps and plans_for_its_steps(wanted):
        raise FewstepError(
            f"{old.path} was planned for {old.experiment.steps} steps: its outer step size falls to 0 over just "
            f"these, so it cannot be continued to {wanted.steps}. Choose another folder, or replace the old run "
            "with `overwrite=True`."
        )
