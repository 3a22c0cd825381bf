"""A set of images by class, as it lies on a device: bytes, and where each class begins."""

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError

SPLITS = ("train", "validation", "test")
Classes = dict[str, tuple[str, ...]]  # the names of the classes of each split


class RowSet(NamedTuple):
    """Rows of several classes, one class after the other, such as what an encoder makes of images or texts.

    `rows` has the shape (rows, ...); class n, of the name `names[n]`, is `rows[starts[n] : starts[n] + counts[n]]`.
    """

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.rows.shape[1:]


class ImageSet(NamedTuple):
    """Images of several classes, one class after the other.

    `images` has the type uint8 and the shape (images, height, width, channels); class n, of the name `names[n]`, is
    `images[starts[n] : starts[n] + counts[n]]`.
    """

    images: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image."""
        _, high, wide, channels = self.images.shape
        return high, wide, channels

    def of(self, name: str) -> np.ndarray:
        """The images of one class."""
        number = self.names.index(name)
        return self.images[self.starts[number] : self.starts[number] + self.counts[number]]

    def only(self, names: tuple[str, ...]) -> "ImageSet":
        """The set with just these classes, in this order. Raises `FewstepError` for one that is not there."""
        rows = zip(self.names, self.starts, self.counts, strict=True)
        where = {name: slice(start, start + count) for name, start, count in rows}
        if missing := [name for name in names if name not in where]:
            raise FewstepError(
                f"{len(missing)} of {len(names)} classes are not among the images, such as {missing[0]!r}. "
                "The files are not complete, or not the ones this split is made of."
            )
        return make_set({name: self.images[where[name]] for name in names})


def make_set(classes: dict[str, np.ndarray]) -> ImageSet:
    """A set from arrays of images, one array per class."""
    return ImageSet(*_behind_each_other(classes))


def make_rows(classes: dict[str, np.ndarray]) -> RowSet:
    """A set from arrays of rows, one array per class."""
    return RowSet(*_behind_each_other(classes))


def _behind_each_other(classes: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[str, ...]]:
    counts = np.asarray([len(rows) for rows in classes.values()], np.int32)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
    return np.concatenate(list(classes.values())), starts, counts, tuple(classes)


def split_classes(names: tuple[str, ...], seed: int, sizes: tuple[int, int]) -> Classes:
    """Names drawn into train, validation and test; `sizes` are those of the first two, the rest is for the test."""
    order = [sorted(names)[number] for number in np.random.default_rng(seed).permutation(len(names))]
    cuts = (0, sizes[0], sum(sizes), len(names))
    return {split: tuple(sorted(order[cuts[n] : cuts[n + 1]])) for n, split in enumerate(SPLITS)}


@cache
def splits() -> dict[str, dict[str, list[str]]]:
    """The fixed splits by the names of their classes; read, not to be changed."""
    return json.loads((files("fewstep.data") / "splits.json").read_text())
