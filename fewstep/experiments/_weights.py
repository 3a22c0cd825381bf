r"""The weights under which several methods are best together on held-out tasks, for each number of rows learned from.

For numbers, with G the products of the members' errors, averaged over tasks, they are

    argmin_w  w' (G / g + c I) w,      w >= 0,  sum w = 1,      g the smallest error in G

Every task's products are divided by the root of its smallest error, so that one task that all find hard does not decide
alone. A number of rows learns from its neighbors: their G count less the further they are apart. `c` draws weights that
the tasks do not tell apart toward equal ones. For classes, w maximizes the likelihood of the mixture of probabilities.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from fewstep.problems import Answers

_TINY = 1e-12
_PULL = 0.1  # toward equal weights
_APART = 4.5  # how fast another number of rows counts less, by the logarithm of their ratio
_ROUNDS = 2000
_FOLDS = 5

Weights = Float[np.ndarray, " members"]
Choose = Callable[[int, np.ndarray], Weights]


def combine(
    by_member: Sequence[Mapping[int, Answers]], sizes: Sequence[int], *, classes: bool, seed: int
) -> tuple[dict[int, Answers], Float[np.ndarray, "sizes members"]]:
    """What the members answer together after learning from each number of rows, each task by weights that were chosen
    without it and its group; and the weights that all tasks choose."""
    usable = np.asarray([all(np.isfinite(answers.mean).all() for answers in of.values()) for of in by_member])
    choose = _by_likelihood(by_member, sizes, usable) if classes else _by_error(by_member, sizes, usable)
    units = by_member[0][sizes[0]].unit
    tasks, count = len(units), int(units.max()) + 1
    fold = (np.random.default_rng(seed).permutation(count) % min(_FOLDS, count))[units]
    together = {}
    for size in sizes:
        weights = np.stack([choose(size, (fold != n) | (count == 1)) for n in range(fold.max() + 1)])[fold]
        together[size] = _mixed([of[size] for of in by_member], weights)
    # Six digits are all that tasks can tell, and are the same however a machine rounds what they are chosen by.
    return together, np.round(np.stack([choose(size, np.ones(tasks, bool)) for size in sizes]), 6)


def _by_error(by_member: Sequence[Mapping[int, Answers]], sizes: Sequence[int], usable: np.ndarray) -> Choose:
    """The choice for numbers, on some of the tasks."""
    grams = {size: _gram([of[size] for of in by_member], usable) for size in sizes}

    def choose(size: int, tasks: np.ndarray) -> Weights:
        gram = np.zeros((len(by_member),) * 2)
        for other in sizes:
            own = grams[other][tasks].mean(0)
            gram += np.exp(-_APART * abs(np.log(size / other))) * own / max(own.diagonal()[usable].min(), _TINY)
        return _minimize(gram + _PULL * np.eye(len(gram)), usable)

    return choose


def _gram(answers: Sequence[Answers], usable: np.ndarray) -> Float[np.ndarray, "tasks members members"]:
    """The products of the members' errors on each task, over the root of its smallest error."""
    wrong = np.stack([
        a.mean[:, :, 0] - a.y if good else np.zeros_like(a.y) for a, good in zip(answers, usable, strict=True)
    ])  # fmt: skip
    gram = np.einsum("mtdro,ntdro,tdr->tmn", wrong, wrong, _shares(answers[0]))
    best = gram.diagonal(axis1=1, axis2=2)[:, usable].min(1)
    return gram / np.sqrt(np.maximum(best, _TINY))[:, None, None]


def _minimize(gram: np.ndarray, usable: np.ndarray) -> Weights:
    """The weights that minimize w' gram w, by active sets: least squares that are not negative, with their sum as one
    heavy equation."""
    from scipy.optimize import nnls

    some = gram[np.ix_(usable, usable)]
    root = np.linalg.cholesky(some + _TINY * np.eye(len(some))).T
    heavy = 1e3 * np.sqrt(some.diagonal().max())
    found, _ = nnls(np.concatenate([root, np.full((1, len(some)), heavy)]), np.append(np.zeros(len(some)), heavy))
    weights = np.zeros(len(gram))
    weights[usable] = np.where(found < 1e-3 * found.sum(), 0.0, found)
    return weights / weights.sum()


def _by_likelihood(by_member: Sequence[Mapping[int, Answers]], sizes: Sequence[int], usable: np.ndarray) -> Choose:
    """The choice for classes, on some of the tasks."""
    likely = {size: np.stack([_of_truth(of[size]) for of in by_member]) for size in sizes}
    shares = {size: _shares(by_member[0][size]) for size in sizes}

    def choose(size: int, tasks: np.ndarray) -> Weights:
        far = np.asarray([np.exp(-_APART * abs(np.log(size / other))) for other in sizes])
        near = [(other, weight) for other, weight in zip(sizes, far, strict=True) if weight > 0.02]
        p = np.concatenate([likely[other][:, tasks].reshape(len(by_member), -1) for other, _ in near], axis=1)
        share = np.concatenate([weight * shares[other][tasks].ravel() for other, weight in near])
        return _maximize(p[usable][:, share > 0], share[share > 0] / share.sum(), usable)

    return choose


def _of_truth(answers: Answers) -> Float[np.ndarray, "tasks draws rows"]:
    """The probability of what was true."""
    codes = answers.y.astype(int)
    return np.take_along_axis(answers.mean[:, :, 0], codes[..., None], axis=-1)[..., 0]


def _maximize(p: np.ndarray, share: np.ndarray, usable: np.ndarray) -> Weights:
    """The mixture under which the truth is likeliest, with a pull toward equal weights; by expectation maximization."""
    count, p = len(p), np.maximum(p, 1e-6)
    pull = 0.01 / count
    w = np.full(count, 1 / count)
    for _ in range(_ROUNDS):
        new = w * (p * (share / (w @ p))).sum(1) + pull
        new /= new.sum()
        done = np.abs(new - w).max() < 1e-7
        w = new
        if done:
            break
    weights = np.zeros(len(usable))
    weights[usable] = np.where(w < 2 * pull, 0.0, w)
    return weights / weights.sum()


def _shares(answers: Answers) -> Float[np.ndarray, "tasks draws rows"]:
    """How much each row counts: all tasks alike, with all their draws and rows."""
    rows = np.maximum(answers.weight.sum(-1, keepdims=True), _TINY)
    return answers.weight / rows / answers.weight.shape[1]


def _mixed(answers: Sequence[Answers], weights: Float[np.ndarray, "tasks members"]) -> Answers:
    """The mixture of what the members answered, by the weights of each task."""
    share = weights.T[:, :, None, None, None, None]
    means = np.stack([np.nan_to_num(a.mean) for a in answers])
    mean = (share * means).sum(0)
    variance = sum(
        s * (np.nan_to_num(np.square(a.spread)) + np.square(own - mean))
        for s, a, own in zip(share, answers, means, strict=True)
    )
    left = [np.nan_to_num(a.residual) for a in answers if a.residual is not None]
    residual = (share * np.stack(left)).sum(0) if len(left) == len(answers) else None
    return answers[0]._replace(mean=mean, spread=np.sqrt(variance), members=mean[None], residual=residual)
