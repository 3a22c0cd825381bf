"""A run is a folder: config.json, metrics.csv, checkpoints, report.html."""

import dataclasses
import importlib.metadata
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments import VERSION, Built, Experiment, build, flag
from fewstep.files import JSON, LOCK, read_json, write_text, writing
from fewstep.models import Choice
from fewstep.runs import checkpoint, log
from fewstep.runs.code import CODE, digests
from fewstep.runs.settings import completed, differences, fingerprint
from fewstep.training import TrainState, first_state

CONFIG = "config.json"
CALIBRATION, CHOICE = "calibration.json", "choice.json"
_MEMBERS = "members"
_MAKER = "experiment.json"  # of a checkpoint


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
        """The log: one row per seed and `log_every` steps."""
        return self.path / log.NAME

    @property
    def seeds(self) -> list[int]:
        """The seeds that are trained together."""
        return self.experiment.seed_list

    @property
    def busy(self) -> str:
        """The message for a process that finds another one training the run."""
        return f"Another process is training {self.path}. Wait for it, or choose another folder."

    @property
    def choice(self) -> Choice | None:
        """The member that it keeps, of a run that keeps the best of several and has chosen."""
        facts = read_json(self.path / CHOICE)
        return None if facts is None else Choice.from_json(facts)

    @property
    def answering(self) -> "Run":
        """The run whose model answers for it: that of the member that it keeps, else itself."""
        choice = self.choice
        return self if choice is None else open_run(member_path(self.path, choice.method))

    def build(self) -> Built:
        """The parts the experiment names."""
        return build(self.experiment)

    def state(self, built: Built) -> tuple[TrainState | None, list[str]]:
        """The newest whole state, if there is one, and a message for every damaged one that was skipped.

        Raises `FewstepError` when another experiment than that of config.json made it."""
        if not checkpoint.checkpoint_steps(self.checkpoints):
            return None, []
        like = first_state(built.learner, built.optimizer, self.seeds)
        return checkpoint.newest(self.checkpoints, like, self._check_maker)

    def state_at(self, step: int, built: Built) -> TrainState:
        """The state of one checkpoint. Raises `FewstepError` when it is not there or damaged."""
        like = first_state(built.learner, built.optimizer, self.seeds)
        return checkpoint.restore(self._checkpoint(step), like, self._check_maker)

    def save(self, state: TrainState, lines: Iterable[log.Line] = ()) -> Path:
        """Writes a checkpoint: the state, the log up to it, and the settings that made it."""
        texts = {_MAKER: json.dumps(fingerprint(self.experiment), indent=1), log.NAME: log.to_csv(lines)}
        return checkpoint.save(self.checkpoints, int(state.step), state, texts)

    def write_config(self) -> None:
        """Writes the experiment to config.json, in place of what was there."""
        config = {
            "version": VERSION, "fewstep": version(), "experiment": self.experiment.settings(),
            "code": digests(self.experiment),
        }  # fmt: skip
        write_text(self.path / CONFIG, json.dumps(config, indent=2) + "\n")

    def append(self, lines: Iterable[log.Line]) -> None:
        """Adds lines to the log."""
        with writing(self.metrics), self.metrics.open("a", newline="") as file:
            file.write(log.to_csv(lines, head=False))

    def restore_log(self, step: int) -> list[log.Line]:
        """Writes the log anew as it was at a checkpoint, and returns it; what came later is done again.

        A checkpoint without a log leaves the file's own lines up to that step."""
        text = checkpoint.read_text(self._checkpoint(step), log.NAME)
        lines = [line for line in self.log() if int(line[0]) <= step] if text is None else log.from_csv(text)
        write_text(self.metrics, log.to_csv(lines))
        return lines

    def log(self) -> list[log.Line]:
        """The lines of the log; a last one that was not written whole is left out."""
        return log.from_csv(self.metrics.read_bytes().decode()) if self.metrics.exists() else []

    def _checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"{step:09d}"

    def _check_maker(self, path: Path) -> None:
        text = checkpoint.read_text(path, _MAKER)
        if text is None:  # written by an earlier version
            return
        there, here = completed(json.loads(text), self.experiment), fingerprint(self.experiment)
        without = () if "steps" in here else ("steps",)  # `completed` has put the default there
        if differ := differences(there, here, _quoted, without):
            raise FewstepError(
                f"{path} was made by another experiment than {CONFIG} describes: {', '.join(differ)}. Restore {CONFIG} "
                "from a copy, or train the run anew with `overwrite=True`."
            )


def member_path(path: Path, name: str) -> Path:
    """The folder of a run's member, by its method; of FILE.py:NAME without the folder of the file."""
    return path / _MEMBERS / "+".join(part.rpartition("/")[2] for part in name.split("+")).replace(":", "-")


def _quoted(name: str) -> str:
    return f"`{name}`"


def open_run(path: Path) -> Run:
    """Opens a run folder. Raises `FewstepError` when it is missing, is not one, or is one of another version."""
    config = path / CONFIG
    if path.is_file():
        raise FewstepError(f"{path} is a file. Give the folder of a run.")
    if not path.is_dir():
        raise FewstepError(f"There is no run folder {path}. Train one first: fewstep train mtnet sinusoid --run {path}")
    try:
        settings = json.loads(config.read_text())
        _check_version(path, settings)
        code = path / CODE
        return Run(path, Experiment(**settings["experiment"], folder=code if code.is_dir() else None))
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OtherVersion):
            raise
        if not (path / "checkpoints").is_dir():
            raise FewstepError(f"{path} is not a run folder of fewstep: cannot read {config.name} ({error}).") from None
        raise FewstepError(
            f"{config} is damaged: {error}. Bring it back from a copy, or train the run anew with `overwrite=True`."
        ) from None


class OtherVersion(FewstepError):
    """A run that another version of fewstep made."""


def _check_version(path: Path, config: Mapping[str, JSON]) -> None:
    version, experiment = config.get("version", 1), config["experiment"]
    if version == VERSION:
        return
    if version > VERSION:
        newer = f"{path} was made by a newer version of fewstep, {config.get('fewstep')}."
        raise OtherVersion(f"{newer} Update fewstep: pip install -U fewstep")
    raise OtherVersion(
        f"{path} was made by an older version of fewstep, {config.get('fewstep')}, whose checkpoints this one cannot "
        f"read. Train it anew: {_command(experiment, path)}"
    )


_RENAMED = {
    "inner_optimiser": "inner_optimizer", "outer_optimiser": "outer_optimizer", "colour": "color", "start": "init",
    "least_shots": "min_shots",
}  # fmt: skip
_DROPPED = ("method", "tasks", "classes", "schema", "source")


def _command(old: Mapping[str, JSON], path: Path) -> str:
    """The command that trains an experiment of an older version again."""
    words = ["fewstep", "train", str(old["method"]), str(old["tasks"])]
    for name, value in old.items():
        if name not in _DROPPED and value is not None and value is not False:
            values = value if isinstance(value, list) else [] if value is True else [value]
            words += [flag(_RENAMED.get(name, name)), *map(str, values)]
    return shlex.join([*words, "--run", str(path), "--overwrite"])


def holds_something(folder: Path) -> bool:
    """Whether a folder holds more than a lock and files that a killed process did not finish."""
    with writing(folder):
        return any(path.name != LOCK and path.suffix != ".new" for path in folder.iterdir())


def version() -> str:
    """The version of fewstep."""
    return importlib.metadata.version("fewstep")
