"""From features to classes: the directions that depend most on the labels, and the nearest class mean in them."""

from typing import NamedTuple

import numpy as np


class Readout(NamedTuple):
    """Directions of the features, and the mean of each class along them."""

    weight: np.ndarray
    means: np.ndarray


def fit_readout(features: np.ndarray, labels: np.ndarray) -> Readout:
    """The eigenvectors of F^T Gamma F that have a value: one fewer than there are classes.

    The authors take one more; it belongs to the eigenvalue 0 and could be any direction.
    """
    sums = features.T @ (labels - labels.mean(0))
    weight = np.linalg.svd(sums, full_matrices=False)[0][:, : labels.shape[1] - 1]
    return Readout(weight, labels.T @ (features @ weight) / labels.sum(0)[:, None])


def score_classes(readout: Readout, features: np.ndarray) -> np.ndarray:
    """The score of each class: minus the squared distance to its mean."""
    projection = features @ readout.weight
    squares = np.sum(projection**2, 1)[:, None] + np.sum(readout.means**2, 1)[None]
    return 2 * projection @ readout.means.T - squares
