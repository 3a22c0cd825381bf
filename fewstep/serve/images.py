"""Images of a request as a network sees them: base64 PNG, or arrays. Nothing is read from disk."""

import base64
import binascii
import io
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image

from fewstep._errors import FewstepError
from fewstep.data import decode
from fewstep.serve.errors import invalid

EDGE = 1024  # pixels; a small file can decompress into a very large image, so its size is checked first
_MARK = b"\x89PNG\r\n\x1a\n"


def read_images(texts: Sequence[str], shape: tuple[int, ...], part: str, *, invert: bool) -> np.ndarray:
    """Images in base64 as numbers from 0 to 1, cut to a square and resized as `fewstep adapt` does."""
    mode = "L" if shape[2] == 1 else "RGB"
    names = [f"Image {number + 1} of the {part}" for number in range(len(texts))]
    try:
        pixels = [
            decode(_png(text, name), name, shape[0], mode).pixels for text, name in zip(texts, names, strict=True)
        ]
    except FewstepError as error:
        raise invalid("bad_image", str(error)) from None
    x = np.stack(pixels).astype(np.float32) / 255
    return 1 - x if invert else x


def write_image(x: np.ndarray, *, invert: bool) -> str:
    """An image of numbers from 0 to 1 as PNG in base64."""
    bright = 1 - x if invert else x
    pixels = (np.clip(bright, 0, 1) * 255).round().astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _png(text: str, name: str) -> bytes:
    data = text.partition(",")[2] if text.startswith("data:") else text
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("bad_image", f"{name} is not base64. Send the PNG's bytes in base64, or a data URL.") from None
    if not content.startswith(_MARK) or len(content) < 24:
        raise invalid("bad_image", f"{name} is not a PNG. Convert it first.")
    width, height = struct.unpack(">II", content[16:24])
    if not (0 < width <= EDGE and 0 < height <= EDGE):
        raise invalid("image_too_large", f"{name} has {width} x {height} pixels; at most {EDGE} x {EDGE} are read.")
    return content
