"""Image sets on this machine: where they are, and how to download and check them."""

from pathlib import Path

from fewstep._errors import FewstepError
from fewstep.data import _places
from fewstep.data._catalog import source
from fewstep.data._download import checksum, download
from fewstep.files import cache


def get(name: str) -> list[Path]:
    """Downloads the files of a set that are not there yet, and checks them."""
    own = source(name)
    if not own.files:
        raise FewstepError(
            f"{own.name} cannot be downloaded freely: its images belong to ImageNet (image-net.org, on request). If "
            f"you have them, put them into a folder {own.name} and name the folder above it: "
            "`fewstep.data.look_in(FOLDER)`; or, for the paper's table: fewstep reproduce miniimagenet --images FOLDER."
        )
    folder = cache() / own.name
    return [download(f"{file.home}/{file.name}", folder / file.name, file.sha256) for file in own.files]


def find(name: str) -> Path | None:
    """The folder, or the one file, that a set lies in on this machine; `None` if it is not here."""
    own = source(name)
    if place := _places.given(own.name):
        return place
    candidates = (folder / path for folder in _places.folders() for path in own.paths)
    return next((path for path in candidates if path.is_file() or own.is_at(path)), None)


def need(name: str) -> Path:
    """Where a set lies; it is downloaded when it is not here."""
    own = source(name)
    if (place := find(own.name)) is not None:
        return place
    if own.files:
        size = sum(file.megabytes for file in own.files)
        _places.say(
            f"{own.name} is not in {' or '.join(map(str, _places.folders()))}: downloading it ({size} MB). If you "
            f"have it, name the folder it lies in, `fewstep.data.look_in(FOLDER)`: {own.forms}."
        )
    get(own.name)
    place = find(own.name)
    assert place is not None, own
    return place


def check(name: str) -> list[tuple[str, str]]:
    """Each downloaded file of a set, and `whole` or what is wrong with it."""
    place = find(name)
    if place is None:
        return [(source(name).name, "not here")]
    states = []
    for file in source(name).files:
        path = place / file.name if place.is_dir() else place
        if path.name == file.name and path.exists():
            sha256 = checksum(path)
            damage = f"damaged: SHA-256 {sha256} instead of {file.sha256}"
            states.append((str(path), "whole" if sha256 == file.sha256 else damage))
    return states
