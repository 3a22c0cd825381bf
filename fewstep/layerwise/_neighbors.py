"""The vote of the nearest rows."""

from typing import NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors


class Neighbors(NamedTuple):
    """Rows that vote, their classes, and how many of them are asked."""

    rows: np.ndarray
    codes: np.ndarray
    asked: int


def votes(neighbors: Neighbors, x: np.ndarray, classes: int) -> np.ndarray:
    """The votes for each class, and less than one more for nearness, which decides between equal votes."""
    found = NearestNeighbors(n_neighbors=neighbors.asked).fit(neighbors.rows)
    apart, places = found.kneighbors(x)
    own = neighbors.codes[places][:, :, None] == np.arange(classes)
    nearest = np.where(own, apart[:, :, None], np.inf).min(1)
    return own.sum(1) + 0.5 / (1 + nearest)
