"""The view of trainings: the runs of a folder, and their logs as they grow."""

import csv
import io
import json
import time
from functools import lru_cache
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.experiments import Experiment, make_problem
from fewstep.files import LOCK
from fewstep.runs import Run, checkpoint_steps, open_run
from fewstep.serve.errors import not_found
from fewstep.serve.schema import LogRow, RunLog, RunSummary

_LOCKS = Path("/proc/locks")
_FRESH = 30.0  # seconds since a training has written that still count as training, where locks cannot be seen
_TAIL = 4096  # bytes: enough for the last row
_MAX_RUNS = 1000


def list_runs(folder: Path | None) -> list[RunSummary]:
    """The runs of a folder, by name."""
    locks = _locks()
    return [_summary(run, locks) for run in _runs(folder).values()]


def read_log(folder: Path | None, name: str, after: int) -> RunLog:
    """The rows of a run's log after a step."""
    run = _runs(folder, name).get(name)
    if run is None:
        raise not_found("unknown_run", f"There is no run {name[:80]!r} in the watched folder. GET /v1/runs lists them.")
    return RunLog(name, [_row(row) for row in run.log() if int(row[0]) > after])


def _runs(folder: Path | None, only: str | None = None) -> dict[str, Run]:
    """Runs by their folder's name. A name is looked up among these, and never made into a path."""
    runs: dict[str, Run] = {}
    if folder is None or not folder.is_dir():
        return runs
    for path in sorted(folder.iterdir())[:_MAX_RUNS]:
        if (only is None or path.name == only) and (path / "config.json").is_file():
            stamp = (path / "config.json").stat()
            if (run := _open(path, stamp.st_mtime_ns, stamp.st_size)) is not None:
                runs[path.name] = run
    return runs


@lru_cache(maxsize=_MAX_RUNS)  # the list is asked for again and again
def _open(path: Path, *stamp: int) -> Run | None:
    try:
        return open_run(path)
    except FewstepError:  # a run of another version: not ours to show
        return None


def _summary(run: Run, locks: set[int] | None) -> RunSummary:
    experiment, answering = run.experiment, run.answering  # that of the member, where it keeps the best of several
    step = max([_last_step(answering.metrics), *checkpoint_steps(answering.checkpoints)])
    steps = answering.experiment.steps
    metric = "error rate" if _has_classes(experiment) else "mse"
    return RunSummary(
        run.path.name, experiment.public_method, experiment.public_tasks.partition(":")[0], step, steps,
        step < steps and _is_training(run, locks), metric,
    )  # fmt: skip


@lru_cache(maxsize=_MAX_RUNS)
def _has_classes(experiment: Experiment) -> bool:
    try:
        return make_problem(experiment).classes
    except FewstepError:  # such as a user's own file that is broken: its log can be shown all the same
        return False


def _is_training(run: Run, locks: set[int] | None) -> bool:
    """Whether a process holds the run, however seldom it writes; or, where that is not visible, has written lately."""
    try:
        if locks is not None:
            return (run.path / LOCK).stat().st_ino in locks
        return time.time() - run.metrics.stat().st_mtime < _FRESH
    except OSError:
        return False


def _locks() -> set[int] | None:
    """The inodes of the locked files; None where the system does not list them. They are read there, because to try a
    lock would take it for a moment, in which a training that starts would be refused."""
    try:
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return None
    return {int(words[5].rpartition(":")[2]) for words in lines if words[1:2] == ["FLOCK"] and len(words) == 8}


def _last_step(metrics: Path) -> int:
    """The step of the last whole row, read from the end: a list of runs must not read all logs."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, metrics.stat().st_size - _TAIL))
            rows = list(csv.reader(io.StringIO(file.read().decode(errors="replace"))))
    except OSError:
        return 0
    steps = [int(row[0]) for row in rows if len(row) == 5 and row[0].isdigit()]
    return steps[-1] if steps else 0


def _row(row: list[str]) -> LogRow:
    return LogRow(int(row[0]), int(row[1]), _number(row[2]), _number(row[4]))


def _number(text: str) -> float | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) and abs(value) < float("inf") else None
