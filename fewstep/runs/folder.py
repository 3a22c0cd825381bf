"""A run folder for any learner and tasks in Python: checkpoints, exact resume, a log and a report."""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.files import locked, write_text, writing
from fewstep.pages import COLORS, figure, heading, page, paragraph, svg, table
from fewstep.runs import checkpoint, log
from fewstep.runs.signals import stop_signals
from fewstep.training import Row, TrainState


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
        self._lines: list[log.Line] = []
        self._open = contextlib.ExitStack()
        self._signals: list[int] = []

    def resume(self, first: TrainState) -> TrainState:
        """The state to continue from: that of the newest whole checkpoint, or the first one."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(locked(self.path, f"Another process is training {self.path}. Wait for it."))
        self._signals = self._open.enter_context(stop_signals())
        try:
            state, notes = checkpoint.newest(self._checkpoints, first)
            if state is None and notes:
                raise FewstepError(f"No checkpoint of {self.path} is whole. {' '.join(notes)} Choose another folder.")
        except FewstepError:
            self._open.close()
            raise
        self._saved = time.monotonic()
        self._lines = self._read_log(0 if state is None else int(state.step))
        self._write_log()
        return first if state is None else state

    def record(self, state: TrainState, rows: Iterable[Row]) -> bool:
        """Adds rows to the log, and saves when it is time; whether Ctrl-C, or a request to end, came."""
        self._lines += log.to_lines(rows, range(len(state.key)))
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

    def _read_log(self, step: int) -> list[log.Line]:
        """The lines of the log up to a step; what came later is done again."""
        path = self.path / log.NAME
        lines = log.from_csv(path.read_bytes().decode()) if path.is_file() else []
        return [line for line in lines if int(line[0]) <= step]

    def _write_log(self) -> None:
        write_text(self.path / log.NAME, log.to_csv(self._lines))

    def _report(self, step: int) -> str:
        lines = log.to_numbers(self._lines)
        seeds = sorted({line.seed for line in lines})
        last = [[line for line in lines if line.seed == seed][-1] for seed in seeds]
        with figure(1, 2, (11, 3.2)) as (drawing, axes):
            for ax, name in zip(axes.flat, ("loss", "validation"), strict=True):
                for number, seed in enumerate(seeds):
                    own = [line for line in lines if line.seed == seed and getattr(line, name) is not None]
                    values = [getattr(line, name) for line in own]
                    ax.plot([line.step for line in own], values, color=COLORS[number % len(COLORS)], linewidth=0.9)
                ax.set(xlabel="outer step", title=name)
            picture = svg(drawing, "Loss and validation score against the outer step")
        rows = table(["seed", "step", "loss", "validation"], [[x.seed, x.step, x.loss, x.validation] for x in last])
        return page("fewstep report", [heading(self.path.name, 1), paragraph(f"Trained {step} steps."), rows, picture])
