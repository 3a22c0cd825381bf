"""Checks of the arrays for an estimator: one clear line for each mistake."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from fewstep._errors import FewstepError


def check_table(estimator: BaseEstimator, X: object, dtype: str, *, reset: bool) -> np.ndarray:
    """X as a table of finite numbers with the columns that the estimator knows."""
    table: np.ndarray = validate_data(estimator, X, dtype=dtype, reset=reset, ensure_all_finite=False)
    bad = ~np.isfinite(table)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        names = getattr(estimator, "feature_names_in_", None)
        where = f"column {names[column]!r}" if names is not None else f"column {column}"
        what = "NaN" if np.isnan(table[row, column]) else "inf"
        raise FewstepError(
            f"X contains {what}: {bad.any(1).sum()} of {len(table)} rows, the first is row {row} at {where}. Fill "
            "these in or leave the rows out, for example with sklearn.impute.SimpleImputer()."
        )
    return table


def check_targets(y: object, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes, and for every row the number of its class."""
    if y is None:
        raise FewstepError("requires y to be passed, but the target y is None: a classifier learns from labels.")
    labels = column_or_1d(y, warn=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")  # ours says more
        check_classification_targets(labels)
    if len(labels) != rows:
        raise FewstepError(
            f"X has {rows} rows and y has {len(labels)}: inconsistent numbers; each row needs one label."
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) > max(20, rows / 2):
        warnings.warn(
            f"y has {len(classes)} classes in {rows} rows, such as {classes[0]!r}: is it a number to predict, not a "
            "class? These networks tell classes apart.", UserWarning, stacklevel=4,
        )  # fmt: skip
    if len(classes) < 2:
        raise FewstepError(f"y has only one class, {classes[0]!r}: there is nothing to tell apart. Give two or more.")
    return classes, codes


def standardize(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column; a constant column has deviation 1, and so becomes zeros.

    A deviation is compared with the column's own size, so that its unit does not matter: below it is rounding.
    """
    mean, scale = X.mean(0, dtype=np.float64), X.std(0, dtype=np.float64)
    constant = (np.ptp(X, 0) == 0) | (scale <= 1e-12 * np.abs(X).max(0))
    return mean.astype(X.dtype), np.where(constant, 1, scale).astype(X.dtype)
