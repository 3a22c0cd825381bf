"""What a user gives to an encoder, checked: the message names the item."""

from collections.abc import Sequence

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._encoder import Item, Modality

MAX_CHARACTERS = 100_000
_EXAMPLES = {"image": "efficientnet-lite0", "text": "minilm-l6"}
_NOUNS = {
    "image": "an image of bytes, a uint8 array (height, width, 1 or 3)",
    "text": "a text",
    "row": "a row of numbers",
}


def check(name: str, modality: Modality, items: Sequence[Item]) -> None:
    """Raises `FewstepError` for an item that this encoder cannot take."""
    for number, item in enumerate(items):
        kind = _kind(item)
        if kind != modality:
            hint = f" Use an encoder for it, such as {_EXAMPLES[kind]}." if kind in _EXAMPLES else ""
            raise FewstepError(
                f"The encoder {name} takes {modality}s, each {_NOUNS[modality]}; item {number} is "
                f"{_describe(item)}.{hint}"
            )
        if isinstance(item, str):
            _check_text(item, number)


def _kind(item: object) -> str:
    if isinstance(item, str):
        return "text"
    if not isinstance(item, np.ndarray):
        return "none"
    is_image = item.dtype == np.uint8 and item.ndim == 3 and item.shape[2] in (1, 3) and item.size > 0
    return "image" if is_image else "row" if item.ndim == 1 and item.dtype.kind in "fiu" else "none"


def _describe(item: object) -> str:
    if isinstance(item, str):
        return f"a text of {len(item)} characters"
    if isinstance(item, np.ndarray):
        return f"an array of type {item.dtype} and shape {item.shape}"
    return f"a {type(item).__name__}"


def _check_text(text: str, number: int) -> None:
    if not text.strip():
        raise FewstepError(f"Text {number} is empty. Remove it, or write something.")
    if len(text) > MAX_CHARACTERS:
        raise FewstepError(
            f"Text {number} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are taken, of which an "
            f"encoder reads the first few hundred words anyway. Cut it: text[:{MAX_CHARACTERS}]."
        )
