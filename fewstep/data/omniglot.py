"""Omniglot: 1,623 characters of 50 alphabets, each drawn once by 20 people (Lake, Salakhutdinov & Tenenbaum, 2015)."""

import csv
import zipfile
import zlib
from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep.data import _places
from fewstep.data._decode import resize
from fewstep.data._set import Classes, ImageSet, make_set, split_classes, splits
from fewstep.data._tree import open_tree, read_tree

PARTS = ("images_background", "images_evaluation")
_CHARACTERS = 1623
_GURMUKHI = 42  # the characters of this alphabet from here on are test characters, the others training characters


def read_omniglot(folder: Path, size: int) -> ImageSet:
    """The set from a folder with the two zips of its home, with these unpacked, or with two npz files."""
    if (folder / f"{PARTS[0]}.npz").exists():
        classes = _from_npz(folder, size)
    else:
        classes = {}
        for part in PARTS:
            path = folder / part if (folder / part).is_dir() else folder / f"{part}.zip"
            with open_tree(path) as tree:
                classes |= read_tree(tree, size, "L", f"reading {part}")
    if len(classes) != _CHARACTERS:
        raise FewstepError(f"{folder} holds {len(classes)} characters of Omniglot's {_CHARACTERS}. Get it again.")
    return make_set(dict(sorted(classes.items())))


def has_omniglot(folder: Path) -> bool:
    """Whether a folder holds both parts, in one of the forms that can be read."""
    return any(all((folder / f"{part}{ending}").exists() for part in PARTS) for ending in (".zip", ".npz", ""))


def omniglot_inputs(folder: Path) -> list[Path]:
    """The files of a folder that are read."""
    return sorted(file for file in folder.iterdir() if file.name.startswith(("images_", "characters")))


def omniglot_splits(names: tuple[str, ...], split: str) -> Classes:
    """The characters of train, validation and test, by the name of the split.

    `vinyals` is that of matching networks, 1028/172/423, by alphabets. `maml` is 1100/100/423 drawn at random, which
    is how the code of MAML and MT-net splits (theirs depends on the order of a folder, so it cannot be recreated).
    """
    if split == "maml":
        return split_classes(names, 1, (1100, 100))
    if split != "vinyals":
        raise unknown("split of omniglot", split, ("vinyals", "maml"))
    return {
        part: tuple(name for name in names if name.rpartition("/")[0] in alphabets and _belongs(name, part))
        for part, alphabets in splits()["omniglot-vinyals"].items()
    }


def _belongs(name: str, part: str) -> bool:
    """One alphabet is divided between training and test."""
    alphabet, _, character = name.rpartition("/")
    late = alphabet == "Gurmukhi" and int(character.removeprefix("character")) >= _GURMUKHI
    return alphabet != "Gurmukhi" or late == (part == "test")


def _from_npz(folder: Path, size: int) -> dict[str, np.ndarray]:
    """From npz files with `images`, bool (characters, 20, 105, 105), True for paper, and the names beside them."""
    classes: dict[str, np.ndarray] = {}
    try:
        with (folder / "characters.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        for part in PARTS:
            names = [f"{row['alphabet']}/{row['character']}" for row in rows if row["split"] == part]
            with (folder / f"{part}.npz").open("rb") as content, np.load(content, allow_pickle=False) as arrays:
                characters = arrays["images"]
            for number, (name, drawings) in enumerate(zip(names, characters, strict=True)):
                classes[name] = resize(np.uint8(255) * drawings, size)
                _places.progress(f"reading {part}", number + 1, len(names), "images")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FewstepError(f"The npz files of Omniglot in {folder} are damaged: {error}. Get them again.") from None
    return classes
