"""The folder of a reproduction: one study of one size, held by one process, never replaced unasked."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError
from fewstep.files import empty, locked, read_json, write_json, writing
from fewstep.reproduce._study import O, Study
from fewstep.runs.run import holds_something
from fewstep.runs.settings import differences

_GRID = "grid.json"
Identity = dict[str, Any]


def identity_of(study: Study[O, Any, Any], options: O) -> Identity:
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
