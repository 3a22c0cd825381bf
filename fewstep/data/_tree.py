"""Images in a folder or a zip, one folder a class."""

import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._decode import SUFFIXES, Decoded, UnreadableImage, decode
from fewstep.data._walk import UNREAD, Walk, is_hidden, is_image, left_out, listed, tell_unread, walk

_MOST_BYTES = 100_000_000  # of one image file


class Tree(NamedTuple):
    """The image files of each class, how to read one, and what was left out; a class is named by its folder."""

    path: Path
    classes: dict[str, list[str]]
    read: Callable[[str], bytes]
    notes: list[str]


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Opens a folder or a zip. Raises `FewstepError` when it is neither, is damaged, or holds no image."""
    if path.is_dir():
        found = walk(path)
        yield Tree(path, _classes(path, found.files), lambda name: (path / name).read_bytes(), left_out(path, found))
        return
    if not path.exists():
        raise FewstepError(f"There is no {path}. Give a folder or a zip with one folder of images a class.")
    try:
        with zipfile.ZipFile(path) as archive:
            files = [name for name in sorted(archive.namelist()) if not any(map(is_hidden, name.split("/")))]
            notes = left_out(path, Walk(files, [], []))
            yield Tree(path, _classes(path, files), lambda name: _member(archive, name), notes)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FewstepError(f"{path} is damaged or not a zip: {error}. Get it again.") from None
    except (RuntimeError, NotImplementedError, OSError) as error:  # encrypted, packed in an unknown way, not readable
        raise FewstepError(f"Cannot read {path}: {error}.") from None


def read_tree(tree: Tree, size: int, mode: str, what: str, *, skip_bad: bool = False) -> dict[str, np.ndarray]:
    """All images of a tree as arrays, by class; sizes and modes that differ are brought to one, and that is said.

    Raises `UnreadableImage` for one that is damaged; with `skip_bad` these are left out, and listed at the end.
    """
    made: dict[str, np.ndarray] = {}
    was: Counter[tuple[int, int, str]] = Counter()
    bad: list[str] = []
    total = sum(map(len, tree.classes.values()))
    for label, files in tree.classes.items():
        images = []
        for image in _images(tree, files, size, mode, bad if skip_bad else None):
            images.append(image.pixels)
            was[image.was] += 1
            _places.progress(what, was.total() + len(bad), total, "images")
        if not images:
            raise FewstepError(f"{tree.path}: no image of the class {label!r} can be read. Remove its folder.")
        made[label] = np.stack(images)
    _tell_mixture(tree.path, was, size, mode)
    if bad:
        _places.say(f"{tree.path}: {len(bad)} of {total} images cannot be read and were left out: {listed(bad)}.")
    for note in tree.notes:
        _places.say(note)
    return made


def _images(tree: Tree, files: list[str], size: int, mode: str, bad: list[str] | None) -> Iterator[Decoded]:
    """The images of some files; where `bad` is a list, the names of those that cannot be read are added to it."""
    for name in files:
        try:
            yield decode(_content(tree, name), f"{tree.path}: {name}", size, mode)
        except UnreadableImage:
            if bad is None:
                raise
            bad.append(name)


def _content(tree: Tree, name: str) -> bytes:
    try:
        return tree.read(name)
    except OSError as error:
        raise UnreadableImage(f"Cannot read {tree.path / name}: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UnreadableImage(f"{tree.path}: {name} is damaged: {error}. Get the zip again.") from None


def _tell_mixture(path: Path, was: Counter[tuple[int, int, str]], size: int, mode: str) -> None:
    sizes, modes = {(wide, high) for wide, high, _ in was}, {kind for _, _, kind in was}
    if len(sizes) > 1 or len(modes) > 1:
        name = {"L": "gray", "RGB": "color"}[mode]
        _places.say(
            f"{path} mixes {len(sizes)} sizes and {len(modes)} modes ({', '.join(sorted(modes))}) of images: all were "
            f"brought to {size} x {size} pixels in {name}, cut to their middle square."
        )


def _classes(path: Path, files: list[str]) -> dict[str, list[str]]:
    classes: dict[str, list[str]] = {}
    for name in files:
        folder, _, _ = name.rpartition("/")
        if folder and is_image(name):
            classes.setdefault(folder, []).append(name)
    if not classes:
        if any(name.lower().endswith(UNREAD) for name in files):
            raise FewstepError(tell_unread(path, files))
        loose = sum(map(is_image, files))
        why = f"{loose} images lie outside of any folder" if loose else "no image was found"
        raise FewstepError(
            f"{path} holds no folder of images: {why} ({', '.join(SUFFIXES)}). Put the images of each class into a "
            "folder of its own."
        )
    return _without_common(classes)


def _without_common(classes: dict[str, list[str]]) -> dict[str, list[str]]:
    """The classes without the folders that all of them lie in."""
    split = [label.split("/") for label in classes]
    depth = 0
    while all(len(parts) > depth + 1 and parts[depth] == split[0][depth] for parts in split):
        depth += 1
    return {"/".join(label.split("/")[depth:]): files for label, files in classes.items()}


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _MOST_BYTES:
        raise UnreadableImage(f"{archive.filename}: {name} would unfold to more than 100 MB. Remove it.")
    return archive.read(name)
