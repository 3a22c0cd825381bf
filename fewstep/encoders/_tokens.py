"""Texts as token ids and their mask."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._encoder import Item
from fewstep.encoders._items import check
from fewstep.encoders._sources import need

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SHORTEST = 16
_SPARE = 128  # rows that a table of words may have on top, to make its size a round number


def to_tokens(name: str, path: Path, vocabulary: int, max_tokens: int) -> Callable[[Sequence[Item]], np.ndarray]:
    """A function from texts to ids and mask, (texts, 2, tokens); lengths are filled up to few different ones."""
    tokenizer = _load(name, path, vocabulary)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)

    def prepare(items: Sequence[Item]) -> np.ndarray:
        check(name, "text", items)
        ids = [encoding.ids for encoding in tokenizer.encode_batch([str(item) for item in items])]
        length = _filled_length(max(map(len, ids), default=1), max_tokens)
        tokens = np.zeros((len(items), 2, length), np.int32)
        for row, own in zip(tokens, ids, strict=True):
            row[:, : len(own)] = own, [1] * len(own)
        return tokens

    return prepare


def _filled_length(longest: int, limit: int) -> int:
    length = _SHORTEST
    while length < longest:
        length *= 2
    return min(length, limit)


def _load(name: str, path: Path, vocabulary: int) -> "Tokenizer":
    Tokenizer = need(name, "tokenizers").Tokenizer
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise FewstepError(
            f"Cannot read the tokenizer {path}: {error}. Put the model's tokenizer.json there."
        ) from None
    words = tokenizer.get_vocab_size()
    if not 0 <= vocabulary - words < _SPARE:
        raise FewstepError(
            f"The tokenizer {path} knows {words} tokens, and the weights of {name} have {vocabulary}: it is that of "
            "another model. Take tokenizer.json and weights from the same one."
        )
    return tokenizer
