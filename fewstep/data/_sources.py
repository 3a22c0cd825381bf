"""The sets we know: where their home is, what their files are, and where they are on this machine."""

from pathlib import Path
from typing import NamedTuple

from fewstep._errors import FewstepError, unknown
from fewstep.data import _places
from fewstep.data._download import checksum, download
from fewstep.files import cache

_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_BACKGROUND = "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640"
_EVALUATION = "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee"
_CIFAR100 = "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
_FORMS = {
    "omniglot": ("images_background.zip and images_evaluation.zip, these two unpacked, or the two as npz files with a "
                 "characters.csv"),
    "cifar100": "cifar-100-binary.tar.gz, or cifar100.zip or a folder cifar100 with one folder of images a class",
}  # fmt: skip


class Archive(NamedTuple):
    """A file at a set's home."""

    name: str
    home: str
    sha256: str
    megabytes: int


class Source(NamedTuple):
    """A set of images: what it is, its files, and what to know of it; without files it cannot be had freely."""

    name: str
    what: str
    files: tuple[Archive, ...]
    license: str
    used_by: tuple[str, ...]


SOURCES = {
    source.name: source
    for source in (
        Source(
            "omniglot",
            "1,623 characters of 50 alphabets, each drawn by 20 people",
            (
                Archive("images_background.zip", _OMNIGLOT, _BACKGROUND, 10),
                Archive("images_evaluation.zip", _OMNIGLOT, _EVALUATION, 7),
            ),
            "MIT",
            ("omniglot",),
        ),
        Source(
            "cifar100",
            "100 classes of 600 photographs, 32 x 32",
            (Archive("cifar-100-binary.tar.gz", _CIFAR, _CIFAR100, 169),),
            "none stated; cite Krizhevsky 2009",
            ("cifar-fs", "fc100"),
        ),
        Source("miniimagenet", "100 classes of 600 photographs of ImageNet", (), "ImageNet's terms", ("miniimagenet",)),
        Source("tieredimagenet", "608 classes of ImageNet", (), "ImageNet's terms", ("tieredimagenet",)),
    )
}  # fmt: skip


def source(name: str) -> Source:
    """A set by its own name, or by that of tasks made of it. Raises `FewstepError` for an unknown one."""
    for known in SOURCES.values():
        if name in (known.name, *known.used_by):
            return known
    raise unknown("set of images", name, [*SOURCES, "cifar-fs", "fc100"])


def get(name: str) -> list[Path]:
    """Downloads the files of a set that are not there yet, and checks them."""
    wanted = source(name)
    if not wanted.files:
        raise FewstepError(
            f"{wanted.name} cannot be downloaded freely: its images belong to ImageNet (image-net.org, on request). If "
            f"you have them, put them into a folder {wanted.name} and name the folder above it: "
            "`fewstep.data.look_in(FOLDER)`; or, for the paper's table: fewstep reproduce miniimagenet --images FOLDER."
        )
    folder = cache() / wanted.name
    return [download(f"{file.home}/{file.name}", folder / file.name, file.sha256) for file in wanted.files]


def find(name: str) -> Path | None:
    """The folder, or the one file, that a set lies in on this machine; nothing if it is not here."""
    wanted = source(name).name
    if own := _places.given(wanted):
        return own
    for place in _places.folders():
        for path in _candidates(wanted, place):
            if _holds(wanted, path):
                return path
    return None


def need(name: str) -> Path:
    """Where a set lies; it is downloaded when it is not here."""
    wanted = source(name)
    if (found := find(wanted.name)) is not None:
        return found
    if wanted.files:
        size = sum(file.megabytes for file in wanted.files)
        _places.say(
            f"{wanted.name} is not in {' or '.join(map(str, _places.folders()))}: downloading it ({size} MB). If you "
            f"have it, name the folder it lies in, `fewstep.data.look_in(FOLDER)`: {_FORMS[wanted.name]}."
        )
    get(wanted.name)
    found = find(wanted.name)
    assert found is not None, wanted
    return found


def check(name: str) -> list[tuple[str, str]]:
    """Each file of a set that came from its home, and `whole` or what is wrong with it."""
    place = find(name)
    if place is None:
        return [(source(name).name, "not here")]
    told = []
    for file in source(name).files:
        path = place / file.name if place.is_dir() else place
        if path.name == file.name and path.exists():
            found = checksum(path)
            whole = found == file.sha256
            told.append((str(path), "whole" if whole else f"damaged: SHA-256 {found} instead of {file.sha256}"))
    return told


def _candidates(name: str, place: Path) -> list[Path]:
    if name == "omniglot":
        return [place / name, place]
    if name == "cifar100":
        archive = SOURCES[name].files[0].name
        return [place / name, place / name / archive, place / archive, place / "cifar100.zip"]
    return [place / name]


def _holds(name: str, path: Path) -> bool:
    """Whether a set can be read from a path."""
    if path.is_file():
        return True
    if name == "omniglot":
        pairs = [[path / f"{part}{ending}" for part in ("images_background", "images_evaluation")]
                 for ending in (".zip", ".npz", "")]  # fmt: skip
        return any(all(file.exists() for file in pair) for pair in pairs)
    if not path.is_dir():
        return False
    inside = list(path.iterdir())
    return any(entry.is_dir() or entry.suffix == ".csv" for entry in inside)
