"""The sets of the table: the poster's where a folder has them, else what can be made or comes with scikit-learn."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.layerwise import sets

_WORDS = {  # of the UCI car evaluation, from the worst to the best
    "buying": ("vhigh", "high", "med", "low"), "maint": ("vhigh", "high", "med", "low"),
    "doors": ("2", "3", "4", "5more"), "persons": ("2", "4", "more"), "lug_boot": ("small", "med", "big"),
    "safety": ("low", "med", "high"),
}  # fmt: skip


class Table(NamedTuple):
    """Rows and labels, and what they are."""

    x: np.ndarray
    y: np.ndarray
    what: str


class Entry(NamedTuple):
    """A set of the table: how it is read, its name in the poster, and whether it is of the world."""

    read: Callable[[], Table]
    poster: str | None
    real: bool


def entries() -> dict[str, Entry]:
    """The sets that are there, by name."""
    folder = next((path / "layerwise" for path in data.folders() if (path / "layerwise").is_dir()), None)
    return _made() if folder is None else _of_the_poster(folder)


def _of_the_poster(folder: Path) -> dict[str, Entry]:
    plain = lambda name, what: lambda: _plain(folder / name, name.split("_")[0], what)
    return {
        "random": Entry(plain("random", "normal rows, labels of no meaning"), "random", False),
        "adversarial": Entry(plain("adversarial", "pairs 0.01 apart with different labels"), "adversarial", False),
        "spiral": Entry(plain("spiral", "three arms"), "spiral", False),
        "wine": Entry(plain("wine", "UCI wine"), "wine", True),
        "cancer": Entry(plain("cancer", "UCI Wisconsin breast cancer, the original of 9 features"), "cancer", True),
        "car-leaked": Entry(plain("car_leaked", "the poster's car, whose label is its sixth column"), "car", False),
        "car": Entry(lambda: _car(folder / "uci_car.csv"), None, True),
        "face": Entry(lambda: _face(folder / "face.npz"), "face", True),
        "divorce": Entry(plain("divorce", "UCI divorce predictors"), "divorce", True),
    }


def _made() -> dict[str, Entry]:
    from sklearn.datasets import load_breast_cancer, load_wine

    return {
        "random": Entry(lambda: Table(*sets.random_labels(), "made here to the poster's measure"), "random", False),
        "adversarial": Entry(lambda: Table(*sets.adversarial(), "made here, likewise"), "adversarial", False),
        "spiral": Entry(lambda: Table(*sets.spiral(), "three arms, made here"), None, False),
        "wine": Entry(lambda: _shipped(load_wine, "UCI wine"), "wine", True),
        "cancer-30": Entry(lambda: _shipped(load_breast_cancer, "breast cancer, of 30 columns"), None, True),
    }  # fmt: skip


def _shipped(load: Callable[..., Any], what: str) -> Table:
    x, y = load(return_X_y=True)
    return Table(x, y, what)


def _plain(folder: Path, name: str, what: str) -> Table:
    try:
        x = np.loadtxt(folder / f"{name}.csv", delimiter=",")
        y = np.loadtxt(folder / f"{name}_label.csv", delimiter=",").astype(int)
    except (OSError, ValueError) as error:
        raise FewstepError(f"{folder} cannot be read: {error}. Leave the set out with --only.") from None
    return Table(x, y, what)


def _car(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    x = np.asarray([[words.index(row[name]) for name, words in _WORDS.items()] for row in rows], float)
    return Table(x, np.asarray([row["LABEL"] for row in rows]), "UCI car evaluation, columns as grades")


def _face(path: Path) -> Table:
    with np.load(path, allow_pickle=False) as file:
        return Table(file["X"].astype(float), file["y"], "CMU faces of 30 x 32 dots, 20 persons")
