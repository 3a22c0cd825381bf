"""The vote of the nearest rows."""

from typing import NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors


class Neighbors(NamedTuple):
    """Rows that can vote, their classes, and how many vote."""

    rows: np.ndarray
    codes: np.ndarray
    voters: int


def count_votes(neighbors: Neighbors, x: np.ndarray, classes: int) -> np.ndarray:
    """The votes for each class, and less than one more for nearness, which decides between equal votes."""
    index = NearestNeighbors(n_neighbors=neighbors.voters).fit(neighbors.rows)
    distances, places = index.kneighbors(x)
    is_of_class = neighbors.codes[places][:, :, None] == np.arange(classes)
    nearest = np.where(is_of_class, distances[:, :, None], np.inf).min(1)
    return is_of_class.sum(1) + 0.5 / (1 + nearest)
