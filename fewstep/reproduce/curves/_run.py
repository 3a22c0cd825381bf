"""Runs the comparison: set by set, split by split, method by method; what is done is kept and not done again."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from fewstep._errors import unknown
from fewstep.files import finite, read_json, write_json
from fewstep.machine.meter import time_left
from fewstep.reproduce import _folder
from fewstep.reproduce._run import made_with
from fewstep.reproduce.curves import _measure, _report
from fewstep.reproduce.curves._rows import rows_of
from fewstep.reproduce.curves._sets import Entry, entries

NAME = "curves"
BASELINES = "baselines"
DRAWN = "MT-net"  # whose curves the report shows, in the first split


class Scale(NamedTuple):
    """How much is run: splits of each set, outer steps of our methods; `only` sets or methods."""

    splits: int = 5
    steps: int = 3000
    seed: int = 0
    quick: bool = False
    only: tuple[str, ...] = ()

    def describe(self) -> str:
        """The scale in words."""
        size = f"{self.splits} splits by task, {self.steps:,} steps, three seeds that answer together"
        return f"a quick look: {size}" if self.quick else size


QUICK = Scale(splits=1, steps=200, quick=True)


def reproduce(
    folder: Path, scale: Scale, say: Callable[[str], None], *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Runs the comparison in a folder, or goes on with it; writes `result.json` and `report.html`."""
    known = entries()
    cells = _cells(known, scale)
    identity = {"study": NAME, **scale._asdict()}
    del identity["only"]
    with _folder.held(identity, folder, resume=resume, overwrite=overwrite):
        begin, before, done = time.monotonic(), _folder.seconds(folder), 0
        try:
            for number, (name, split, method) in enumerate(cells):
                path = folder / "cells" / f"{name}-{split}-{method}.json"
                if path.exists():
                    continue
                left = (time.monotonic() - begin) / done * (len(cells) - number) if done else 0.0
                say(
                    f"{NAME} {number + 1}/{len(cells)}: {name}, split {split}, {method}"
                    + (f", {time_left(left)}" * (done > 0))
                )
                write_json(path, _cell(known[name], split, method, scale, say))
                done += 1
        finally:
            _folder.note_seconds(identity, folder, before + time.monotonic() - begin)
        return _tell(folder, known, scale)


def _cells(known: dict[str, Entry], scale: Scale) -> list[tuple[str, int, str]]:
    methods = [*_measure.OURS.values(), BASELINES]
    for asked in scale.only:
        if asked not in (*known, *methods):
            raise unknown(f"set or method of {NAME}", asked, (*known, *methods))
    sets = [name for name in known if name in scale.only] or list(known)
    taken = [method for method in methods if method in scale.only] or methods
    return [(name, split, method) for split in range(scale.splits) for name in sets for method in taken]


def _cell(entry: Entry, split: int, method: str, scale: Scale, say: Callable[[str], None]) -> Any:
    table = _measure.prepared(entry, scale.seed + split)
    if method == BASELINES:
        return _measure.measure_baselines(table, scale.seed, say)
    return _measure.measure_ours(table, method, scale.steps, scale.seed)


def _tell(folder: Path, known: dict[str, Entry], scale: Scale) -> dict[str, Any]:
    labels = {method: label for label, method in _measure.OURS.items()}
    found: dict[tuple[str, str], list[Any]] = {}
    for name in known:
        for split in range(scale.splits):
            for method in (*labels, BASELINES):
                told = read_json(folder / "cells" / f"{name}-{split}-{method}.json")
                if told is None:
                    continue
                for label, of in told.items() if method == BASELINES else [(labels[method], told)]:
                    found.setdefault((name, label), []).append(of)
    result = {
        "name": NAME, "protocol": f"{scale.describe().capitalize()}.", "quick": scale.quick, "scale": scale._asdict(),
        "rows": rows_of(found, known, judged=not scale.quick), "command": _command(scale), **made_with(),
        "total_seconds": _folder.seconds(folder), "report": str(folder / "report.html"),
    }  # fmt: skip
    write_json(folder / "result.json", result := finite(result))
    curves = {name: found[name, DRAWN][0].get("curves", []) for name in known if (name, DRAWN) in found}
    _report.write(folder, result, known, curves, scale.describe() if scale.quick else "")
    return result


def _command(scale: Scale) -> str:
    plain = QUICK if scale.quick else Scale()
    words = [f"fewstep reproduce {NAME}", "--quick" if scale.quick else ""]
    words += [f"--{n} {getattr(scale, n)}" for n in ("seed", "steps") if getattr(scale, n) != getattr(plain, n)]
    return " ".join(word for word in words if word)
