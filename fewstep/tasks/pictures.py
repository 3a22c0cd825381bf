"""Support and query sets of images from files: folders or zips, for `fewstep adapt`."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.data import SUFFIXES, decode_file, describe_skipped, is_image, open_tree, read_tree, say, walk


class Pictures(NamedTuple):
    """Images as numbers from 0 to 1, with the name of the class or file of each."""

    x: np.ndarray
    names: list[str]


def read_support_images(path: Path, image: tuple[int, ...], invert: bool) -> Pictures:
    """The images of a folder or zip with one folder per class; each is named by its class."""
    with open_tree(path) as tree:
        classes = read_tree(tree, image[0], _mode(image), f"reading {path.name}")
    if len(classes) < 2:
        raise FewstepError(f"{path} has one class. A support set needs at least two, each in a folder of its own.")
    names = [label for label, some in classes.items() for _ in some]
    return Pictures(_numbers(np.concatenate(list(classes.values())), invert), names)


def read_query_images(path: Path, image: tuple[int, ...], invert: bool) -> Pictures:
    """An image, or all images in a folder, each named by its file."""
    if not path.exists():
        raise FewstepError(f"There is no {path}. Give an image, or a folder of images.")
    files = [path] if path.is_file() else _images_in(path)
    if not files:
        raise FewstepError(f"{path} holds no image ({', '.join(SUFFIXES)}). Give an image, or a folder of images.")
    pixels = np.stack([decode_file(file, image[0], _mode(image)) for file in files])
    return Pictures(_numbers(pixels, invert), [str(file) for file in files])


def _images_in(folder: Path) -> list[Path]:
    contents = walk(folder)
    for note in describe_skipped(folder, contents):
        say(note)
    return [folder / name for name in contents.files if is_image(name)]


def _mode(image: tuple[int, ...]) -> str:
    return "L" if image[2] == 1 else "RGB"


def _numbers(pixels: np.ndarray, invert: bool) -> np.ndarray:
    x = pixels.astype(np.float32) / 255
    return 1 - x if invert else x
