"""Bytes of an image file to an array of bytes: size, mode and damage are dealt with here."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fewstep._errors import FewstepError

if TYPE_CHECKING:  # imported where it is used: `import fewstep` does not wait for it
    import PIL.Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
_MAX_PIXELS = 50_000_000  # a small file can decompress to a very large image


class UnreadableImage(FewstepError):
    """A file that is not an image, is damaged, or is too large."""


class Bitmap(NamedTuple):
    """An image as uint8 (size, size, channels), and the width, height and mode of its file."""

    pixels: np.ndarray
    form: tuple[int, int, str]


def decode(content: bytes, name: str, size: int, mode: str) -> Bitmap:
    """The image, `size` pixels high and wide; mode is `L` (gray) or `RGB`.

    An image that is not square is cropped to its middle square. Raises `UnreadableImage`, naming the file, for one
    that is damaged or not an image.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content)) as file:
                if file.width * file.height > _MAX_PIXELS:
                    raise UnreadableImage(f"{name} has {file.width} x {file.height} pixels, more than 50 million.")
                return Bitmap(shrink(_flatten(file, mode), size), (file.width, file.height, file.mode))
    except UnidentifiedImageError:
        raise UnreadableImage(
            f"{name} is not an image that can be read. Remove it, or replace it by an intact JPEG or PNG."
        ) from None
    except UnreadableImage:
        raise
    except Image.DecompressionBombError:
        raise UnreadableImage(f"{name} has more than 50 million pixels. Make it smaller.") from None
    except Exception as error:  # a damaged file raises whatever its decoder happens to stumble over
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise UnreadableImage(f"{name} is damaged: {reason}. Remove it, or replace it by an intact one.") from None


def decode_file(path: Path, size: int, mode: str) -> np.ndarray:
    """The pixels of an image file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UnreadableImage(f"Cannot read {path}: {error.strerror or error}.") from None
    return decode(content, str(path), size, mode).pixels


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Images of bytes (images, height, width, ...), gray or in color, as (images, size, size, channels)."""
    from PIL import Image

    return np.stack([shrink(Image.fromarray(image), size) for image in images])


def shrink(image: "PIL.Image.Image", size: int) -> np.ndarray:
    """The middle square of an image in `size` x `size` pixels."""
    from PIL import Image

    edge = min(image.size)
    left, top = (image.width - edge) // 2, (image.height - edge) // 2
    image = image.crop((left, top, left + edge, top + edge)) if image.width != image.height else image
    image = image if edge == size else image.resize((size, size), Image.Resampling.LANCZOS)
    array = np.asarray(image)
    return array if array.ndim == 3 else array[:, :, None]


def _flatten(image: "PIL.Image.Image", mode: str) -> "PIL.Image.Image":
    """The image in that mode; what is transparent becomes white, as it looks on paper."""
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image)
    if image.mode.startswith("I"):  # 16 bits per pixel; a plain conversion would clip instead of scaling
        image = Image.fromarray((np.asarray(image) / 257).round().clip(0, 255).astype(np.uint8))
    return image.convert(mode)
