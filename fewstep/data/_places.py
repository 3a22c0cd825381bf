"""Where data are looked for, where they are kept, and who is told how far work on them is."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.files import cache

_folders: dict[str, Path] = {}
_hooks: dict[str, Callable] = {}
_notes: list[list[str]] = []


def look_in(folder: Path | None) -> None:
    """Looks for data in this folder first, instead of in the one FEWSTEP_DATA names; `None` takes it back."""
    _folders.pop("data", None)
    if folder is not None:
        if not folder.is_dir():
            raise FewstepError(f"{folder}, where data are to be looked for, is not a folder. Give one that exists.")
        _folders["data"] = folder


def images_at(name: str, folder: Path) -> None:
    """Says where a user's own copy of a set lies, such as that of miniimagenet."""
    if not folder.exists():
        raise FewstepError(f"There is no {folder}. Give the folder of the images.")
    _folders[name] = folder


def given(name: str) -> Path | None:
    """The place a user gave for a set, if any."""
    return _folders.get(name)


def folders() -> list[Path]:
    """The folders to look in, in this order: that of --data-dir or FEWSTEP_DATA, then the cache."""
    named = os.environ.get("FEWSTEP_DATA")
    own = _folders.get("data") or (Path(named).expanduser() if named else None)
    if own and not own.is_dir():
        raise FewstepError(f"FEWSTEP_DATA is {own}, which is not a folder. Correct it, or unset it.")
    return [*([own] if own else []), cache()]


def on_progress(progress: Callable[[str, float, float, str], None], say: Callable[[str], None]) -> None:
    """Who is told: `progress(what, done, total, unit)` while work goes on, and `say` of what is worth a remark."""
    _hooks.update(progress=progress, say=say)


def progress(what: str, done: float, total: float, unit: str) -> None:
    """Tells how far something is, of how much, 0 where that is not known."""
    if "progress" in _hooks:
        _hooks["progress"](what, done, total, unit)


def say(message: str) -> None:
    """Makes a remark."""
    for notes in _notes:
        notes.append(message)
    if "say" in _hooks:
        _hooks["say"](message)


@contextmanager
def noted() -> Iterator[list[str]]:
    """The remarks that are made meanwhile, which are made all the same."""
    notes: list[str] = []
    _notes.append(notes)
    try:
        yield notes
    finally:
        _notes.remove(notes)
