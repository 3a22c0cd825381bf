"""A run folder for any learner and tasks in Python: checkpoints, exact resume, a log and a report."""

import contextlib
import csv
import time
from collections.abc import Iterable
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep._train import Row, TrainState
from fewstep.files import locked, write_text, writing
from fewstep.pages import COLORS, figure, heading, page, paragraph, svg, table
from fewstep.runs import checkpoint
from fewstep.runs.signals import stop_signals

_LOG, _COLUMNS = "metrics.csv", ("step", "seed", "loss", "gradient_norm", "validation")


class RunFolder:
    """Keeps a training in a folder: give it to `fewstep.train` as `run`.

    **Arguments:** the folder, made if it is not there; `save_seconds` between checkpoints.

    The state is saved about every `save_seconds`, at the end, and on Ctrl-C. The same call again, in this process or
    another, resumes from the newest whole checkpoint, and gives the same numbers as if it had never stopped.

    Example::

        trained = fewstep.train(learner, tasks, steps=10_000, run=fewstep.runs.RunFolder("runs/mine"))
    """

    def __init__(self, path: Path | str, *, save_seconds: float = 15.0):
        self.path, self.save_seconds = Path(path), save_seconds
        self._lines: list[list[str]] = []
        self._open = contextlib.ExitStack()
        self._signals: list[int] = []

    def resume(self, first: TrainState) -> TrainState:
        """The state to continue from: that of the newest whole checkpoint, or the first one."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(locked(self.path, f"Another process is training {self.path}. Wait for it."))
        self._signals = self._open.enter_context(stop_signals())
        state, notes = checkpoint.newest(self._checkpoints, first)
        if state is None and notes:
            self._open.close()
            raise FewstepError(f"No checkpoint of {self.path} is whole. {' '.join(notes)} Choose another folder.")
        self._saved = time.monotonic()
        self._lines = self._log(0 if state is None else int(state.step))
        self._write_log()
        return first if state is None else state

    def record(self, state: TrainState, rows: Iterable[Row]) -> bool:
        """Adds rows to the log, and saves when it is time; whether Ctrl-C, or a request to end, came."""
        self._lines += [
            [str(row.step), str(n), str(row.loss[n]), str(row.gradient_norm[n])]
            + ["" if row.validation is None else str(row.validation[n])]
            for row in rows
            for n in range(len(row.loss))
        ]
        if self._signals or time.monotonic() - self._saved > self.save_seconds:
            self._save(state)
        return bool(self._signals)

    def finish(self, state: TrainState) -> None:
        """Saves the last state and writes report.html."""
        try:
            self._save(state)
            write_text(self.path / "report.html", self._report(int(state.step)))
        finally:
            self._open.close()

    @property
    def _checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def _save(self, state: TrainState) -> None:
        checkpoint.save(self._checkpoints, int(state.step), state, {})
        self._write_log()
        self._saved = time.monotonic()

    def _log(self, step: int) -> list[list[str]]:
        """The lines of the log up to a step; what came later is done again."""
        if not (self.path / _LOG).is_file():
            return []
        with (self.path / _LOG).open(newline="") as file:
            return [line for line in list(csv.reader(file))[1:] if len(line) == 5 and int(line[0]) <= step]

    def _write_log(self) -> None:
        write_text(self.path / _LOG, "\n".join(",".join(line) for line in [_COLUMNS, *self._lines]) + "\n")

    def _report(self, step: int) -> str:
        seeds = sorted({line[1] for line in self._lines}, key=int)
        last = [next((line for line in reversed(self._lines) if line[1] == seed), None) for seed in seeds]
        with figure(1, 2, (11, 3.2)) as (drawing, axes):
            for ax, place, title in zip(axes.flat, (2, 4), ("loss in training", "validation score"), strict=True):
                for number, seed in enumerate(seeds):
                    points = [(int(x[0]), float(x[place])) for x in self._lines if x[1] == seed and x[place]]
                    color = COLORS[number % len(COLORS)]
                    ax.plot(*zip(*points, strict=True) if points else ([], []), color=color, linewidth=0.9)
                ax.set(xlabel="outer step", title=title)
            picture = svg(drawing, "Loss and validation score against the outer step")
        rows = table(["seed", "step", "loss", "validation"], [[x[1], x[0], x[2], x[4]] for x in last if x])
        return page("fewstep report", [heading(self.path.name, 1), paragraph(f"Trained {step} steps."), rows, picture])
