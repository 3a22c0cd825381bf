"""How rows are held: padded, so that sets of nearly one size share a compiled program, and cut into blocks."""

from typing import NamedTuple

import numpy as np

_STEP = 64
_COPIES = 4  # arrays of the size of a block that are there at a time


class Cut(NamedTuple):
    """Rows in all, with padding, and rows of a block."""

    rows: int
    size: int


def cut(rows: int, across: int, megabytes: float, itemsize: int) -> Cut:
    """The cut of so many rows, where a block is `across` numbers wide and all that is held stays within the memory."""
    most = max(1, int(megabytes * 1e6 / (_COPIES * itemsize * across)))
    if rows <= most:
        padded = -(-rows // _STEP) * _STEP
        return Cut(padded, padded)
    blocks = -(-rows // most)
    size = -(-rows // blocks)
    return Cut(size * blocks, size)


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with rows of zeros below."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
