"""Images as they were brought to size once, kept so that the next start is quick."""

import contextlib
import hashlib
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._set import ImageSet
from fewstep.data._walk import walk
from fewstep.files import cache, new_file

_VERSION = 2  # raise it when the way of preparing changes
_DAYS = 30.0


def prepared(name: str, sources: list[Path], how: dict[str, Any], make: Callable[[], ImageSet]) -> ImageSet:
    """The set that `make` makes of some files, or its copy from an earlier time if the files are as they were then.

    A copy that cannot be written is no obstacle: it is said, and the work is done again next time. What is said while
    the set is made is kept with it, and said again with the copy.
    """
    print_of = {"version": _VERSION, "how": how, "files": [_traits(path) for path in sources]}
    mark = hashlib.sha256(json.dumps(print_of, sort_keys=True).encode()).hexdigest()[:16]
    path = cache() / "prepared" / f"{name}-{mark}.npz"
    if (known := _read(path)) is not None:
        for note in known[1]:
            _places.say(note)
        return known[0]
    with _places.noted() as notes:
        made = make()
    _keep(path, made, notes)
    return made


def _traits(path: Path) -> list[Any]:
    """What tells whether a file, or any file of a folder, has changed."""
    if not path.is_dir():
        return [str(path), path.stat().st_size, path.stat().st_mtime_ns]
    inside = hashlib.sha256()
    for name in walk(path).files:
        with contextlib.suppress(OSError):  # removed meanwhile
            status = os.stat(os.path.join(path, name))
            inside.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return [str(path), inside.hexdigest()]


def _read(path: Path) -> tuple[ImageSet, list[str]] | None:
    try:
        with path.open("rb") as content, np.load(content, allow_pickle=False) as file:
            found = ImageSet(file["images"], file["starts"], file["counts"], tuple(file["names"].tolist()))
            notes = file["notes"].tolist()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):  # missing or damaged: made again
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was of use today
    return found, notes


def _keep(path: Path, made: ImageSet, notes: list[str]) -> None:
    arrays = {**made._asdict(), "names": np.asarray(made.names), "notes": np.asarray(notes, dtype=str)}
    try:
        with new_file(path) as file:
            np.savez(file, allow_pickle=False, **arrays)
    except FewstepError as error:
        _places.say(
            f"The prepared images are not kept, and will be prepared again next time. {error} FEWSTEP_CACHE names "
            "another folder."
        )
    with contextlib.suppress(OSError):
        _forget_old(path.parent)


def _forget_old(folder: Path) -> None:
    """Removes what nobody has used for a month: copies of files that have changed since, or of other sizes."""
    limit = time.time() - _DAYS * 86_400
    for path in folder.glob("*.n*"):  # whole copies, and those of a process that was ended while it wrote
        if path.stat().st_mtime < limit:
            path.unlink(missing_ok=True)
