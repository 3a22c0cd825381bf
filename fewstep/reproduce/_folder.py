"""The folder of a reproduction: one study of one size, held by one process, never replaced unasked."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError
from fewstep.files import empty, locked, read_json, write_json, writing
from fewstep.reproduce._study import Scale, Study
from fewstep.runs.run import holds_something
from fewstep.runs.settings import differences

_GRID = "grid.json"
Identity = dict[str, Any]


@contextmanager
def held(identity: Identity, folder: Path, *, resume: bool, overwrite: bool) -> Iterator[None]:
    """Holds the folder for this process: a new one, or one in which the same reproduction was begun."""
    if resume and overwrite:
        raise FewstepError("--resume goes on with a grid and --overwrite replaces it. Keep one of them.")
    if folder.exists() and not folder.is_dir():
        raise FewstepError(f"{folder} is a file. Choose another --out.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = f"Another process works in {folder}. Wait for it, or choose another --out."
    if not holds_something(folder):
        with locked(folder, busy):
            note_seconds(identity, folder, 0.0)
            yield
        return
    known = _known(folder)
    with locked(folder, busy):
        if overwrite:
            empty(folder)
        else:
            _check_same(identity, folder, known, resume)
        note_seconds(identity, folder, seconds(folder))
        yield


def seconds(folder: Path) -> float:
    """The seconds that processes have spent on this folder."""
    return float((read_json(folder / _GRID) or {}).get("seconds", 0.0))


def note_seconds(identity: Identity, folder: Path, spent: float) -> None:
    """Writes down which study of which size this is, and the seconds spent on it so far."""
    write_json(folder / _GRID, {**identity, "seconds": spent})


def identity_of(study: Study, scale: Scale) -> Identity:
    """What a folder is held to: the study and its size."""
    told = {"study": study.name, **scale._asdict(), "only": list(scale.only), "shots": list(scale.shots)}
    free: tuple[str, ...] = ("paper_steps", "paper_tasks")  # the study says these, whoever runs it
    free += ("only", "budget", "shots", "steps") if study.by_row else ()  # each row has its own
    return {key: value for key, value in told.items() if key not in free}


def _known(folder: Path) -> dict[str, Any]:
    known = read_json(folder / _GRID)
    if not isinstance(known, dict) or not {"study", "seed"} <= known.keys():
        raise FewstepError(f"{folder} exists and holds no reproduction. Choose another --out.")
    return known


def _check_same(asked: Identity, folder: Path, known: dict[str, Any], resume: bool) -> None:
    there = {key: known.get(key) for key in asked}  # a folder knows more, such as the seconds spent on it
    if differ := differences(there, asked):
        raise FewstepError(
            f"{folder} holds another reproduction: {', '.join(differ)}. Nothing was changed. Choose another --out, or "
            "replace it with --overwrite."
        )
    if not resume:
        raise FewstepError(
            f"{folder} holds this reproduction already, finished or not. Go on with --resume, which trains no finished "
            "cell again; start again with --overwrite; or choose another --out."
        )
