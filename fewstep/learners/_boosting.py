"""What the libraries that fit boosted trees have in common here: rows, limits, and trees as arrays over their nodes."""

from typing import NamedTuple

import numpy as np

RATE, PENALTY, PATIENCE = 0.08, 1.0, 15
MANY = 500_000  # rows that are worth several threads: of 55,000 rows and 45 columns a tree takes one 30 ms


class Size(NamedTuple):
    """The largest forest: so many trees per output, of so many leaves and so deep."""

    trees: int = 150
    leaves: int = 16
    depth: int = 6

    @property
    def nodes(self) -> int:
        """The nodes of a tree with all its leaves."""
        return 2 * self.leaves - 1


class Sample(NamedTuple):
    """Rows to fit a forest to: x, y and how much each counts."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    @property
    def smallest_leaf(self) -> int:
        """The fewest rows that a leaf may have."""
        return max(2, min(20, len(self.y) // 50))


class Tree(NamedTuple):
    """A row goes to the first child of a node if its feature is at most the threshold; a leaf is its own child."""

    feature: np.ndarray
    threshold: np.ndarray
    value: np.ndarray
    children: np.ndarray


class Boosted(NamedTuple):
    """Rounds of trees, one for each output, what they start from, and how many rounds are best."""

    start: np.ndarray
    rounds: list[list[Tree]]
    best: int
