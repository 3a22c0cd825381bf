"""Rows padded, so that sets of nearly one size share a compiled program, and cut into blocks."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import numpy as np

STEP = 64
BANDWIDTH_ROWS = 200  # the bandwidth is chosen on so many, as in the authors' code
FEW = 2  # rows of every class that are among them, if the class has as many
Layer = TypeVar("Layer")
_COPIES = 4  # arrays of the size of a block that are there at a time


class Blocks(NamedTuple):
    """Rows in all, with padding, rows of a block, and rows of a block of those that stand for all."""

    rows: int
    size: int
    sample_size: int = 0


class PaddedRows(NamedTuple):
    """Rows and one-hot labels with padding, how they are cut, and which rows stand for all: `few` for the bandwidth,
    `many` for the kernel. Where there are too few, padding is among them, so that shapes stay."""

    x: np.ndarray
    labels: np.ndarray
    blocks: Blocks
    samples: tuple[np.ndarray, np.ndarray]


def pad_rows(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, width: int, exact_rows: int, memory: float
) -> PaddedRows:
    """Pads the rows, for blocks `width` numbers wide, and draws `exact_rows` that may stand for all."""
    blocks = cut(len(x), width, memory, x.dtype.itemsize)
    order = _draw_order(labels, rng, min(BANDWIDTH_ROWS, exact_rows))
    order = np.concatenate([order, np.arange(len(x), blocks.rows)])
    few, many = order[:BANDWIDTH_ROWS], order[:exact_rows]
    blocks = blocks._replace(sample_size=fit_block(len(many), memory, x.dtype.itemsize))
    return PaddedRows(pad(x, blocks.rows), pad(labels, blocks.rows), blocks, (few, many))


def _draw_order(labels: np.ndarray, rng: np.random.Generator, max_rows: int) -> np.ndarray:
    """All rows in random order. Where a rare class is missing among the first `max_rows`, a few rows of every
    class come first: a bandwidth or a silhouette of one class alone means nothing."""
    order = rng.permutation(len(labels))
    codes = labels[order].argmax(1)
    before = np.cumsum(labels[order], 0)[np.arange(len(order)), codes] - 1  # rows of its own class before each
    early = before < FEW
    if not early[max_rows:].any():
        return order
    return order[np.argsort(np.where(early, before, FEW), kind="stable")]


def apply_layers(
    forward: Callable[[Layer, np.ndarray, int], jax.Array],
    layers: list[Layer],
    widths: list[int],
    x: np.ndarray,
    memory: float,
) -> np.ndarray:
    """Rows after all these layers, by blocks: `forward(layer, rows, size)` with `widths` numbers per row."""
    for layer, columns in zip(layers, widths, strict=True):
        blocks = cut(len(x), columns, memory, x.dtype.itemsize)
        x = np.asarray(forward(layer, pad(x, blocks.rows), blocks.size))[: len(x)]
    return x


def cut(rows: int, width: int, megabytes: float, itemsize: int) -> Blocks:
    """Blocks of so many rows, each `width` numbers wide, that stay within the memory."""
    max_rows = max(1, int(megabytes * 1e6 / (_COPIES * itemsize * width)))
    if rows <= max_rows:
        size = -(-rows // STEP) * STEP
        return Blocks(size, size)
    blocks = -(-rows // max_rows)
    size = -(-rows // blocks)
    return Blocks(size * blocks, size)


def fit_block(count: int, megabytes: float, itemsize: int) -> int:
    """The largest part of so many rows whose kernel with all of them stays within the memory."""
    max_rows = max(1, int(megabytes * 1e6 / (_COPIES * itemsize * count)))
    return next(size for size in range(min(max_rows, count), 0, -1) if count % size == 0)


def pad(array: np.ndarray, rows: int) -> np.ndarray:
    """The array with rows of zeros below."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
