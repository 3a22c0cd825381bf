"""The data sets: where a folder has them, as tables with the roles of their columns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.tables import Asked, Frame, read

_FOLDER = "curves"
_VOICE = ("subject#", "motor_UPDRS", "total_UPDRS")


class Entry(NamedTuple):
    """A data set: how it is read, the roles of its columns, what it is, and its unit."""

    read: Callable[[], tuple[Frame, Asked]]
    what: str
    unit: str


def entries() -> dict[str, Entry]:
    """The sets that are there, by name. Raises `FewstepError` if none is."""
    folder = next((path / _FOLDER for path in data.folders() if (path / _FOLDER).is_dir()), None)
    if folder is None:
        raise FewstepError(
            "There is no folder 'curves' with growth.csv, canadian_weather.csv, school.mat and parkinsons_updrs.data. "
            "Say where it lies: --data-dir FOLDER, or the environment variable FEWSTEP_DATA."
        )
    known = {
        "growth": ("growth.csv", _growth, "heights of 93 children at 31 ages (Berkeley)", "cm"),
        "weather": ("canadian_weather.csv", _weather, "temperatures of 35 Canadian stations on 365 days", "°C"),
        "school": ("school.mat", _school, "exam scores of the pupils of 139 London schools", "points"),
        "parkinsons": (
            "parkinsons_updrs.data",
            _parkinsons,
            "symptom scores of 42 patients from their voice",
            "points",
        ),
    }
    return {
        name: Entry(partial(how, folder / file), what, unit)
        for name, (file, how, what, unit) in known.items() if (folder / file).is_file()
    }  # fmt: skip


def _growth(path: Path) -> tuple[Frame, Asked]:
    return read(path), Asked("child", ("age", "sex"), "height_cm")


def _weather(path: Path) -> tuple[Frame, Asked]:
    return read(path), Asked("station", ("day",), "temp_c")


def _parkinsons(path: Path) -> tuple[Frame, Asked]:
    frame = read(path)
    return frame, Asked("subject#", tuple(name for name in frame.columns if name not in _VOICE), "total_UPDRS")


def _school(path: Path) -> tuple[Frame, Asked]:
    """Of each school the pupils' features, which are zeros and ones, and their scores."""
    from scipy.io import loadmat

    held = loadmat(str(path))
    pupils, scores = held["X"][0], held["Y"][0]
    width = pupils[0].shape[1]
    x = np.concatenate(list(pupils)).astype(float)
    columns = {f"x{n}": x[:, n] for n in range(width)}
    names = np.repeat([f"school {n:03d}" for n in range(len(pupils))], [len(some) for some in pupils])
    whole = {"school": names.astype(object), **columns, "score": np.concatenate(list(scores))[:, 0].astype(float)}
    return Frame(str(path), whole), Asked("school", tuple(columns), "score")
