"""How rows are held: padded, so that sets of nearly one size share a compiled program, and cut into blocks."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

STEP = 64
BANDWIDTH_ROWS = 200  # the bandwidth is chosen on so many, as in the authors' code
FEW = 2  # rows of every class that are among them, if the class has as many
_COPIES = 4  # arrays of the size of a block that are there at a time


class Cut(NamedTuple):
    """Rows in all, with padding, rows of a block, and rows of a block of those that stand for all."""

    rows: int
    size: int
    look: int = 0


class Held(NamedTuple):
    """Rows and one-hot labels with padding, how they are cut, and which rows stand for all: `few` for the bandwidth,
    `some` for the kernel. Where there are too few, padding is among them, so that shapes stay."""

    x: np.ndarray
    labels: np.ndarray
    parts: Cut
    looks: tuple[np.ndarray, np.ndarray]


def hold(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, across: int, exact_rows: int, memory: float
) -> Held:
    """Makes rows ready, where a block is `across` numbers wide and some `exact_rows` may stand for all."""
    parts = cut(len(x), across, memory, x.dtype.itemsize)
    drawn = _drawn(labels, rng, min(BANDWIDTH_ROWS, exact_rows))
    order = np.concatenate([drawn, np.arange(len(x), parts.rows)])
    few, some = order[:BANDWIDTH_ROWS], order[:exact_rows]
    parts = parts._replace(look=block(len(some), memory, x.dtype.itemsize))
    return Held(padded(x, parts.rows), padded(labels, parts.rows), parts, (few, some))


def _drawn(labels: np.ndarray, rng: np.random.Generator, most: int) -> np.ndarray:
    """All rows in an order that is drawn. Where a rare class is missing among the first `most`, a few rows of every
    class come first: a bandwidth or a silhouette of one class alone means nothing."""
    order = rng.permutation(len(labels))
    codes = labels[order].argmax(1)
    before = np.cumsum(labels[order], 0)[np.arange(len(order)), codes] - 1  # rows of its own class before each
    early = before < FEW
    if not early[most:].any():
        return order
    return order[np.argsort(np.where(early, before, FEW), kind="stable")]


def through(
    forward: Callable[[Any, Any, int], jax.Array], layers: list[Any], across: list[int], x: np.ndarray, memory: float
) -> np.ndarray:
    """Rows after all these layers, by blocks: `forward(layer, rows, size)` with `across` numbers a row."""
    for layer, wide in zip(layers, across, strict=True):
        parts = cut(len(x), wide, memory, x.dtype.itemsize)
        x = np.asarray(forward(layer, padded(x, parts.rows), parts.size))[: len(x)]
    return x


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
