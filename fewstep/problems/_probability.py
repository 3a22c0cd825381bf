"""Probabilities of classes: brought to a temperature that suits held-out tasks, and scored beside the accuracy."""

from typing import NamedTuple

import numpy as np

from fewstep._kernels import temperature
from fewstep.problems._held_out import Answers

_ENOUGH = 20_000  # rows to choose one number by
_BINS = 10
_SMALLEST = float(np.finfo(float).eps)  # as in scikit-learn: a certain mistake costs 36, not infinity


def tempered(probabilities: np.ndarray, at: float) -> np.ndarray:
    """Probabilities p as p^(1 / T), brought to the sum 1: sharper below a temperature of 1, flatter above."""
    logs = np.log(np.maximum(probabilities, _SMALLEST)) / at
    raised = np.exp(logs - logs.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def best_temperature(answers: Answers) -> float:
    """The temperature under which the true classes of what was answered are likeliest."""
    counts = answers.weight > 0
    scores = np.log(np.maximum(answers.mean[:, :, 0][counts], _SMALLEST))
    codes = answers.y[counts].astype(int)
    some = np.random.default_rng(0).permutation(len(codes))[:_ENOUGH]
    return temperature(scores[some], codes[some])


def class_scores(probabilities: np.ndarray, answers: Answers) -> dict[str, float]:
    """How good probabilities of shape (tasks, draws, rows, classes) are, all tasks counting alike: the logarithmic
    loss; the area under the ROC curve, of two classes; and the expected calibration error in ten bins of confidence."""
    weight = answers.weight / answers.weight.sum(-1, keepdims=True) / np.prod(answers.weight.shape[:2])
    counts = weight > 0
    p, codes, weight = probabilities[counts], answers.y[counts].astype(int), weight[counts]
    if not np.isfinite(p).all():  # a task diverged
        return {"log_loss": float("nan"), "ece": float("nan")}
    own = p[np.arange(len(codes)), codes]
    scores = {"log_loss": float(-(weight * np.log(np.maximum(own, _SMALLEST))).sum())}
    if p.shape[1] == 2 and len(set(codes.tolist())) == 2:
        scores["auc"] = area(p[:, 1], codes, weight)
    return scores | {"ece": calibration_error(p, codes, weight)}


def area(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """The area under the ROC curve: how likely a row of class 1 has a higher score than one of class 0, ties half."""
    _, group = np.unique(scores, return_inverse=True)
    ones, zeros = (np.bincount(group, weight * (codes == code)) for code in (1, 0))
    below = np.cumsum(zeros) - zeros
    return float((ones * (below + zeros / 2)).sum() / (ones.sum() * zeros.sum()))


class Bin(NamedTuple):
    """The rows of about one confidence: how sure the model is of its class, how often it is right, their share."""

    confidence: float
    accuracy: float
    share: float


def reliability(probabilities: np.ndarray, answers: Answers) -> list[Bin]:
    """The confidence in the likeliest class beside its accuracy, in ten bins of equal width, without those that are
    empty; all tasks count alike."""
    weight = answers.weight / answers.weight.sum(-1, keepdims=True) / np.prod(answers.weight.shape[:2])
    counts = weight > 0
    p, codes, weight = probabilities[counts], answers.y[counts].astype(int), weight[counts]
    sure, right = p.max(1), p.argmax(1) == codes
    number = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    total = lambda values: np.bincount(number, weight * values, _BINS)
    shares = total(np.ones(len(sure)))
    return [
        Bin(float(total(sure)[n] / shares[n]), float(total(right)[n] / shares[n]), float(shares[n]))
        for n in np.flatnonzero(shares)
    ]


def calibration_error(p: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """The mean distance between confidence and accuracy, over bins of equal width."""
    sure, right = p.max(1), p.argmax(1) == codes
    number = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    return float(np.abs(np.bincount(number, weight * (right - sure), _BINS)).sum())


def task_errors(answers: Answers, *, scale: float | np.ndarray = 1.0, classes: bool = False) -> np.ndarray:
    """The error of each task after the first number of steps: the mean square over draws, rows and outputs, or the
    logarithmic loss of classes; not finite for a task that diverged."""
    weight, mean = answers.weight, answers.mean[:, :, 0]
    with np.errstate(all="ignore"):
        if classes:
            own = np.take_along_axis(mean, answers.y.astype(int)[..., None], -1)[..., 0]
            errors = np.where(np.isfinite(own), -np.log(np.maximum(own, _SMALLEST)), np.nan)
        else:
            errors = np.square(scale * (mean - answers.y)).mean(-1)
        return ((errors * weight).sum(-1) / weight.sum(-1)).mean(-1)
