"""One number that makes probabilities of scores: the temperature under which held-out labels are likeliest.

Each label counts for its class as (n + 1) / (n + classes) and for the others as the rest, as in Platt scaling: n rows
that are all right do not make a network certain.
"""

import numpy as np

_LOGS = np.linspace(np.log(1e-4), np.log(1e4), 400)  # relative to the spread of the scores


def temperature(scores: np.ndarray, codes: np.ndarray) -> float:
    """The best of a fine grid of temperatures; 1 where the scores carry no information."""
    spread = float(np.mean(np.abs(scores - scores.mean(1, keepdims=True))))
    if not len(codes) or spread == 0:
        return 1.0
    losses = [_loss(scores / (spread * np.exp(log)), codes) for log in _LOGS]
    return spread * float(np.exp(_LOGS[int(np.argmin(losses))]))


def draw_holdout(codes: np.ndarray, share: int, rng: np.random.RandomState) -> np.ndarray:
    """Which rows to hold out: one in `share` of each class, none of a class with fewer."""
    mask = np.zeros(len(codes), bool)
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        mask[rows[: len(rows) // share]] = True
    return mask


def _loss(logits: np.ndarray, codes: np.ndarray) -> float:
    rows, classes = logits.shape
    shifted = logits - logits.max(1, keepdims=True)
    surprise = np.log(np.exp(shifted).sum(1, keepdims=True)) - shifted
    own = surprise[np.arange(rows), codes]
    return float(np.mean(rows * own + surprise.sum(1)) / (rows + classes))
