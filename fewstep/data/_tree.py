"""Images in a folder or a zip, one folder per class."""

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
from fewstep.data._decode import SUFFIXES, Bitmap, UnreadableImage, decode
from fewstep.data._walk import (
    UNREADABLE,
    Contents,
    describe_skipped,
    describe_unreadable,
    first_few,
    is_hidden,
    is_image,
    walk,
)

_MAX_BYTES = 100_000_000  # of one image file


class Tree(NamedTuple):
    """The image files of each class, how to read one, and notes on skipped files; a class is named by its folder."""

    path: Path
    classes: dict[str, list[str]]
    read: Callable[[str], bytes]
    notes: list[str]


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Opens a folder or a zip. Raises `FewstepError` when it is neither, is damaged, or holds no image."""
    if path.is_dir():
        contents = walk(path)
        notes = describe_skipped(path, contents)
        yield Tree(path, _classes(path, contents.files), lambda name: (path / name).read_bytes(), notes)
        return
    if not path.exists():
        raise FewstepError(f"There is no {path}. Give a folder or a zip with one folder of images per class.")
    try:
        with zipfile.ZipFile(path) as archive:
            files = [name for name in sorted(archive.namelist()) if not any(map(is_hidden, name.split("/")))]
            notes = describe_skipped(path, Contents(files, [], []))
            yield Tree(path, _classes(path, files), lambda name: _member(archive, name), notes)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise FewstepError(f"{path} is damaged or not a zip: {error}. Get it again.") from None
    except (
        RuntimeError,
        NotImplementedError,
        OSError,
    ) as error:  # encrypted, unknown compression, not readable
        raise FewstepError(f"Cannot read {path}: {error}.") from None


def read_tree(tree: Tree, size: int, mode: str, what: str, *, skip_bad: bool = False) -> dict[str, np.ndarray]:
    """All images of a tree as arrays, by class; sizes and modes that differ are brought to one, which is reported.

    Raises `UnreadableImage` for one that is damaged; with `skip_bad` these are left out, and first_few at the end.
    """
    classes: dict[str, np.ndarray] = {}
    forms: Counter[tuple[int, int, str]] = Counter()
    bad: list[str] = []
    total = sum(map(len, tree.classes.values()))
    for label, files in tree.classes.items():
        images = []
        for image in _images(tree, files, size, mode, bad if skip_bad else None):
            images.append(image.pixels)
            forms[image.form] += 1
            _places.progress(what, forms.total() + len(bad), total, "images")
        if not images:
            raise FewstepError(f"{tree.path}: no image of the class {label!r} can be read. Remove its folder.")
        classes[label] = np.stack(images)
    _report_mixture(tree.path, forms, size, mode)
    if bad:
        _places.say(f"{tree.path}: {len(bad)} of {total} images cannot be read and were left out: {first_few(bad)}.")
    for note in tree.notes:
        _places.say(note)
    return classes


def _images(tree: Tree, files: list[str], size: int, mode: str, bad: list[str] | None) -> Iterator[Bitmap]:
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


def _report_mixture(path: Path, forms: Counter[tuple[int, int, str]], size: int, mode: str) -> None:
    sizes, modes = {(wide, high) for wide, high, _ in forms}, {kind for _, _, kind in forms}
    if len(sizes) > 1 or len(modes) > 1:
        name = {"L": "gray", "RGB": "color"}[mode]
        _places.say(
            f"{path} mixes {len(sizes)} sizes and {len(modes)} modes ({', '.join(sorted(modes))}) of images: all were "
            f"brought to {size} x {size} pixels in {name}, cropped to their middle square."
        )


def _classes(path: Path, files: list[str]) -> dict[str, list[str]]:
    classes: dict[str, list[str]] = {}
    for name in files:
        folder, _, _ = name.rpartition("/")
        if folder and is_image(name):
            classes.setdefault(folder, []).append(name)
    if not classes:
        if any(name.lower().endswith(UNREADABLE) for name in files):
            raise FewstepError(describe_unreadable(path, files))
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
    if archive.getinfo(name).file_size > _MAX_BYTES:
        raise UnreadableImage(f"{archive.filename}: {name} would decompress to more than 100 MB. Remove it.")
    return archive.read(name)
