"""A user's own images: a folder or a zip with one folder a class, or a list of files and labels."""

import csv
import hashlib
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._decode import decode_file
from fewstep.data._set import SPLITS, ImageSet, make_set, split_classes
from fewstep.data._tree import open_tree, read_tree
from fewstep.data._walk import listed

_NAMES = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
_SHARES = (0.64, 0.16)


def read_folder(path: Path, size: int, color: str, *, skip_bad: bool = False) -> ImageSet:
    """All images of a folder or zip, brought to one size and mode."""
    mode = {"gray": "L", "rgb": "RGB"}[color]
    with open_tree(path) as tree:
        classes = read_tree(tree, size, mode, f"reading {path.name}", skip_bad=skip_bad)
    _tell_twins(path, classes)
    return make_set(classes)


def _tell_twins(path: Path, classes: dict[str, np.ndarray]) -> None:
    """Says which classes hold the same images, in whatever order and under whatever names of files."""
    alike: dict[bytes, list[str]] = {}
    for label, images in classes.items():
        marks = sorted(hashlib.sha256(image).digest() for image in np.ascontiguousarray(images))
        alike.setdefault(b"".join(marks), []).append(label)
    if twins := [" and ".join(map(repr, labels)) for labels in alike.values() if len(labels) > 1]:
        _places.say(
            f"{path}: classes hold the same images, so that no method can tell them apart: {listed(twins)}. Keep one."
        )


def folder_classes(path: Path, seed: int, ways: int) -> dict[str, tuple[str, ...]]:
    """The classes of train, validation and test.

    If the folder's own folders are called train, val and test, these; else drawn by the seed, 64, 16 and 20 of a
    hundred, but at least as many as a task takes.
    """
    with open_tree(path) as tree:
        names = tuple(tree.classes)
    if {name.split("/")[0] for name in names} & {"train", "test"}:
        made = named_classes(path, names)
    else:
        least = [max(ways, round(share * len(names))) for share in (_SHARES[1], 1 - sum(_SHARES))]
        made = split_classes(names, seed, (max(0, len(names) - sum(least)), least[0]))
    if short := [f"{part} has {len(some)}" for part, some in made.items() if len(some) < ways]:
        raise FewstepError(
            f"{path} has {len(names)} classes, and training, validation and test each need at least the {ways} of a "
            f"task: {' and '.join(short)}. Add classes, or use fewer `ways`."
        )
    return made


def named_classes(path: Path, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The classes by the folder they lie in: train, val or test. Raises `FewstepError` if there are others."""
    tops = {name.split("/")[0] for name in names}
    if not tops <= _NAMES.keys() or {_NAMES[top] for top in tops} != set(SPLITS):
        raise FewstepError(
            f"{path} has the folders {', '.join(sorted(tops))}. Where some are named by their split, there must be "
            "just train, val and test, each with a folder of images a class."
        )
    return {part: tuple(n for n in names if _NAMES[n.split("/")[0]] == part) for part in SPLITS}


def read_listed(path: Path, size: int) -> ImageSet:
    """The images that train.csv, val.csv and test.csv list by `filename,label`.

    These are the files of Ravi & Larochelle for miniImageNet. They are looked for in the folder itself, above it, and
    under `splits/miniimagenet` of the folders for data; the images in the folder and in a folder `images` of it.
    """
    images: dict[str, list[np.ndarray]] = {}
    rows = [row for part in SPLITS for row in _listed(path, part)]
    for number, (name, label) in enumerate(rows):
        file = next((p for p in (path / name, path / "images" / name, path / label / name) if p.exists()), None)
        if file is None:
            raise FewstepError(f"{path} has no {name}, which the lists name. The images are not complete.")
        images.setdefault(label, []).append(decode_file(file, size, "RGB"))
        _places.progress(f"reading {path.name}", number + 1, len(rows), "images")
    return make_set({label: np.stack(some) for label, some in images.items()})


def listed_classes(path: Path) -> dict[str, tuple[str, ...]]:
    """The classes of train, validation and test that the lists name."""
    return {part: tuple(dict.fromkeys(label for _, label in _listed(path, part))) for part in SPLITS}


def find_list(path: Path, part: str) -> Path:
    """Where the list of a split is."""
    name = f"{'val' if part == 'validation' else part}.csv"
    for place in (path, path.parent, *(folder / "splits" / path.name for folder in _places.folders())):
        if (place / name).is_file():
            return place / name
    raise FewstepError(
        f"There is no {name} in {path} or above it. Put the lists train.csv, val.csv and test.csv there (columns "
        "filename,label; github.com/twitter-research/meta-learning-lstm has them under data/miniImagenet)."
    )


def _listed(path: Path, part: str) -> list[tuple[str, str]]:
    file = find_list(path, part)
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            rows = [(row.get("filename"), row.get("label")) for row in csv.DictReader(lines)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FewstepError(f"Cannot read {file}: {error}.") from None
    if not rows or any(not a or not b for a, b in rows):
        raise FewstepError(f"{file} is not a list of images: it needs columns filename and label.")
    return [(str(a), str(b)) for a, b in rows]
