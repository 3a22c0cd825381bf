"""Sets on which layer-wise networks are tried, made here: each returns rows and labels."""

import numpy as np

Rows = tuple[np.ndarray, np.ndarray]


def random_labels(seed: int = 0, rows: int = 60, columns: int = 3) -> Rows:
    """Normal rows whose labels, half and half, have nothing to do with them."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)), rng.permutation(np.arange(rows) % 2)


def adversarial(seed: int = 0, pairs: int = 40, distance: float = 0.01) -> Rows:
    """Points of the unit square, each with a twin of the other label so near that smooth functions cannot tell them.

    A test point's twin is mostly in the training set: who learns that set well is wrong about the twin, so that an
    accuracy below one half is to be expected on test points.
    """
    rng = np.random.default_rng(seed)
    first = rng.uniform(size=(pairs, 2))
    twins = first + distance * rng.standard_normal((pairs, 2))
    return np.concatenate([first, twins]), np.repeat([0, 1], pairs)


def spiral(seed: int = 0, arms: int = 3, points: int = 400, noise: float = 0.02) -> Rows:
    """Arms of a spiral, a class each."""
    rng = np.random.default_rng(seed)
    along = np.tile(np.linspace(0.3, 1.0, points), arms)
    arm = np.repeat(np.arange(arms), points)
    angle = 2 * np.pi * (1.25 * along + arm / arms)
    rows = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    return rows + noise * rng.standard_normal(rows.shape), arm
