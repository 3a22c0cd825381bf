"""The data sets: where a folder has them, as tables with the roles of their columns."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.tables import Frame, Roles, read

_FOLDER = "curves"
_VOICE = ("subject#", "motor_UPDRS", "total_UPDRS")


class Entry(NamedTuple):
    """A data set: its file and how that is read, what it is, its unit, and the folder where it lies."""

    file: str
    load: Callable[[Path], tuple[Frame, Roles]]
    what: str
    unit: str
    folder: Path = Path()

    def read(self) -> tuple[Frame, Roles]:
        """The table and the roles of its columns."""
        return self.load(self.folder / self.file)


def entries() -> dict[str, Entry]:
    """The sets that are there, by name. Raises `FewstepError` if none is."""
    folder = next((path / _FOLDER for path in data.folders() if (path / _FOLDER).is_dir()), None)
    if folder is None:
        raise FewstepError(
            f"There is no folder 'curves' with {', '.join(entry.file for entry in SETS.values())}. Say where it lies: "
            "`fewstep.data.look_in(FOLDER)`, or the environment variable FEWSTEP_DATA."
        )
    return {name: entry._replace(folder=folder) for name, entry in SETS.items() if (folder / entry.file).is_file()}


def _growth(path: Path) -> tuple[Frame, Roles]:
    return read(path), Roles("child", ("age", "sex"), "height_cm")


def _weather(path: Path) -> tuple[Frame, Roles]:
    return read(path), Roles("station", ("day",), "temp_c")


def _parkinsons(path: Path) -> tuple[Frame, Roles]:
    frame = read(path)
    return frame, Roles("subject#", tuple(name for name in frame.columns if name not in _VOICE), "total_UPDRS")


def _school(path: Path) -> tuple[Frame, Roles]:
    """Of each school the pupils' features, which are zeros and ones, and their scores."""
    from scipy.io import loadmat

    held = loadmat(str(path))
    pupils, scores = held["X"][0], held["Y"][0]
    width = pupils[0].shape[1]
    x = np.concatenate(list(pupils)).astype(float)
    columns = {f"x{n}": x[:, n] for n in range(width)}
    names = np.repeat([f"school {n:03d}" for n in range(len(pupils))], [len(some) for some in pupils])
    whole = {"school": names.astype(object), **columns, "score": np.concatenate(list(scores))[:, 0].astype(float)}
    return Frame(str(path), whole), Roles("school", tuple(columns), "score")


SETS = {
    "growth": Entry("growth.csv", _growth, "heights of 93 children at 31 ages (Berkeley)", "cm"),
    "weather": Entry("canadian_weather.csv", _weather, "temperatures of 35 Canadian stations on 365 days", "°C"),
    "school": Entry("school.mat", _school, "exam scores of the pupils of 139 London schools", "points"),
    "parkinsons": Entry(
        "parkinsons_updrs.data", _parkinsons, "symptom scores of 42 patients from their voice", "points"
    ),
}
