r"""How many scales wide an interval must be, so that it holds the right share of the values of a task that is new.

Rows of one task are alike, so they are not the units: tasks are. Task k has errors e_ki in units of the interval's
scale, and its own level of them, s_k, the root of their mean square. A new task has a level nobody has seen. Two ways
give the multiplier q with an expected share inside, E_k P(e_k <= q), of `level`:

- with `_MANY` tasks or more, the distribution of the errors over all tasks, each counting alike, with mass 1 / (K + 1)
  at infinity for the new one: no assumption but that tasks are exchangeable;
- with fewer, that mass alone would make intervals infinite. There log s is taken as normal: the new task's level
  follows Student's t around the mean of the others, whose spread is drawn towards `_USUAL` as if by `_PRIOR` tasks.

Reference: Dunn, Wasserman & Ramdas, Distribution-free prediction sets for two-layer hierarchical models, JASA 2023;
Lee, Barber & Willett, Distribution-free inference with hierarchical data, 2023 (pooling of empirical distributions).
"""

from collections.abc import Sequence

import numpy as np

_MANY = 50
_USUAL, _PRIOR = 0.2, 3
_SHAPE, _LEVELS = 100, 101  # quantiles of a task's errors, and of the new task's level


def multipliers(sizes: Sequence[np.ndarray], levels: Sequence[float]) -> list[float]:
    """For each level the multiplier, from the absolute errors of each task in units of the interval's scale."""
    if len(sizes) >= _MANY:
        return [_pooled(sizes, level) for level in levels]
    return _predictive(sizes, levels)


def _pooled(sizes: Sequence[np.ndarray], level: float) -> float:
    """The quantile of the mean of the tasks' distributions, one of which lies at infinity."""
    errors = np.concatenate(sizes)
    share = np.concatenate([np.full(len(some), 1 / len(some)) for some in sizes]) / (len(sizes) + 1)
    order = np.argsort(errors)
    at = int(np.searchsorted(np.cumsum(share[order]), level - 1e-12))
    return float(errors[order][min(at, len(errors) - 1)])


def _predictive(sizes: Sequence[np.ndarray], levels: Sequence[float]) -> list[float]:
    """The quantiles of a new task's errors: those of all tasks over their own level, times the level of the new."""
    from scipy.special import stdtrit

    count = len(sizes)
    own = np.asarray([np.sqrt(np.mean(np.square(some))) for some in sizes])
    logs = np.log(np.maximum(own, 1e-3 * own.max() + 1e-12))
    freedom = count - 1 + _PRIOR
    variance = (np.square(logs - logs.mean()).sum() + _PRIOR * _USUAL**2) / freedom
    places = lambda number: (np.arange(number) + 0.5) / number
    new = logs.mean() + np.sqrt(variance * (1 + 1 / count)) * stdtrit(freedom, places(_LEVELS))
    shape = np.stack([np.quantile(some, places(_SHAPE)) for some in sizes]) / np.exp(logs)[:, None]
    shape = np.quantile(shape, places(10 * _SHAPE))  # fewer than all tasks', so that all pairs with a level are few
    errors = np.multiply.outer(np.exp(new), shape).ravel()
    return [float(np.quantile(errors, level)) for level in levels]
