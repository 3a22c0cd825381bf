"""The folder of a reproduction: held by one process; the cells it holds, and the commands that make them."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from fewstep._errors import FewstepError, unknown
from fewstep.files import JSON, empty, finite, locked, read_json, write_json, writing
from fewstep.runs.run import holds_something
from fewstep.runs.settings import differences
from fewstep_studies.reproduce._measurement import Measurement, Training
from fewstep_studies.reproduce._rows import Unfinished, as_json
from fewstep_studies.reproduce._study import Cell, M, O, P, Results, Study

_GRID, _CELL = "grid.json", "judged.json"
Identity = dict[str, JSON]


def identity_of(study: Study[O, P, M], options: O) -> Identity:
    """What a folder is held to: the study and its size."""
    size = {key: value for key, value in dataclasses.asdict(options).items() if key not in study.free}
    return {"study": study.name, **size, **study.context()}


@contextmanager
def held(identity: Identity, folder: Path, *, resume: bool, overwrite: bool) -> Iterator[Callable[[], float]]:
    """Holds the folder for this process: a new one, or one in which the same reproduction was begun.

    Yields a function that notes the seconds spent in the folder, and returns them.
    """
    if resume and overwrite:
        raise FewstepError("`resume` continues a grid and `overwrite` replaces it. Keep one of them.")
    if folder.exists() and not folder.is_dir():
        raise FewstepError(f"{folder} is a file. Choose another `out`.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    stored = _stored(folder) if holds_something(folder) else None
    with locked(folder, f"Another process works in {folder}. Wait for it, or choose another `out`."):
        if stored is not None and overwrite:
            empty(folder)
        elif stored is not None:
            _check_same(identity, folder, stored, resume)
        begin, before = time.monotonic(), seconds(folder)

        def note() -> float:
            spent = before + time.monotonic() - begin
            write_json(folder / _GRID, {**identity, "seconds": spent})
            return spent

        note()
        try:
            yield note
        finally:
            note()


def seconds(folder: Path) -> float:
    """The seconds that processes have spent on this folder."""
    return float((read_json(folder / _GRID) or {}).get("seconds", 0.0))


def _stored(folder: Path) -> Identity:
    stored = read_json(folder / _GRID)
    if not isinstance(stored, dict) or not {"study", "seed"} <= stored.keys():
        raise FewstepError(f"{folder} exists and does not hold a reproduction. Choose another `out`.")
    return stored


def _check_same(wanted: Identity, folder: Path, stored: Identity, resume: bool) -> None:
    there = {key: stored.get(key) for key in wanted}  # a folder holds more, such as the seconds spent on it
    if differ := differences(there, wanted):
        raise FewstepError(
            f"{folder} holds another reproduction: {', '.join(differ)}. Nothing was changed. Choose another `out`, or "
            "replace it with `overwrite=True`."
        )
    if not resume:
        raise FewstepError(
            f"{folder} holds this reproduction already, finished or not. Continue with `resume=True`, which runs no "
            "finished cell again; start again with `overwrite=True`; or choose another `out`."
        )


def place(folder: Path, name: str) -> Path:
    """The folder of a cell."""
    return folder / "cells" / name


def chosen(study: Study[O, P, M], options: O) -> list[Cell[P]]:
    """The cells to run: all, or those that `only` names.

    It names a cell, or what cells have in common: with a data set and a method it takes the cell of both.
    """
    cells, only = study.cells(options), set(options.only)
    names = {word for cell in cells for word in (cell.name, *cell.groups)}
    for word in options.only:
        if word not in names:
            raise unknown(f"cell of {study.name}", word, names)
    columns = [set(words) & only for words in zip(*(cell.groups for cell in cells), strict=False)]
    fits = lambda cell: (
        any(columns) and all(not words or word in words for word, words in zip(cell.groups, columns, strict=True))
    )
    taken = [cell for cell in cells if not only or cell.name in only or fits(cell)]
    if not taken:
        raise FewstepError(f"`only` is {' '.join(options.only)}, and {study.name} has no cell of all of these.")
    return taken


def finished(study: Study[O, P, M], path: Path) -> M | None:
    """What was measured of a cell, if it is finished."""
    stored = read_json(path / _CELL)
    return None if stored is None else study.runner.read(stored)


def keep(study: Study[O, P, M], path: Path, measurement: M) -> M:
    """Writes down what was measured of a cell; returns it as it will be read."""
    stored = finite(as_json(measurement))
    write_json(path / _CELL, stored)
    return study.runner.read(stored)


def gather(study: Study[O, P, M], folder: Path, options: O) -> Results[O, P, M]:
    """All that a folder holds, from however many goes."""
    pairs: list[tuple[Cell[P], M]] = []
    under_way: list[tuple[Cell[P], M]] = []
    plain = without_choice(study, folder, options)
    for cell in study.cells(plain):
        path = place(folder, cell.name)
        if path.is_dir():
            cell = study.runner.fit(cell, path, plain, lambda text: None)
            if (measurement := finished(study, path)) is not None:
                pairs.append((cell, measurement))
            elif (part := study.runner.so_far(cell, path)) is not None:
                under_way.append((cell, part))
    return Results(options, pairs, under_way)


def without_choice(study: Study[O, P, M], folder: Path, options: O) -> O:
    """The options with all that is free as usual, and with the shots of the cells in the folder."""
    free = {name: getattr(study.usual(options), name) for name in study.free}
    if "shots" in free:
        runs = [read_json(path) for path in sorted(folder.glob("cells/*/config.json"))]
        free["shots"] = tuple(sorted({run["experiment"]["shots"] for run in runs if run})) or free["shots"]
    return dataclasses.replace(options, **free)


def unfinished(study: Study[O, P, M], results: Results[O, P, M]) -> list[Unfinished]:
    """For each training under way: how far it is, the accuracy on the validation tasks so far, and how to resume."""
    entries = []
    for cell, measurement in results.under_way:
        if not isinstance(measurement, Measurement) or not isinstance(cell.plan, Training):
            continue  # folds of a table, which are shown as they are
        step, errors = measurement.training[-1] if measurement.training else (0, [])
        known = [error for error in errors if error is not None]
        command = row_command(study, results.options, cell.name, cell.plan.length, cell.plan.experiment.shots)
        entries.append(Unfinished(
            cell.name, cell.label, cell.plan.length, measurement.seconds, step,
            1 - sum(known) / len(known) if known else None, f"{command} --resume",
        ))  # fmt: skip
    return entries


def row_command(study: Study[O, P, M], options: O, name: str, steps: int, shots: int) -> str:
    """The command that trains one row: with the steps that a budget came to, so that it gives the same numbers."""
    change: Any = partial(cast(Any, dataclasses.replace), options, only=(name,))
    if not study.by_row:
        return command(study, change())
    change = partial(change, budget=None)
    change = partial(change, steps=_steps(study, options, name, steps))
    usual = any(cell.name == name for cell in study.cells(change(shots=())))
    return command(study, change(shots=() if usual else (shots,)))


def _steps(study: Study[O, P, M], options: O, name: str, steps: int) -> int:
    """The `steps` that give a cell so many: a study may take a part of them for some of its cells."""
    change, whole = cast(Any, dataclasses.replace), cast(Any, study.usual(options)).steps
    own = next((cell.plan.length for cell in study.cells(change(options, steps=whole)) if cell.name == name), whole)
    return round(steps * whole / own) if own and steps else whole


def command(study: Study[O, P, M], options: O) -> str:
    """The command that makes a result of these options."""
    words = [f"fewstep reproduce {study.name}", *(["--images FOLDER"] if "images" in study.places else [])]
    words += ["--quick"] if options.quick else []
    for field in sorted(dataclasses.fields(options), key=lambda field: field.name == "only"):
        value = getattr(options, field.name)
        if value != getattr(study.usual(options), field.name) and field.metadata:
            text = " ".join(map(str, value)) if isinstance(value, tuple) else "" if value is True else str(value)
            text = f"{value:g}s" if field.name == "budget" else text
            words.append(f"--{field.name.replace('_', '-')} {text}".strip())
    return " ".join(words)
