"""Saved models: named arrays and a description in JSON in one .npz, versioned, checked on load, read without pickle."""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files._files import JSON, new_file

_ABOUT, _DIGEST = "about.json", "digest"


def write_archive(
    path: Path,
    kind: str,
    version: int,
    about: Mapping[str, object],
    arrays: Mapping[str, np.ndarray],
    *,
    compressed: bool = False,
) -> Path:
    """Writes arrays and what is to be known about them, in place of an older file.

    **Arguments:** `kind` is what the file holds, in words that stand in messages ("layer-wise network"); `version` is
    that of the layout of `about` and `arrays`, which `read_archive` compares; `about` is anything JSON can hold.

    **Returns:** the path, with the ending `.npz` if it had another.
    """
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    for name, array in arrays.items():
        if array.dtype.kind in "OV":
            raise TypeError(f"The array {name!r} is of type {array.dtype}, which an .npz file cannot hold as it is.")
    text = json.dumps({"kind": kind, "version": version, "about": about}).encode()
    members = {**arrays, _ABOUT: np.frombuffer(text, np.uint8), _DIGEST: _digest(text, arrays)}
    with new_file(path) as file:
        (np.savez_compressed if compressed else np.savez)(file, **members)  # type: ignore[arg-type]
    return path


def read_archive(
    path: Path, kind: str, version: int, remedy: str = "Save it again."
) -> tuple[dict[str, JSON], dict[str, np.ndarray]]:
    """The description and the arrays of a file that `write_archive` wrote; the ending `.npz` may be left out.

    Raises `FewstepError` unless the file is whole, of this kind and of this version; `remedy` says how to make another.
    """
    ended = path.with_name(path.name + ".npz")
    path = ended if ended.is_file() and not path.is_file() else path
    if not path.is_file():
        raise FewstepError(f"There is no file {path}. Give the path of a saved {kind}.")
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        text, digest = arrays.pop(_ABOUT).tobytes(), arrays.pop(_DIGEST)
        described = json.loads(text)
        of, written, about = described["kind"], described["version"], described["about"]
        whole = np.array_equal(digest, _digest(text, arrays))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise FewstepError(f"{path} is damaged, or is not a saved {kind} of this version. {remedy}") from None
    if not whole:
        raise FewstepError(f"{path} is damaged: its contents do not match its checksum. {remedy}")
    if of != kind:
        raise FewstepError(f"{path} holds a {of}, not a {kind}. Give the path of a saved {kind}.")
    if written != version:
        newer = "a newer version of fewstep: update fewstep" if written > version else "an older version of fewstep"
        raise FewstepError(
            f"{path} has format {written} and this version reads format {version}. It was saved by {newer}. {remedy}"
        )
    return about, arrays


def archive_kind(path: Path) -> str:
    """What a file that `write_archive` wrote holds; empty where that cannot be read."""
    ended = path.with_name(path.name + ".npz")
    path = ended if ended.is_file() and not path.is_file() else path
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return str(json.loads(file[_ABOUT].tobytes())["kind"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error):
        return ""


def _digest(text: bytes, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """One SHA-256 of the description and of every array's name, type, shape and bytes."""
    total = hashlib.sha256(text)
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        total.update(arrays[name].tobytes())
    return np.frombuffer(total.digest(), np.uint8)
