"""A run is a folder: config.json, metrics.csv, checkpoints, report.html."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments.build import Built, build
from fewstep.experiments.experiment import Experiment, option
from fewstep.files import LOCK, write_text, writing
from fewstep.runs import checkpoint
from fewstep.runs.settings import differences, fingerprint
from fewstep.training import Row, TrainState, first_state

CONFIG = "config.json"
_COLUMNS = ("step", "seed", "loss", "gradient_norm", "validation")
_MADE_BY, _LOG = "experiment.json", "metrics.csv"  # of a checkpoint
Line = list[str]  # of the log, as text


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
        return self.path / "metrics.csv"

    @property
    def seeds(self) -> list[int]:
        """The seeds that are trained together."""
        return list(range(self.experiment.seed, self.experiment.seed + self.experiment.seeds))

    @property
    def busy(self) -> str:
        """The message for a process that finds another one training the run."""
        return f"Another process is training {self.path}. Wait for it, or choose another folder."

    def build(self) -> Built:
        """The parts the experiment names."""
        return build(self.experiment)

    def state(self, built: Built) -> tuple[TrainState | None, list[str]]:
        """The newest whole state, if there is one, and a message for every damaged one that was skipped.

        Raises `FewstepError` when another experiment than that of config.json made it."""
        if not checkpoint.steps(self.checkpoints):
            return None, []
        like = first_state(built.learner, built.optimizer, self.seeds)
        return checkpoint.newest(self.checkpoints, like, self._check_maker)

    def state_at(self, step: int, built: Built) -> TrainState:
        """The state of one checkpoint. Raises `FewstepError` when it is not there or damaged."""
        like = first_state(built.learner, built.optimizer, self.seeds)
        return checkpoint.restore(self._checkpoint(step), like, self._check_maker)

    def save(self, state: TrainState, log: Iterable[Line] = ()) -> Path:
        """Writes a checkpoint: the state, the log up to it, and the settings that made it."""
        texts = {_MADE_BY: json.dumps(fingerprint(self.experiment), indent=1), _LOG: _csv([_COLUMNS, *log])}
        return checkpoint.save(self.checkpoints, int(state.step), state, texts)

    def write_config(self) -> None:
        """Writes the experiment to config.json, in place of what was there."""
        settings = {"fewstep": version(), "experiment": dataclasses.asdict(self.experiment)}
        write_text(self.path / CONFIG, json.dumps(settings, indent=2) + "\n")

    def lines(self, rows: Iterable[Row]) -> list[Line]:
        """Rows as lines of the log, one per seed."""
        return [
            [str(value) for value in (row.step, seed, row.loss[n], row.gradient_norm[n])]
            + ["" if row.validation is None else str(row.validation[n])]
            for row in rows
            for n, seed in enumerate(self.seeds)
        ]

    def append(self, lines: Iterable[Line]) -> None:
        """Adds lines to the log."""
        with writing(self.metrics), self.metrics.open("a", newline="") as file:
            file.write(_csv(lines))

    def restore_log(self, step: int) -> list[Line]:
        """Writes the log anew as it was at a checkpoint, and returns it; what came later is done again.

        A checkpoint of an earlier version has no log: the file's own lines up to that step are kept."""
        text = checkpoint.read_text(self._checkpoint(step), _LOG)
        kept = [line for line in self.log() if int(line[0]) <= step] if text is None else _read(text)
        write_text(self.metrics, _csv([_COLUMNS, *kept]))
        return kept

    def log(self) -> list[Line]:
        """The lines of the log; a last one that was not written whole is left out."""
        return _read(self.metrics.read_bytes().decode()) if self.metrics.exists() else []

    def _checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"{step:09d}"

    def _check_maker(self, path: Path) -> None:
        text = checkpoint.read_text(path, _MADE_BY)
        if text is None:  # written by an earlier version
            return
        if differ := differences(json.loads(text), fingerprint(self.experiment), option):
            raise FewstepError(
                f"{path} was made by another experiment than {CONFIG} describes: {', '.join(differ)}. Restore {CONFIG} "
                "from a copy, or train the run anew with `overwrite=True`."
            )


def _csv(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _read(text: str) -> list[Line]:
    rows = list(csv.reader(io.StringIO(text, newline="")))[1:]
    return [row for row in rows if len(row) == len(_COLUMNS) and row[0].isdigit()]


def open_run(path: Path) -> Run:
    """Opens a run folder. Raises `FewstepError` when it is missing or is not one."""
    config = path / CONFIG
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
            f"{config} is damaged: {error}. Bring it back from a copy, or train the run anew with `overwrite=True`."
        ) from None


def holds_something(folder: Path) -> bool:
    """Whether a folder holds more than a lock and files that a killed process did not finish."""
    with writing(folder):
        return any(path.name != LOCK and path.suffix != ".new" for path in folder.iterdir())


def version() -> str:
    """The version of fewstep."""
    from fewstep import __version__

    return __version__
