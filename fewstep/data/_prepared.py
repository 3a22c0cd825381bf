"""Images that were brought to size once, cached so that the next start is quick."""

import contextlib
import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._set import ImageSet
from fewstep.data._walk import walk
from fewstep.files import cache, forget_old, mark_used, new_file

_VERSION = 2  # increase it when preparing changes


def prepare(name: str, inputs: list[Path], settings: Mapping[str, int | str], make: Callable[[], ImageSet]) -> ImageSet:
    """The set that `make` reads from some files, or its cached copy if the files have not changed.

    A copy that cannot be written is reported, and the work is done again next time. Remarks that are made while the
    set is read are stored with it, and made again with the copy.
    """
    traits = {"version": _VERSION, "how": settings, "files": [_traits(path) for path in inputs]}
    digest = hashlib.sha256(json.dumps(traits, sort_keys=True).encode()).hexdigest()[:16]
    path = cache() / "prepared" / f"{name}-{digest}.npz"
    if (copy := _read(path)) is not None:
        for note in copy[1]:
            _places.say(note)
        return copy[0]
    with _places.noted() as notes:
        images = make()
    _write(path, images, notes)
    return images


def _traits(path: Path) -> list[str | int]:
    """What changes when a file, or any file of a folder, changes."""
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
            images = ImageSet(file["images"], file["starts"], file["counts"], tuple(file["names"].tolist()))
            notes = file["notes"].tolist()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):  # missing or damaged
        return None
    mark_used(path)
    return images, notes


def _write(path: Path, images: ImageSet, notes: list[str]) -> None:
    arrays = {**images._asdict(), "names": np.asarray(images.names), "notes": np.asarray(notes, dtype=str)}
    try:
        with new_file(path) as file:
            np.savez(file, allow_pickle=False, **arrays)
    except FewstepError as error:
        _places.say(
            f"The prepared images are not kept, and will be prepared again next time. {error} FEWSTEP_CACHE names "
            "another folder."
        )
    forget_old(path.parent)
