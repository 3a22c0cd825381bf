"""The files of a folder, links followed, and what is skipped in it."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fewstep._errors import FewstepError
from fewstep.data._decode import SUFFIXES

# Formats of cameras and telephones, which cannot be decoded here.
UNREADABLE = (
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".raw", ".arw", ".cr2", ".cr3", ".nef", ".orf", ".pef", ".raf",
    ".rw2", ".srw",
)  # fmt: skip
_MAX_NAMES = 5  # names in a message


class Contents(NamedTuple):
    """The files of a folder and its folders, by their path from it, in order; links that lead nowhere, and links back
    to a folder that they lie in."""

    files: list[str]
    broken: list[str]
    loops: list[str]


def walk(folder: Path) -> Contents:
    """All files but hidden ones. Links to folders are followed. Raises `FewstepError` for a folder that is closed."""
    contents = Contents([], [], [])
    _visit(str(folder), "", frozenset(), contents)
    return Contents(*map(sorted, contents))


def _visit(place: str, name: str, above: frozenset[tuple[int, int]], contents: Contents) -> None:
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
            contents.files.append(inside)
        elif not entry.is_dir():
            contents.broken.extend([inside] if entry.is_symlink() else [])
        elif entry.is_symlink() and (entry.stat().st_dev, entry.stat().st_ino) in here:
            contents.loops.append(inside)
        else:
            _visit(entry.path, inside, here, contents)


def is_hidden(name: str) -> bool:
    """Whether a part of a path is not the user's: hidden, or what macOS adds to a zip."""
    return name.startswith((".", "__MACOSX"))


def is_image(name: str) -> bool:
    """Whether a file can be read as an image, by its ending."""
    return name.lower().endswith(SUFFIXES)


def describe_skipped(path: Path, contents: Contents) -> list[str]:
    """Notes for the user on files that are not read: photographs of another format, and links."""
    notes = []
    if any(name.lower().endswith(UNREADABLE) for name in contents.files):
        notes.append(describe_unreadable(path, contents.files))
    if contents.broken:
        links = first_few(contents.broken)
        notes.append(f"{path}: {len(contents.broken)} links lead nowhere and were left out: {links}.")
    if contents.loops:
        loops = first_few(contents.loops)
        notes.append(f"{path}: {len(contents.loops)} links lead back to a folder above and were left out: {loops}.")
    return notes


def describe_unreadable(path: Path, files: list[str]) -> str:
    """How many photographs cannot be read, of which kind, where, and what to do."""
    names = [name for name in files if name.lower().endswith(UNREADABLE)]
    endings = Counter(os.path.splitext(name)[1].lower() for name in names)
    places = Counter(os.path.dirname(name) or "." for name in names)
    kinds = " and ".join(f"{count} {ending}" for ending, count in endings.most_common())
    where = first_few([f"{place} ({count})" for place, count in places.most_common()])
    first = endings.most_common(1)[0][0]
    return (
        f"{path}: {len(names)} photographs were left out, because their format cannot be read: {kinds}, in {where}. "
        f"Convert them to JPEG or PNG, such as with ImageMagick: magick mogrify -format jpg FOLDER/*{first}"
    )


def first_few(names: list[str]) -> str:
    """The first of some names, and how many more there are."""
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")
