"""How rows are held: padded, so that sets of nearly one size share a compiled program, and cut into blocks."""

from typing import NamedTuple

import numpy as np

STEP = 64
_COPIES = 4  # arrays of the size of a block that are there at a time


class Cut(NamedTuple):
    """Rows in all, with padding, rows of a block, and rows of a block of those that stand for all."""

    rows: int
    size: int
    look: int = 0


def cut(rows: int, across: int, megabytes: float, itemsize: int) -> Cut:
    """The cut of so many rows, where a block is `across` numbers wide and all that is held stays within the memory."""
    most = max(1, int(megabytes * 1e6 / (_COPIES * itemsize * across)))
    if rows <= most:
        padded = -(-rows // STEP) * STEP
        return Cut(padded, padded)
    blocks = -(-rows // most)
    size = -(-rows // blocks)
    return Cut(size * blocks, size)


def block(count: int, megabytes: float, itemsize: int) -> int:
    """The largest part of so many rows whose kernel with all of them stays within the memory."""
    most = max(1, int(megabytes * 1e6 / (_COPIES * itemsize * count)))
    return next(size for size in range(min(most, count), 0, -1) if count % size == 0)


def padded(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with rows of zeros below."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
