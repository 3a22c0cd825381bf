"""Runs a study: trains its grid, judges it, and writes the result, the figures and the report."""

import dataclasses
import importlib.metadata
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewstep._errors import unknown
from fewstep.experiments.build import inner_steps
from fewstep.files import finite, read_json, write_json
from fewstep.machine import layout
from fewstep.machine.provenance import commit
from fewstep.reproduce import _folder
from fewstep.reproduce._gather import command, gather, row_command, unfinished
from fewstep.reproduce._grid import begun, finished, fitted, run_cell
from fewstep.reproduce._report import write_report
from fewstep.reproduce._speed import measure
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study, name
from fewstep.runs import Progress

_PACKAGES = ("fewstep", "jax", "jaxlib", "optax", "numpy")


@dataclasses.dataclass(frozen=True)
class Watch:
    """Who is told: `cells(cells)` gives the progress of each cell by its number, `say` takes remarks."""

    cells: Callable[[list[Cell]], Callable[[int], Progress]]
    say: Callable[[str], None]


def reproduce(
    study: Study, folder: Path, scale: Scale, watch: Watch, *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any] | None:
    """Runs a study in a folder, or goes on with it; the result, or nothing if a signal stopped it.

    Finished cells are not trained again. The folder then holds `result.json`, `report.html`, and `figures` with a PNG
    and a CSV of each plot.
    """
    cells = _cells(study, scale)
    identity = _folder.identity_of(study, scale)
    with _folder.held(identity, folder, resume=resume, overwrite=overwrite):
        begin, before = time.monotonic(), _folder.seconds(folder)
        note = lambda: _folder.note_seconds(identity, folder, before + time.monotonic() - begin)
        try:
            judged = _judge_all(folder, cells, scale, watch, note)
            if judged is None:
                if study.by_row:  # its rows take hours: what is reached is told
                    _tell(study, folder, scale, [], [], {})
                return None
            timed = study.cost and not scale.quick and not study.by_row
            speed = _speed(folder, cells, scale, watch) if timed else {}
        finally:
            note()
        return _tell(study, folder, scale, cells, judged, speed)


def _tell(
    study: Study, folder: Path, scale: Scale, cells: list[Cell], judged: list[Judged], speed: Judged
) -> dict[str, Any]:
    """Writes the result and the report; a study by rows tells of all rows in the folder, and of those under way."""
    under_way: list[Cell] = []
    curves: list[Judged] = []
    if study.by_row:
        cells, judged, under_way, curves = gather(study, folder, scale)
    result = _result(study, scale, cells, judged, speed)
    if study.by_row:
        for row in result["rows"]:
            row["command"] = row_command(study, scale, row["cell"], row["steps"], row["setting"]["shots"])
        result["unfinished"] = unfinished(study, scale, under_way, curves)
    result |= {"total_seconds": _folder.seconds(folder), "report": str(folder / "report.html")}
    write_json(folder / "result.json", result := finite(result))
    figures = study.figures(cells + under_way, judged + curves, speed)
    write_report(folder, study, scale, result, figures, study.pages(cells, judged) if study.pages else {})
    return result


def _cells(study: Study, scale: Scale) -> list[Cell]:
    cells = study.cells(scale)
    names = [cell.name for cell in cells]
    for asked in scale.only:
        if asked not in names:
            raise unknown(f"cell of {study.name}", asked, names)
    return [cell for cell in cells if not scale.only or cell.name in scale.only]


def _judge_all(
    folder: Path, cells: list[Cell], scale: Scale, watch: Watch, note: Callable[[], None]
) -> list[Judged] | None:
    """What was measured of every cell; nothing if a signal stopped the work."""
    judged, progress = [], watch.cells(cells)
    _make_devices([cell for cell in cells if finished(folder, cell) is None])
    for number, cell in enumerate(cells):
        if finished(folder, cell) is None:
            if scale.budget is not None and not begun(folder, cell):
                watch.say(f"{cell.name}: measuring how many steps fit into {scale.budget / 60:g} minutes.")
            cells[number] = fitted(folder, cell, scale.budget)
        found = run_cell(folder, cells[number], progress(number), scale.n_tasks)
        note()
        if found is None:
            return None
        judged.append(found)
    return judged


def _make_devices(cells: list[Cell]) -> None:
    """Makes the devices of the heaviest cell, because none can be made once a lighter one has started JAX."""
    wanted = [layout.choose(cell.experiment, inner_steps(cell.experiment)) for cell in cells]
    if any(places.devices > 1 for places in wanted):
        layout.prepare(max(wanted, key=lambda places: places.devices), asked=False)


def _speed(folder: Path, cells: list[Cell], scale: Scale, watch: Watch) -> Judged:
    """The speed of the methods side by side, with one seed and with all; measured once. `MAML` is what the others are
    compared with."""
    if (known := read_json(folder / "speed.json")) is not None:
        return known
    plain = {name(cell): cell.experiment for cell in cells if not cell.setting}
    if not plain:
        return {}
    alone = {label: dataclasses.replace(experiment, seeds=1) for label, experiment in plain.items()}
    size: dict[str, Any] = {"seconds": 0.6, "repeats": 9} if scale.full else {"seconds": 0.05, "repeats": 3}
    speed = {"alone": measure(alone, "MAML", watch.say, **size)}
    if scale.seeds > 1:
        speed["together"] = measure(plain, "MAML", watch.say, **size)
    write_json(folder / "speed.json", speed)
    return speed


def _result(study: Study, scale: Scale, cells: list[Cell], judged: list[Judged], speed: Judged) -> dict[str, Any]:
    return {
        "name": study.name,
        "protocol": f"{study.protocol} This run: {scale.describe()}.",
        "quick": scale.quick,
        "scale": scale._asdict(),
        "rows": _rows(study, scale, cells, judged),
        **({"cost": study.cost(cells, judged, speed)} if study.cost else {}),
        "command": command(study, scale),
        **made_with(),
        "trained_at_commits": sorted({str(found["commit"]) for found in judged}),
    }


def made_with(*more: str) -> dict[str, Any]:
    """What a result was made with: versions, cores, commit."""
    versions = {package: importlib.metadata.version(package) for package in (*_PACKAGES, *more)}
    return {"versions": versions | {"python": platform.python_version()}, "cores": layout.cores(), "commit": commit()}


def _rows(study: Study, scale: Scale, cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """The study's rows; only a run of the paper's size is held against the paper."""
    rows = study.rows(cells, judged)
    if scale.full:
        return rows
    instead = "quick" if scale.quick else "not judged"
    return [row if row["verdict"] == "diverged" else row | {"verdict": instead} for row in rows]
