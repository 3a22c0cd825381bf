"""Gathers the rows that were trained in one folder in several goes, finished or under way, with their commands."""

from pathlib import Path

from fewstep.reproduce._grid import begun, finished, fitted, so_far
from fewstep.reproduce._study import Cell, Judged, Row, Scale, Study


def gather(study: Study, folder: Path, scale: Scale) -> tuple[list[Cell], list[Judged], list[Cell], list[Judged]]:
    """The finished cells in a folder with what was measured of them, and those under way with their curves so far."""
    plain = _plain(study, scale)
    every = study.cells(scale._replace(only=(), steps=plain.steps, shots=tuple(sorted({1, 5, *scale.shots}))))
    here = [fitted(folder, cell, None) for cell in every if begun(folder, cell)]
    done = [(cell, known) for cell in here if (known := finished(folder, cell)) is not None]
    open_ones = [cell for cell in here if cell.name not in {other.name for other, _ in done}]
    curves = [so_far(folder, cell) for cell in open_ones]
    return [cell for cell, _ in done], [known for _, known in done], open_ones, curves


def unfinished(study: Study, scale: Scale, cells: list[Cell], curves: list[Judged]) -> list[Row]:
    """For each cell under way: how far it is, the accuracy on the validation tasks so far, and how to go on."""
    return [
        {
            "cell": cell.name, "method": cell.label, "steps": cell.experiment.steps, "seconds": curve["seconds"],
            "step": max((point["step"] for point in curve["training"]), default=0),
            "validation_accuracy": _accuracy(curve),
            "command": _command_of(study, scale, cell) + " --resume",
        }
        for cell, curve in zip(cells, curves, strict=True)
    ]  # fmt: skip


def _command_of(study: Study, scale: Scale, cell: Cell) -> str:
    return row_command(study, scale, cell.name, cell.experiment.steps, cell.experiment.shots)


def _accuracy(curve: Judged) -> float | None:
    errors = curve["training"][-1]["errors"] if curve["training"] else []
    return 1 - sum(errors) / len(errors) if errors else None


def row_command(study: Study, scale: Scale, name: str, steps: int, shots: int) -> str:
    """The command that trains one row: with the steps that a budget came to, so that it gives the same numbers."""
    alone = scale._replace(only=(name,), steps=_asked(study, scale, name, steps), budget=None, shots=())
    usual = any(cell.name == name for cell in study.cells(alone))
    return command(study, alone if usual else alone._replace(shots=(shots,)))


def _asked(study: Study, scale: Scale, name: str, steps: int) -> int:
    """The `--steps` that give a cell so many: a study may take a part of them for some of its cells."""
    whole = _plain(study, scale).steps
    own = next((cell.experiment.steps for cell in study.cells(scale._replace(steps=whole)) if cell.name == name), 0)
    return round(steps * whole / own) if own else steps


def command(study: Study, scale: Scale) -> str:
    """The command that makes a result of this scale."""
    plain = _plain(study, scale)
    text = lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    given = [
        f"--{option.replace('_', '-')} " + (f"{value:g}s" if option == "budget" else text(value))
        for option, value in scale._asdict().items()
        if value != getattr(plain, option)
    ]
    words = [f"fewstep reproduce {study.name}", study.needs, "--quick" if scale.quick else "", *given]
    return " ".join(word for word in words if word)


def _plain(study: Study, scale: Scale) -> Scale:
    return study.quick if scale.quick else study.scale
