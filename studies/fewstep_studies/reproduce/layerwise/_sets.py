"""The sets of the table: the poster's where a folder has them, else what can be made or comes with scikit-learn."""

import csv
import zipfile
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
    """Rows and labels."""

    x: np.ndarray
    y: np.ndarray


class Entry(NamedTuple):
    """A set of the table: how it is read, what it is, its name in the poster, and whether it is real data."""

    read: Callable[[], Table]
    what: str
    poster: str | None = None
    real: bool = False


def entries() -> dict[str, Entry]:
    """The sets that are there, by name."""
    folder = next((path / "layerwise" for path in data.folders() if (path / "layerwise").is_dir()), None)
    return _made() if folder is None else _of_the_poster(folder)


def _of_the_poster(folder: Path) -> dict[str, Entry]:
    plain = lambda name: lambda: _plain(folder / name, name.split("_")[0])
    return {
        "random": Entry(plain("random"), "normal rows, labels of no meaning", "random"),
        "adversarial": Entry(plain("adversarial"), "pairs 0.01 apart with different labels", "adversarial"),
        "spiral": Entry(plain("spiral"), "three arms", "spiral"),
        "wine": Entry(plain("wine"), "UCI wine", "wine", True),
        "cancer": Entry(plain("cancer"), "UCI Wisconsin breast cancer, the original of 9 columns", "cancer", True),
        "car-leaked": Entry(plain("car_leaked"), "the poster's car: its label is its sixth column", "car"),
        "car": Entry(lambda: _car(folder / "uci_car.csv"), "UCI car evaluation, columns as grades", None, True),
        "face": Entry(lambda: _face(folder / "face.npz"), "CMU faces of 30 x 32 dots, 20 persons", "face", True),
        "divorce": Entry(plain("divorce"), "UCI divorce predictors", "divorce", True),
    }


def _made() -> dict[str, Entry]:
    from sklearn.datasets import load_breast_cancer, load_wine

    return {
        "random": Entry(lambda: Table(*sets.random_labels()), "normal rows, labels of no meaning, made here"),
        "adversarial": Entry(lambda: Table(*sets.adversarial()), "pairs with different labels, made here"),
        "spiral": Entry(lambda: Table(*sets.spiral()), "three arms, made here"),
        "wine": Entry(lambda: _shipped(load_wine), "UCI wine", "wine", True),
        "cancer-30": Entry(lambda: _shipped(load_breast_cancer), "breast cancer of 30 columns", None, True),
    }


def _shipped(load: Callable[..., Any]) -> Table:
    x, y = load(return_X_y=True)
    return Table(x, y)


def _plain(folder: Path, name: str) -> Table:
    try:
        x = np.loadtxt(folder / f"{name}.csv", delimiter=",")
        y = np.loadtxt(folder / f"{name}_label.csv", delimiter=",").astype(int)
    except (OSError, ValueError) as error:
        raise _unreadable(folder, error) from None
    return Table(x, y)


def _unreadable(path: Path, error: Exception) -> FewstepError:
    return FewstepError(f"{path} cannot be read: {error}. Name the sets to take with `only`, or repair the folder.")


def _car(path: Path) -> Table:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        x = np.asarray([[words.index(row[name]) for name, words in _WORDS.items()] for row in rows], float)
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from None
    return Table(x, np.asarray([row["LABEL"] for row in rows]))


def _face(path: Path) -> Table:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            x, y = file["X"].astype(float), file["y"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from None
    return Table(x, y)
