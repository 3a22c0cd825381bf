"""Runs the table: every set with every method, fold by fold; what is done is kept and not done again."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold

from fewstep._errors import FewstepError, unknown
from fewstep.files import finite, read_json, write_json
from fewstep.machine.meter import time_left
from fewstep.reproduce import _folder
from fewstep.reproduce._run import made_with
from fewstep.reproduce.layerwise import _claims, _report
from fewstep.reproduce.layerwise._methods import LABELS, METHODS, Fold, Told
from fewstep.reproduce.layerwise._rows import summary
from fewstep.reproduce.layerwise._sets import Entry, Table, entries
from fewstep.reproduce.layerwise._sgd import EPOCHS

NAME, CLAIMS = "layerwise", "claims"
_QUICK_SETS, _QUICK_METHODS = ("random", "wine"), ("ism", "ws", "svm")


class Scale(NamedTuple):
    """How much is run: folds of each cell, the most epochs of a network; `only`: sets, methods, cells or claims;
    `untimed` folds leave no seconds: they may run beside other work."""

    folds: int = 10
    seed: int = 0
    epochs: int = EPOCHS
    quick: bool = False
    only: tuple[str, ...] = ()
    untimed: bool = False

    def describe(self) -> str:
        """The scale in words."""
        size = f"{self.folds} folds, seed {self.seed}, at most {self.epochs:,} epochs"
        return size if self._replace(seed=0, only=(), untimed=False) == Scale() else f"not the poster's size: {size}"


QUICK = Scale(folds=3, epochs=100, quick=True)


class Cell(NamedTuple):
    """A set and a method."""

    set: str
    method: str

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.set}-{self.method}"


def reproduce(
    folder: Path, scale: Scale, say: Callable[[str], None], *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Runs the table in a folder, or goes on with it; writes `result.json` and `report.html`."""
    known = entries()
    cells = _cells(known, scale)
    identity = {"study": NAME, **scale._asdict(), "sets": ", ".join(known)}
    del identity["only"], identity["untimed"]
    with _folder.held(identity, folder, resume=resume, overwrite=overwrite):
        begin, before = time.monotonic(), _folder.seconds(folder)
        try:
            for number, cell in enumerate(cells):
                _run_cell(folder, known[cell.set].read(), cell, scale, _told_of(say, number, len(cells), cell))
            if not scale.only or CLAIMS in scale.only:
                _run_claims(folder, known, scale, say)
        finally:
            _folder.note_seconds(identity, folder, before + time.monotonic() - begin)
        return _tell(folder, known, scale, _folder.seconds(folder))


def _tell(folder: Path, known: dict[str, Entry], scale: Scale, seconds: float) -> dict[str, Any]:
    """The result of all cells that the folder has, finished or not."""
    there = [(cell, found) for cell in _all(known) if (found := read_json(_path(folder, cell))) is not None]
    rows = [summary(cell.set, cell.method, known[cell.set], found, scale.folds) for cell, found in there]
    result = {
        "name": NAME, "protocol": f"{scale.describe().capitalize()}.", "quick": scale.quick,
        "scale": scale._asdict(), "rows": rows,
        "claims": _claims_of(folder, known), "command": _command(scale), **made_with("scikit-learn"),
        "total_seconds": seconds, "report": str(folder / "report.html"),
    }  # fmt: skip
    write_json(folder / "result.json", result := finite(result))
    _report.write(folder, result, "" if not scale.quick and scale.folds == 10 else scale.describe())
    return result


def _run_claims(folder: Path, known: dict[str, Entry], scale: Scale, say: Callable[[str], None]) -> None:
    for name in _QUICK_SETS if scale.quick else _claims.SETS:
        if not (path := folder / "claims" / f"{name}.json").exists():
            say(f"{NAME}: the claims on {name}")
            write_json(path, _claims.measure(name, known[name], scale.seed))


def _claims_of(folder: Path, known: dict[str, Entry]) -> dict[str, Any]:
    found = {name: read_json(folder / "claims" / f"{name}.json") for name in known}
    return {name: told for name, told in found.items() if told is not None}


def _command(scale: Scale) -> str:
    plain = QUICK if scale.quick else Scale()
    words = [f"fewstep reproduce {NAME}", "--quick" if scale.quick else ""]
    words += [
        f"--{name} {getattr(scale, name)}" for name in ("seed", "folds") if getattr(scale, name) != getattr(plain, name)
    ]
    return " ".join(word for word in words if word)


def _all(known: dict[str, Entry]) -> list[Cell]:
    return [Cell(name, method) for name in known for method in METHODS]


def _cells(known: dict[str, Entry], scale: Scale) -> list[Cell]:
    """The cells that were asked for, those that take long last."""
    cells = _all(known)
    named = {CLAIMS, *(word for cell in cells for word in (cell.set, cell.method, cell.name))}
    for asked in scale.only:
        if asked not in named:
            raise unknown(f"set, method or cell of {NAME}", asked, sorted(named))
    if scale.only:
        cells = [cell for cell in cells if {cell.set, cell.method, cell.name} & set(scale.only)]
    elif scale.quick:
        cells = [cell for cell in cells if cell.set in _QUICK_SETS and cell.method in _QUICK_METHODS]
    order = ("ism", "ism-balanced", "ws", "svm", "forest", "mlp", "sgd-ce", "sgd-mse")
    return sorted(cells, key=lambda cell: order.index(cell.method))


def _path(folder: Path, cell: Cell) -> Path:
    return folder / "cells" / f"{cell.name}.json"


def _run_cell(folder: Path, table: Table, cell: Cell, scale: Scale, say: Callable[[str], None]) -> list[Told]:
    """The folds of a cell, all or those that are missing, written one by one."""
    done: list[Told] = read_json(_path(folder, cell)) or []
    begin, first = time.monotonic(), len(done)
    for number, fold in enumerate(_folds(folder, table, cell, scale)):
        if number < len(done):
            continue
        told = METHODS[cell.method](fold)
        done.append(told | ({"seconds": None} if scale.untimed else {}))
        write_json(_path(folder, cell), done)
        left = (time.monotonic() - begin) / (len(done) - first) * (scale.folds - len(done))
        say(f"fold {len(done)} of {scale.folds}, test {done[-1]['test']:.3f}, {time_left(left)} for it")
    return done


def _folds(folder: Path, table: Table, cell: Cell, scale: Scale) -> Iterator[Fold]:
    if scale.folds > len(table.y):
        raise FewstepError(f"--folds is {scale.folds} and {cell.set} has {len(table.y)} rows. Give at most as many.")
    codes = np.unique(table.y, return_inverse=True)[1]
    depths = [4] * scale.folds
    if cell.method.startswith("sgd"):  # as deep as the spectral network of the same fold
        ism = Cell(cell.set, "ism")
        depths = [told["layers"] for told in _run_cell(folder, table, ism, scale, lambda text: None)]
    cuts = KFold(scale.folds, shuffle=True, random_state=scale.seed).split(table.x)
    for number, (depth, (train, test)) in enumerate(zip(depths, cuts, strict=True)):
        seed = 1000 * scale.seed + number
        yield Fold(cell.set, table.x[train], codes[train], table.x[test], codes[test], seed, depth, scale.epochs)


def _told_of(say: Callable[[str], None], number: int, cells: int, cell: Cell) -> Callable[[str], None]:
    return lambda text: say(f"{NAME} {number + 1}/{cells} {cell.set}, {LABELS[cell.method]}: {text}")
