"""Images of any size as pixels at an encoder's size."""

from collections.abc import Callable, Sequence

import numpy as np

from fewstep.encoders._encoder import Item
from fewstep.encoders._items import check


def to_pixels(name: str, size: tuple[int, int]) -> Callable[[Sequence[Item]], np.ndarray]:
    """A function from images to bytes (images, height, width, 3): the middle of each, resized bicubically, in color."""

    def prepare(items: Sequence[Item]) -> np.ndarray:
        check(name, "image", items)
        pixels = np.zeros((len(items), *size, 3), np.uint8)
        for number, image in enumerate(items):
            pixels[number] = _resized(np.asarray(image), size)
        return pixels

    return prepare


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    from PIL import Image

    if image.shape[:2] == size:
        return image
    picture = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    scale = min(picture.height / size[0], picture.width / size[1])
    high, wide = size[0] * scale, size[1] * scale
    left, top = (picture.width - wide) / 2, (picture.height - high) / 2
    box = (left, top, left + wide, top + high)
    resized = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BICUBIC, box))
    return resized if resized.ndim == 3 else resized[..., None]
