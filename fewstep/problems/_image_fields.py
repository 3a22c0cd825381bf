"""Images of a request as a network sees them: base64 PNG, or arrays. Nothing is read from disk."""

import base64
import binascii
import struct
from collections.abc import Sequence

import numpy as np

from fewstep import data
from fewstep._errors import FewstepError
from fewstep.problems._fields import check_fields, number_array
from fewstep.problems._kind import Fields, Given, Part

_EDGE = 1024  # pixels; a small file can decompress into a very large image, so its size is checked first
_MARK = b"\x89PNG\r\n\x1a\n"


def read_image_fields(fields: Fields, part: Part, shape: tuple[int, ...], *, invert: bool) -> Given:
    """The images of a request, in a support with their classes; `invert` if the network sees light ink on dark."""
    x = _pixels(fields, part, shape, invert)
    if part == "query":
        return Given(x, np.zeros(0))
    if "labels" not in fields:
        raise FewstepError('The support has no "labels". Send the class of each image.', code="no_labels")
    labels = [str(label) for label in fields["labels"]]
    classes = tuple(dict.fromkeys(labels))
    if len(labels) != len(x):
        fact = f"The support has {len(x)} images and {len(labels)} labels."
        raise FewstepError(f"{fact} Send one for each.", code="unequal_rows")
    if len(classes) < 2:
        raise FewstepError(f"The support has {len(classes)} class. Send images of at least two.", code="one_class")
    number = {name: n for n, name in enumerate(classes)}
    return Given(x, np.asarray([number[label] for label in labels], np.int32), classes)


def _pixels(fields: Fields, part: Part, shape: tuple[int, ...], invert: bool) -> np.ndarray:
    check_fields(fields, part, "images", "x", *(("labels",) if part == "support" else ()), either=True)
    if ("images" in fields) == ("x" in fields):
        needs = f'The {part} needs either "images" (base64 PNG) or "x" (arrays), and not both.'
        raise FewstepError(needs, code="no_images")
    if "images" in fields:
        if not fields["images"]:
            raise FewstepError(f"The {part} has no image. Send at least one.", code="no_rows")
        return _read_pngs(fields["images"], part, shape, invert)
    x = number_array(fields, part, "x")
    x = x[..., None] if x.ndim == 3 and shape[2] == 1 else x
    if x.shape[1:] != shape:
        fact = f"{part}.x has images of shape {x.shape[1:]}, but the model takes {shape}."
        raise FewstepError(fact, code="wrong_shape")
    if x.min() < 0 or x.max() > 1:
        fact = f"{part}.x has values from {x.min():g} to {x.max():g}. Scale them to 0 ... 1."
        raise FewstepError(fact, code="out_of_range")
    return x


def _read_pngs(texts: Sequence[str], part: Part, shape: tuple[int, ...], invert: bool) -> np.ndarray:
    """Images in base64 as numbers from 0 to 1, cut to a square and resized as `fewstep adapt` does."""
    mode, pixels = "L" if shape[2] == 1 else "RGB", []
    for number, text in enumerate(texts):
        name = f"Image {number + 1} of the {part}"
        try:
            pixels.append(data.decode(_png(text, name), name, shape[0], mode).pixels)
        except data.UnreadableImage as error:
            raise FewstepError(str(error), code="bad_image") from None
    x = np.stack(pixels).astype(np.float32) / 255
    return 1 - x if invert else x


def _png(text: str, name: str) -> bytes:
    encoded = text.partition(",")[2] if text.startswith("data:") else text
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        fix = "Send the PNG's bytes in base64, or a data URL."
        raise FewstepError(f"{name} is not base64. {fix}", code="bad_image") from None
    if not content.startswith(_MARK) or len(content) < 24:
        raise FewstepError(f"{name} is not a PNG. Convert it first.", code="bad_image")
    width, height = struct.unpack(">II", content[16:24])
    if not (0 < width <= _EDGE and 0 < height <= _EDGE):
        fact = f"{name} has {width} x {height} pixels; at most {_EDGE} x {_EDGE} are read."
        raise FewstepError(fact, code="image_too_large")
    return content
