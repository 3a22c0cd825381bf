"""An encoder as a value: from a user's items to rows of features."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import jax
import numpy as np
from jaxtyping import PyTree

from fewstep._network import Network

Item: TypeAlias = str | np.ndarray  # a text; an image of bytes (height, width, 1 or 3 channels); a row of numbers
Modality: TypeAlias = Literal["image", "text", "row"]
Prepare: TypeAlias = Callable[[Sequence[Item]], np.ndarray]
Encode: TypeAlias = Callable[[np.ndarray], np.ndarray]
Tail: TypeAlias = Callable[[int | None], Network]
# Rows that a program is compiled for. On a CPU more rows at once are slower: their maps do not fit its cache.
_SIZES, _SIZES_ON_CPU = (1, 8, 64), (1, 8)


class Encoder(NamedTuple):
    """A pretrained network that turns items into rows of features.

    - `name` is as the user wrote it, `modality` what it takes, and `shape` that of one row: (1280,) for features, or a
      map such as (4, 4, 320) for what goes into the last blocks;
    - `digest` identifies weights and settings: equal digests give equal rows;
    - `prepare(items)` makes one array of some items: pixels at the encoder's size, or token ids and their mask;
    - `encode(batch)` makes float32 rows of them, however many there are;
    - `tail(outputs)` is the rest as a `Network` from rows to outputs, whose `init` gives the pretrained weights and a
      small new linear layer; `tail(None)` gives features. Without a depth the rest is that linear layer alone.
    """

    name: str
    modality: Modality
    digest: str
    shape: tuple[int, ...]
    prepare: Prepare
    encode: Encode
    tail: Tail


def compiled(function: Callable[..., jax.Array], params: PyTree, shape: tuple[int, ...]) -> Encode:
    """The function `(params, batch)` for batches of any size, cut and filled up to a few sizes, each compiled once.

    **Arguments:** `shape` is that of one row that it gives.
    """
    program = jax.jit(function)
    placed: list[PyTree] = []  # the weights move to the device with the first batch

    def encode(batch: np.ndarray) -> np.ndarray:
        if not placed:
            placed.append(jax.device_put(params))
        sizes = _SIZES_ON_CPU if jax.default_backend() == "cpu" else _SIZES
        starts = range(0, len(batch), sizes[-1])
        parts = [_run(program, placed[0], batch[start : start + sizes[-1]], sizes) for start in starts]
        return np.concatenate([np.zeros((0, *shape), np.float32), *parts])

    return encode


def _run(program: Callable[..., jax.Array], params: PyTree, batch: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    count = len(batch)
    size = next(size for size in sizes if size >= count)
    filled = np.concatenate([batch, np.repeat(batch[:1], size - count, axis=0)])
    return np.asarray(program(params, filled), np.float32)[:count]
