"""The files of a folder, links followed, and what is left out of it."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fewstep._errors import FewstepError
from fewstep.data._decode import SUFFIXES

# Photographs as cameras and telephones keep them, which cannot be decoded here.
UNREAD = (
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".raw", ".arw", ".cr2", ".cr3", ".nef", ".orf", ".pef", ".raf",
    ".rw2", ".srw",
)  # fmt: skip
_NAMED = 5  # names in a message


class Walk(NamedTuple):
    """The files of a folder and its folders, by their path from it, in order; links that lead nowhere, and links back
    to a folder that they lie in."""

    files: list[str]
    broken: list[str]
    loops: list[str]


def walk(folder: Path) -> Walk:
    """All files but hidden ones. Links to folders are followed. Raises `FewstepError` for a folder that is closed."""
    made = Walk([], [], [])
    _visit(str(folder), "", frozenset(), made)
    return Walk(*map(sorted, made))


def _visit(place: str, name: str, above: frozenset[tuple[int, int]], made: Walk) -> None:
    try:
        status, entries = os.stat(place), list(os.scandir(place))
    except OSError as error:
        raise FewstepError(f"Cannot read the folder {place}: {error.strerror or error}.") from None
    here = above | {(status.st_dev, status.st_ino)}
    for entry in entries:
        inside = f"{name}/{entry.name}" if name else entry.name
        if is_hidden(entry.name):
            continue
        if entry.is_file():
            made.files.append(inside)
        elif not entry.is_dir():
            made.broken.extend([inside] if entry.is_symlink() else [])
        elif entry.is_symlink() and (entry.stat().st_dev, entry.stat().st_ino) in here:
            made.loops.append(inside)
        else:
            _visit(entry.path, inside, here, made)


def is_hidden(name: str) -> bool:
    """Whether a part of a path is not the user's: hidden, or what macOS adds to a zip."""
    return name.startswith((".", "__MACOSX"))


def is_image(name: str) -> bool:
    """Whether a file can be read as an image, by its ending."""
    return name.lower().endswith(SUFFIXES)


def left_out(path: Path, found: Walk) -> list[str]:
    """What a user should know of files that are not taken: photographs of another format, and links."""
    notes = [tell_unread(path, found.files)] if any(name.lower().endswith(UNREAD) for name in found.files) else []
    if found.broken:
        notes.append(f"{path}: {len(found.broken)} links lead nowhere and were left out: {listed(found.broken)}.")
    if found.loops:
        notes.append(
            f"{path}: {len(found.loops)} links lead back to a folder above and were left out: {listed(found.loops)}."
        )
    return notes


def tell_unread(path: Path, files: list[str]) -> str:
    """How many photographs cannot be read, of which kind, where, and what to do."""
    names = [name for name in files if name.lower().endswith(UNREAD)]
    endings = Counter(os.path.splitext(name)[1].lower() for name in names)
    places = Counter(os.path.dirname(name) or "." for name in names)
    kinds = " and ".join(f"{count} {ending}" for ending, count in endings.most_common())
    where = listed([f"{place} ({count})" for place, count in places.most_common()])
    first = endings.most_common(1)[0][0]
    return (
        f"{path}: {len(names)} photographs were left out, because their format cannot be read: {kinds}, in {where}. "
        f"Convert them to JPEG or PNG, such as with ImageMagick: magick mogrify -format jpg FOLDER/*{first}"
    )


def listed(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
