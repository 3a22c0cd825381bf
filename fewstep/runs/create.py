"""Makes the run of an experiment: checks everything and makes the devices before it touches the folder."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.experiments.build import build, inner_steps, lay_out, plans_for_its_steps
from fewstep.experiments.experiment import Experiment, option
from fewstep.files import empty, locked, read_json, write_json, writing
from fewstep.machine import distributed, layout
from fewstep.machine.autotune import fastest
from fewstep.machine.layout import Layout
from fewstep.problems.tables import pin_table
from fewstep.runs.run import CONFIG, Run, holds_something, open_run
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
        lay_out(experiment)  # all together, before one makes the run while the others wait
    if not distributed.first():
        return _open_made_by_first(path, experiment)
    run = _create(path, experiment, overwrite=overwrite, tune=tune and not distributed.several(), say=say)
    distributed.agreed((str(path), experiment.to_json()))
    return run


def _open_made_by_first(path: Path, experiment: Experiment) -> Run:
    there, settings = distributed.agreed(None)
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
    return Run(path, dataclasses.replace(open_run(path).experiment, steps=experiment.steps))


def _create(path: Path, experiment: Experiment, *, overwrite: bool, tune: bool, say: Say) -> Run:
    if path.is_file():
        raise FewstepError(f"{path} is a file. Choose another folder.")
    there = path.is_dir() and holds_something(path)
    found = _open(path, overwrite=overwrite) if there else None
    run = Run(path, pinned(experiment, found))
    if there:
        with locked(path, run.busy):  # said before anything that takes time
            pass
    if found is not None:
        _check_same(found, run.experiment)
    chosen = begun_layout(run) if found is not None else None
    if chosen is None and tune:
        chosen = fastest(run.experiment, inner_steps(run.experiment), say)
    if not distributed.several():
        lay_out(run.experiment, chosen)  # before anything starts JAX, after which no devices can be made
    _check(run.experiment)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    with locked(path, run.busy):
        if found is None:
            _write_new(run, replace=there)
        if chosen is not None:
            write_json(path / _LAYOUT, {**chosen._asdict(), "cores": layout.cores()})
    return run


def _open(path: Path, *, overwrite: bool) -> Run | None:
    """The run to go on with, if it is not to be replaced; a folder that holds something else is neither."""
    if overwrite and (path / "checkpoints").is_dir():  # a run, whether or not it can be read
        return None
    found = open_run(path)
    return None if overwrite else found


def _check(experiment: Experiment) -> None:
    """Says whatever is wrong with an experiment or its data before a folder is touched."""
    built = build(experiment)
    if experiment.has_images or experiment.has_table:
        built.check_data()


def _write_new(run: Run, *, replace: bool) -> None:
    """Begins a run. One that is continued instead keeps its configuration until its training really goes on."""
    if replace:
        empty(run.path)
    elif (run.path / CONFIG).exists():
        raise FewstepError(run.busy)  # it was made since this process looked
    run.write_config()


def begun_layout(run: Run) -> Layout | None:
    """The layout that the run was begun with on as many cores, which another one would round differently."""
    known = read_json(run.path / _LAYOUT)
    return Layout(known["devices"], known["chunk"]) if known and known["cores"] == layout.cores() else None


def pinned(experiment: Experiment, found: Run | None) -> Experiment:
    """The experiment with the classes of its folder, or the tasks of its table, drawn, or as the run that was begun has
    them."""
    if experiment.has_table and not experiment.schema:
        same = found is not None and found.experiment.tasks == experiment.tasks and found.experiment.schema
        if not same:
            return pin_table(experiment)
        assert found is not None
        of_table = {name: getattr(found.experiment, name) for name in ("classes", "schema", "source")}
        return dataclasses.replace(experiment, **of_table)
    if experiment.classes or not experiment.tasks.startswith("folder:"):
        return experiment
    drawn = found.experiment.classes if found else None
    classes = drawn or data.pin(experiment.tasks, experiment.split_seed or 0, experiment.ways or 5)
    return dataclasses.replace(experiment, classes=classes)


def _check_same(found: Run, wanted: Experiment) -> None:
    there, here = dataclasses.asdict(found.experiment), dataclasses.asdict(wanted)
    if differ := differences(there, here, option, without=("steps",)):
        raise FewstepError(
            f"{found.path} holds another experiment: {', '.join(differ)}. Nothing was changed. Choose another folder, "
            "or replace the old run with `overwrite=True`."
        )
    if found.experiment.steps != wanted.steps and plans_for_its_steps(wanted):
        raise FewstepError(
            f"{found.path} was planned for {found.experiment.steps} steps: its outer step size falls to 0 over just "
            f"these, so it cannot be continued to {wanted.steps}. Choose another folder, or replace the old run "
            "with `overwrite=True`."
        )
