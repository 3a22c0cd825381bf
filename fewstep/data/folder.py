"""A user's own images: a folder or a zip with one folder per class, or a list of files and labels."""

import csv
import hashlib
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._decode import decode_file
from fewstep.data._set import SPLITS, Classes, ImageSet, make_set, split_classes
from fewstep.data._tree import open_tree, read_tree
from fewstep.data._walk import first_few

_NAMES = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_SHARES = (0.64, 0.16)


def read_folder(path: Path, size: int, color: str, *, skip_bad: bool = False) -> ImageSet:
    """All images of a folder or zip, brought to one size and mode."""
    mode = {"gray": "L", "rgb": "RGB"}[color]
    with open_tree(path) as tree:
        classes = read_tree(tree, size, mode, f"reading {path.name}", skip_bad=skip_bad)
    _report_twins(path, classes)
    return make_set(classes)


def _report_twins(path: Path, classes: dict[str, np.ndarray]) -> None:
    """Reports classes that hold the same images, in any order and under any file names."""
    alike: dict[bytes, list[str]] = {}
    for label, images in classes.items():
        marks = sorted(hashlib.sha256(image).digest() for image in np.ascontiguousarray(images))
        alike.setdefault(b"".join(marks), []).append(label)
    if twins := [" and ".join(map(repr, labels)) for labels in alike.values() if len(labels) > 1]:
        _places.say(
            f"{path}: classes hold the same images, which no method can tell apart: {first_few(twins)}. Keep one."
        )


def folder_classes(path: Path, seed: int, ways: int) -> Classes:
    """The classes of train, validation and test.

    Folders that are called train, val and test decide; otherwise the classes are drawn by the seed, 64%, 16% and 20%,
    but at least as many as a task takes.
    """
    with open_tree(path) as tree:
        names = tuple(tree.classes)
    if {name.split("/")[0] for name in names} & {"train", "test"}:
        classes = named_classes(path, names)
    else:
        validation, test = (max(ways, round(share * len(names))) for share in (_SHARES[1], 1 - sum(_SHARES)))
        classes = split_classes(names, seed, (max(0, len(names) - validation - test), validation))
    if short := [f"{part} has {len(some)}" for part, some in classes.items() if len(some) < ways]:
        raise FewstepError(
            f"{path} has {len(names)} classes, and training, validation and test each need at least the {ways} of a "
            f"task: {' and '.join(short)}. Add classes, or use fewer `ways`."
        )
    return classes


def named_classes(path: Path, names: tuple[str, ...]) -> Classes:
    """The classes by the folder they lie in: train, val or test. Raises `FewstepError` if there are others."""
    tops = {name.split("/")[0] for name in names}
    if not tops <= _NAMES.keys() or {_NAMES[top] for top in tops} != set(SPLITS):
        raise FewstepError(
            f"{path} has the folders {', '.join(sorted(tops))}. Where some are named by their split, there must be "
            "just train, val and test, each with one folder of images per class."
        )
    return {part: tuple(n for n in names if _NAMES[n.split("/")[0]] == part) for part in SPLITS}


def has_classes(path: Path) -> bool:
    """Whether a folder holds folders of images, or lists of them."""
    return path.is_dir() and any(entry.is_dir() or entry.suffix == ".csv" for entry in path.iterdir())


def read_imagenet(path: Path, size: int) -> ImageSet:
    """A user's part of ImageNet: folders train, val and test, or lists of files beside the images."""
    return read_folder(path, size, "rgb") if (path / "train").is_dir() else _read_listed(path, size)


def imagenet_inputs(path: Path) -> list[Path]:
    """The folder, and the lists where there are any."""
    return [path] if (path / "train").is_dir() else [path, *(_find_list(path, part) for part in SPLITS)]


def imagenet_classes(path: Path, names: tuple[str, ...], split: str) -> Classes:
    """The classes of train, validation and test: by the folders, or as listed."""
    if (path / "train").is_dir():
        return named_classes(path, names)
    return {part: tuple(dict.fromkeys(label for _, label in _read_list(path, part))) for part in SPLITS}


def _read_listed(path: Path, size: int) -> ImageSet:
    """The images that train.csv, val.csv and test.csv list by `filename,label`.

    These are the files of Ravi & Larochelle for miniImageNet. They are looked for in the folder itself, above it, and
    under `splits/miniimagenet` of the folders for data; the images in the folder and in a folder `images` of it.
    """
    images: dict[str, list[np.ndarray]] = {}
    rows = [row for part in SPLITS for row in _read_list(path, part)]
    for number, (name, label) in enumerate(rows):
        file = next((p for p in (path / name, path / "images" / name, path / label / name) if p.exists()), None)
        if file is None:
            raise FewstepError(f"{path} has no {name}, which the lists name. The images are not complete.")
        images.setdefault(label, []).append(decode_file(file, size, "RGB"))
        _places.progress(f"reading {path.name}", number + 1, len(rows), "images")
    return make_set({label: np.stack(some) for label, some in images.items()})


def _find_list(path: Path, part: str) -> Path:
    """Where the list of a split is."""
    name = f"{'val' if part == 'validation' else part}.csv"
    for place in (path, path.parent, *(folder / "splits" / path.name for folder in _places.folders())):
        if (place / name).is_file():
            return place / name
    raise FewstepError(
        f"There is no {name} in {path} or above it. Put the lists train.csv, val.csv and test.csv there (columns "
        "filename,label; github.com/twitter-research/meta-learning-lstm has them under data/miniImagenet)."
    )


def _read_list(path: Path, part: str) -> list[tuple[str, str]]:
    file = _find_list(path, part)
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [(row.get("filename"), row.get("label")) for row in csv.DictReader(lines)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FewstepError(f"Cannot read {file}: {error}.") from None
    if not rows or any(not a or not b for a, b in rows):
        raise FewstepError(f"{file} is not a list of images: it needs columns filename and label.")
    return [(str(a), str(b)) for a, b in rows]
