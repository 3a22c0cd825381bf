"""Runs a study: its cells, each in a folder; then writes the result, the figures and the report."""

import dataclasses
import importlib.metadata
import platform
from collections.abc import Callable
from pathlib import Path

import jax

from fewstep.files import JSON, finite, read_json, write_json
from fewstep.machine.devices import cores
from fewstep.machine.provenance import commit
from fewstep.runs import Progress
from fewstep_studies.reproduce import _folder
from fewstep_studies.reproduce._measurement import Training
from fewstep_studies.reproduce._report import write_report
from fewstep_studies.reproduce._rows import Result, Row, as_json, read_record
from fewstep_studies.reproduce._speed import Rate, Speed
from fewstep_studies.reproduce._study import AnyCell, Cell, M, O, P, Pairs, Results, Study

_PACKAGES = ("fewstep", "jax", "jaxlib", "optax", "numpy")


@dataclasses.dataclass(frozen=True)
class Watch:
    """Who watches: `cells(cells)` gives the progress of each cell by its number, `say` takes remarks."""

    cells: Callable[[list[AnyCell]], Callable[[int], Progress]]
    say: Callable[[str], None]


def reproduce(
    study: Study[O, P, M], out: Path, options: O, watch: Watch, *, resume: bool = False, overwrite: bool = False
) -> Result | None:
    """Runs a study in a folder, or continues it; the result, or nothing if a signal stopped it.

    Finished cells are not run again. The folder then holds `result.json`, `report.html`, and `figures` with a PNG
    and a CSV of each plot.
    """
    cells = _folder.chosen(study, options)
    identity = _folder.identity_of(study, options)
    with _folder.held(identity, out, resume=resume, overwrite=overwrite) as note:
        pairs = _run_all(study, out, cells, options, watch, note)
        if pairs is None:
            if study.gathers:  # its rows take hours: what is reached is reported
                _conclude(study, out, _folder.gather(study, out, options), note())
            return None
        results = _folder.gather(study, out, options) if study.gathers else Results(options, pairs)
        if study.time and not options.quick:
            results = dataclasses.replace(results, speed=_speed(study, out, cells, options, watch))
        return _conclude(study, out, results, note())


def _run_all(
    study: Study[O, P, M], folder: Path, cells: list[Cell[P]], options: O, watch: Watch, note: Callable[[], float]
) -> Pairs[P, M] | None:
    """What was measured of every cell; nothing if a signal stopped the work."""
    pairs: list[tuple[Cell[P], M]] = []
    progress = watch.cells(cells)
    study.runner.prepare([cell for cell in cells if _folder.finished(study, _folder.place(folder, cell.name)) is None])
    for number, cell in enumerate(cells):
        path = _folder.place(folder, cell.name)
        if (measurement := _folder.finished(study, path)) is None:
            cells[number] = cell = study.runner.fit(cell, path, options, watch.say)
            measurement = study.runner.run(cell, path, options, progress(number))
            jax.clear_caches()  # a long grid compiles more programs than a process has memory maps for
            note()
            if measurement is None:
                return None
            measurement = _folder.keep(study, path, measurement)
        pairs.append((cell, measurement))
    return pairs


def _speed(study: Study[O, P, M], folder: Path, cells: list[Cell[P]], options: O, watch: Watch) -> Speed:
    """The speed of the cells side by side; measured once."""
    assert study.time is not None
    stored = read_json(folder / "speed.json")
    if stored is None:
        stored = as_json(study.time(cells, options, watch.say))
        write_json(folder / "speed.json", stored)
    return {kind: read_record(dict[str, Rate], rates) for kind, rates in stored.items()}


def _conclude(study: Study[O, P, M], out: Path, results: Results[O, P, M], seconds: float) -> Result:
    """Writes the result and the report."""
    options = results.options
    commits = {str(measurement.commit) for _, measurement in results.pairs if hasattr(measurement, "commit")}
    chosen_options = options if _is_by_row(study) else _folder.without_choice(study, out, options)
    result = Result(
        study.name, f"{study.texts.protocol} This run: {study.describe(options)}.".strip(), options.quick,
        dataclasses.asdict(options), _rows(study, results), _folder.command(study, chosen_options),
        **made_with(*study.packages), total_seconds=seconds, report=str(out / "report.html"),
        cost=study.cost(results) if study.cost else [], trained_at_commits=sorted(commits),
        unfinished=_folder.unfinished(study, results), more=study.more(results) if study.more else {},
    )  # fmt: skip
    write_json(out / "result.json", finite(as_json(result)))
    write_report(out, study, results, result)
    return result


def _is_by_row(study: Study[O, P, M]) -> bool:
    return "steps" in study.free


def _rows(study: Study[O, P, M], results: Results[O, P, M]) -> list[Row]:
    """The study's rows; only a run of the paper's size is compared with the paper."""
    rows, options = study.rows(results), results.options
    if _is_by_row(study):
        shots = {cell.name: cell.plan.experiment.shots for cell, _ in results.pairs if isinstance(cell.plan, Training)}
        rows = [
            row._replace(command=_folder.row_command(study, options, row.cell, row.steps or 0, shots[row.cell]))
            if row.cell else row for row in rows
        ]  # fmt: skip
    if study.exact or study.is_full(options):
        return rows
    instead = "quick" if options.quick else "not judged"
    return [row if row.verdict == "diverged" else row._replace(verdict=instead) for row in rows]


def made_with(*more: str) -> dict[str, JSON]:
    """What a result was made with: versions, cores, commit."""
    versions = {package: importlib.metadata.version(package) for package in (*_PACKAGES, *more)}
    return {"versions": versions | {"python": platform.python_version()}, "cores": cores(), "commit": commit()}
