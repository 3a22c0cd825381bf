"""A run is a folder: config.json, metrics.csv, checkpoints, report.html."""

import csv
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fewstep import data
from fewstep._disk import LOCK, writing
from fewstep._errors import FewstepError
from fewstep._train import Row, TrainState, first_state
from fewstep.runs import checkpoint, distributed
from fewstep.runs.build import Built, build, lay_out, plans_for_its_steps
from fewstep.runs.experiment import Experiment, option
from fewstep.runs.tables import pin_table

_COLUMNS = ("step", "seed", "loss", "gradient_norm", "validation")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run's folder and the experiment in it."""

    path: Path
    experiment: Experiment

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """The log: one row a seed and `log_every` steps."""
        return self.path / "metrics.csv"

    @property
    def seeds(self) -> list[int]:
        """The seeds that are trained together."""
        return list(range(self.experiment.seed, self.experiment.seed + self.experiment.seeds))

    def build(self) -> Built:
        """The parts the experiment names."""
        return build(self.experiment)

    def state(self, built: Built) -> tuple[TrainState | None, list[str]]:
        """The newest whole state, if there is one, and a message for every damaged one that was passed over."""
        if not checkpoint.steps(self.checkpoints):
            return None, []
        return checkpoint.newest(self.checkpoints, first_state(built.learner, built.optimiser, self.seeds))

    def state_at(self, step: int, built: Built) -> TrainState:
        """The state of one checkpoint. Raises `FewstepError` when it is not there or damaged."""
        like = first_state(built.learner, built.optimiser, self.seeds)
        return checkpoint.restore(self.checkpoints / f"{step:09d}", like)

    def save(self, state: TrainState) -> Path:
        """Writes a checkpoint."""
        return checkpoint.save(self.checkpoints, int(state.step), state)

    def append(self, rows: list[Row]) -> None:
        """Adds rows to the log."""
        with writing(self.metrics), self.metrics.open("a", newline="") as file:
            csv.writer(file).writerows(line for row in rows for line in self._lines(row))

    def cut_log(self, step: int) -> None:
        """Drops the rows after a step: they belong to work that was lost and is done again."""
        kept = [_COLUMNS, *(tuple(row) for row in self.log() if int(row[0]) <= step)]
        with writing(self.metrics):
            new = self.metrics.with_suffix(".new")
            with new.open("w", newline="") as file:
                csv.writer(file).writerows(kept)
            new.replace(self.metrics)

    def log(self) -> list[list[str]]:
        """The rows of the log, as text; a last row that was not written whole is left out."""
        if not self.metrics.exists():
            return []
        with self.metrics.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
        return [row for row in rows if len(row) == len(_COLUMNS) and row[0].isdigit()]

    def _lines(self, row: Row) -> Iterator[tuple[Any, ...]]:
        for number, seed in enumerate(self.seeds):
            score = "" if row.validation is None else row.validation[number]
            yield row.step, seed, row.loss[number], row.gradient_norm[number], score


def open_run(path: Path) -> Run:
    """Opens a run folder. Raises `FewstepError` when it is missing or is not one."""
    config = path / "config.json"
    if path.is_file():
        raise FewstepError(f"{path} is a file. Give the folder of a run.")
    if not path.is_dir():
        raise FewstepError(f"There is no run folder {path}. Train one first: fewstep train mtnet sinusoid --run {path}")
    try:
        return Run(path, Experiment.from_json(json.dumps(json.loads(config.read_text())["experiment"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not (path / "checkpoints").is_dir():
            raise FewstepError(f"{path} is not a run folder of fewstep: cannot read {config.name} ({error}).") from None
        raise FewstepError(
            f"{config} is damaged: {error}. Bring it back from a copy, or train the run anew with --overwrite."
        ) from None


def create_run(path: Path, experiment: Experiment, *, overwrite: bool = False) -> Run:
    """The run of an experiment in a folder: a new one, or the same experiment's that was begun there.

    A folder that holds something else is refused, unless it is a run and `overwrite` is set. Of several processes the
    first makes it and the others open it.
    """
    if distributed.several():
        lay_out(experiment)  # all together, before one makes the run while the others wait
    if not distributed.first():
        return _made_by_first(path, experiment)
    run = _create(path, experiment, overwrite=overwrite)
    distributed.agreed((str(path), experiment.to_json()))
    return run


def _made_by_first(path: Path, experiment: Experiment) -> Run:
    there, told = distributed.agreed(None)
    number = distributed.index()
    if (there, Experiment.from_json(told)) != (str(path), experiment):
        raise FewstepError(
            f"Process {number} was given another command than process 0. Give all processes the same one; only "
            "--process differs."
        )
    if not (path / "config.json").is_file():
        raise FewstepError(
            f"Process {number} does not see {path}, which process 0 has made. Choose a --run on a file system that all "
            "processes share."
        )
    return open_run(path)


def _create(path: Path, experiment: Experiment, *, overwrite: bool) -> Run:
    there = path.is_dir() and holds_something(path)
    replaced = there and overwrite and (path / "checkpoints").is_dir()  # a run, whether or not it can be read
    found = open_run(path) if there and not replaced else None
    experiment = _pinned(experiment, None if overwrite else found)
    built = build(experiment)  # whatever is wrong with the experiment is said before a folder is touched
    if experiment.has_images or experiment.has_table:
        built.check_data()
    if path.is_file():
        raise FewstepError(f"{path} is a file. Choose another --run.")
    if replaced or (found is not None and overwrite):
        shutil.rmtree(path)
    elif found is not None:
        _check_same(found, experiment)
    run = Run(path, experiment)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        new = path / "config.json.new"
        new.write_text(
            json.dumps({"fewstep": version(), "experiment": dataclasses.asdict(experiment)}, indent=2) + "\n"
        )
        new.replace(path / "config.json")
    return run


def _pinned(experiment: Experiment, found: Run | None) -> Experiment:
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


def holds_something(folder: Path) -> bool:
    """Whether a folder holds more than a lock and files that a killed process did not finish."""
    with writing(folder):
        return any(path.name != LOCK and path.suffix != ".new" for path in folder.iterdir())


def version() -> str:
    """The version of fewstep."""
    from fewstep import __version__

    return __version__


def _check_same(found: Run, asked: Experiment) -> None:
    old, new = dataclasses.asdict(found.experiment), dataclasses.asdict(asked)
    differ = [name for name in new if new[name] != old[name] and name != "steps"]
    if differ:
        values = ", ".join(f"{option(name)} is {old[name]} there and {new[name]} here" for name in differ)
        raise FewstepError(
            f"{found.path} holds another experiment: {values}. Nothing was changed. Choose another --run, or replace "
            "the old run with --overwrite."
        )
    if old["steps"] != new["steps"] and plans_for_its_steps(asked):
        raise FewstepError(
            f"{found.path} was planned for {old['steps']} steps: its outer step size falls to 0 over just these, so it "
            f"cannot be continued to {new['steps']}. Choose another --run, or replace the old run with --overwrite."
        )
