"""Runs a study: trains its grid, judges it, and writes the result, the figures and the report."""

import dataclasses
import importlib.metadata
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError, unknown
from fewstep.reproduce._grid import train_all
from fewstep.reproduce._report import write_report
from fewstep.reproduce._speed import measure
from fewstep.reproduce._study import QUICK, Cell, Judged, Row, Scale, Study, name
from fewstep.runs import Progress
from fewstep.runs.files import finite, read_json, write_json
from fewstep.runs.run import writing

_GRID = "grid.json"
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
    spent, begin = _prepare(study, folder, scale, resume=resume, overwrite=overwrite), time.monotonic()
    try:
        judged = train_all(folder, cells, scale.n_tasks, watch.cells(cells))
        if judged is None:
            return None
        speed = _speed(study, folder, cells, scale, watch) if study.cost and not scale.quick else {}
        result = finite(_result(study, scale, cells, judged, speed))
        result["report"] = str(write_report(folder, study, scale, cells, judged, speed, result))
    finally:
        _note_seconds(study, folder, scale, spent + time.monotonic() - begin)
    result["total_seconds"] = spent + time.monotonic() - begin
    write_json(folder / "result.json", result)
    return result


def _cells(study: Study, scale: Scale) -> list[Cell]:
    cells = study.cells(scale)
    names = [cell.name for cell in cells]
    for asked in scale.only:
        if asked not in names:
            raise unknown(f"cell of {study.name}", asked, names)
    return [cell for cell in cells if not scale.only or cell.name in scale.only]


def _prepare(study: Study, folder: Path, scale: Scale, *, resume: bool, overwrite: bool) -> float:
    """Makes the folder, or checks that it holds the same study; the seconds spent on it before."""
    known = read_json(folder / _GRID)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if known is None:
            raise FewstepError(f"{folder} exists and holds no reproduction. Choose another --out.")
        if overwrite:
            shutil.rmtree(folder)
            known = None
        else:
            _check_same(study, folder, scale, known, resume)
    _note_seconds(study, folder, scale, spent := (known or {}).get("seconds", 0.0))
    return spent


def _check_same(study: Study, folder: Path, scale: Scale, known: dict[str, Any], resume: bool) -> None:
    asked = _identity(study, scale)
    differ = [
        f"{name} is {known.get(name)} there and {asked[name]} here" for name in asked if known.get(name) != asked[name]
    ]
    if differ:
        raise FewstepError(
            f"{folder} holds another reproduction: {', '.join(differ)}. Nothing was changed. Choose another --out, or "
            "replace it with --overwrite."
        )
    if not resume:
        raise FewstepError(
            f"{folder} holds this reproduction already, finished or not. Go on with --resume, which trains no finished "
            "cell again; start again with --overwrite; or choose another --out."
        )


def _note_seconds(study: Study, folder: Path, scale: Scale, seconds: float) -> None:
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _GRID, {**_identity(study, scale), "seconds": seconds})


def _identity(study: Study, scale: Scale) -> dict[str, Any]:
    return {"study": study.name, **scale._asdict(), "only": list(scale.only)}


def _speed(study: Study, folder: Path, cells: list[Cell], scale: Scale, watch: Watch) -> Judged:
    """The speed of the methods side by side, with one seed and with all; measured once."""
    if (known := read_json(folder / "speed.json")) is not None:
        return known
    plain = {name(cell): cell.experiment for cell in cells if not cell.setting}
    alone = {label: dataclasses.replace(experiment, seeds=1) for label, experiment in plain.items()}
    speed = {"alone": measure(alone, watch.say)}
    speed["together"] = speed["alone"] if scale.seeds == 1 else measure(plain, watch.say)
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
        "versions": {name: importlib.metadata.version(name) for name in _PACKAGES}
        | {"python": platform.python_version()},
        "commit": _commit(),
    }


def _rows(study: Study, scale: Scale, cells: list[Cell], judged: list[Judged]) -> list[Row]:
    """The study's rows; a quick run is not held against the paper."""
    rows = study.rows(cells, judged)
    return [row | {"verdict": "quick"} if scale.quick and row["verdict"] else row for row in rows]


def command(study: Study, scale: Scale) -> str:
    """The command that makes this result."""
    plain = QUICK if scale.quick else Scale()
    text = lambda value: " ".join(value) if isinstance(value, tuple) else str(value)
    given = [
        f"--{option.replace('_', '-')} {text(value)}"
        for option, value in scale._asdict().items()
        if value != getattr(plain, option)
    ]
    return " ".join([f"fewstep reproduce {study.name}", *(["--quick"] if scale.quick else []), *given])


def _commit() -> str | None:
    """The commit of the source tree that fewstep runs from, if it is one."""
    here = Path(__file__).resolve().parents[2]
    if not (here / ".git").exists():
        return None
    try:
        asked = ["git", "rev-parse", "HEAD"]
        return subprocess.run(asked, cwd=here, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
