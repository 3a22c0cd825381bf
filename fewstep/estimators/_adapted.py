"""A task that was learned: ordinary fitted estimators."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from fewstep._errors import FewstepError
from fewstep.estimators import _input, _save
from fewstep.estimators._input import TableLike
from fewstep.models import Adaptation, adapt
from fewstep.problems import Answer
from fewstep.tables import Frame, Schema

if TYPE_CHECKING:
    from fewstep.estimators._estimators import FewShotEstimator

_Own = TypeVar("_Own", bound="_Learned")  # the run-time check of types cannot take `Self`


class _Learned(BaseEstimator, ABC):
    """Abstract: what both share, a trained model and the rows of one task."""

    def __init__(self, model: "FewShotEstimator", *, inner_steps: int | None = None):
        self.model = model
        self.inner_steps = inner_steps

    def __sklearn_clone__(self: _Own) -> _Own:
        """A copy that has learned no task yet; what the model learned from others stays."""
        return type(self)(self.model, inner_steps=self.inner_steps)

    def fit(self: _Own, X: TableLike, y: TableLike) -> _Own:
        """Learns the task of these rows, and forgets any other."""
        schema, frame = self._columns, self._frame(X)
        y = self._targets(y, frame.rows)
        y = y if y.ndim == 2 else y[:, None]
        if y.shape[1] != len(schema.targets):
            raise FewstepError(f"y has {y.shape[1]} columns, and the model was trained with {len(schema.targets)}.")
        targets = {target.name: column for target, column in zip(schema.targets, y.T, strict=True)}
        table = frame._replace(columns=frame.columns | targets)
        y = schema.y(table)
        x, far = _input.rows_of(schema, table, y)
        return self.of_rows(x[~far.ignored], y[~far.ignored], float(far.distance.max()))

    def save(self, path: Path | str) -> Path:
        """Writes the model and the task it has learned into one file, without pickle; `fewstep.estimators.load` reads
        it."""
        check_is_fitted(self, "n_samples_")
        return _save.write(self.model, Path(path), self)

    def of_rows(self: _Own, x: np.ndarray, y: np.ndarray, distance: float = 0.0) -> _Own:
        """The estimator after it has learned the task of encoded rows, of which the farthest lies that `distance`
        outside what training had."""
        self._rows, self.n_samples_, self.n_features_in_ = (x, y), len(x), self.model.n_features_in_
        self._distance = distance
        if hasattr(self.model, "feature_names_in_"):
            self.feature_names_in_ = self.model.feature_names_in_
        return self

    def _frame(self, X: TableLike) -> Frame:
        """X, held to the columns that the model was trained with."""
        names = getattr(self.model, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            for name in names:
                if name not in list(X.columns):
                    raise FewstepError(
                        f"The table has no column {name!r}, which the model was trained with. It has: "
                        f"{', '.join(map(str, X.columns))}."
                    )
            X = X[list(names)]
        return _input.frame_of(self.model, X, reset=False)

    @property
    def _columns(self) -> Schema:
        return self.model.model_.problem.details.schema

    def _answer(self, X: TableLike, level: float = 0.9) -> Answer:
        check_is_fitted(self, "n_samples_")
        learned: Adaptation = adapt(self.model.model_, self._rows, steps=self.inner_steps)
        x, far = _input.rows_of(self._columns, self._frame(X))
        return learned._replace(distance=self._distance).answer(x, level=level, distance=far.distance)

    @abstractmethod
    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        """The target's cells."""


class AdaptedRegressor(RegressorMixin, _Learned):
    """A regressor that has learned one task; `predict_interval` says how sure it is."""

    def predict(self, X: TableLike) -> np.ndarray:
        """The prediction of each row, in the unit of y; of several targets a column each."""
        return flat(self._columns.decode(self._answer(X).mean))

    def predict_interval(self, X: TableLike, level: float = 0.9) -> TableLike:
        """Prediction, lower and upper end of each row: a frame for a frame, else an array of three columns; of several
        targets three columns each, such as "low of y1".

        The intervals come from the spread of seeds and sampled masks, and hold the asked share of the true values on
        the validation tasks. They are wider where rows lie outside what the training tasks had, and a warning says so.
        """
        answer, targets = self._answer(X, level), self._columns.targets
        if not answer.calibrated:
            raise FewstepError(
                "There are no intervals: they are calibrated on held-out tasks, which takes at least three tasks in "
                f"fit, and for the inner steps of the training; inner_steps is {self.inner_steps}. Use predict."
            )
        columns = {"prediction": answer.mean, "low": answer.low, "high": answer.high}
        return with_columns(X, {
            name if len(targets) == 1 else f"{name} of {target.name}": target.decode(values[:, n])
            for n, target in enumerate(targets) for name, values in columns.items()
        })  # fmt: skip

    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        return _input.numbers_of(y, rows)


class AdaptedClassifier(ClassifierMixin, _Learned):
    """A classifier that has learned one task. Its classes are those of the model it comes from."""

    @property
    def classes_(self) -> np.ndarray:
        """All classes, also those that this task has shown none of."""
        return self.model.classes_

    def predict(self, X: TableLike) -> np.ndarray:
        """The class of each row."""
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """The probability of each class: the mean over seeds and sampled masks."""
        return self._answer(X).mean

    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        y = _input.labels_of(y, rows)
        if (strange := ~np.isin(y, self.classes_)).any():
            raise FewstepError(
                f"y holds {y[strange][0]!r}, a class that no training task had. Known: "
                f"{', '.join(map(str, self.classes_))}."
            )
        return self.model._codes(y)


def flat(columns: np.ndarray) -> np.ndarray:
    """A single column as a vector, several as they are."""
    return columns[:, 0] if columns.shape[1] == 1 else columns


def with_columns(X: TableLike, columns: dict[str, np.ndarray]) -> TableLike:
    """Columns as a frame of the kind of X, with its index if it has one; or as an array."""
    if not hasattr(X, "columns"):
        return np.stack(list(columns.values()), axis=1)
    return type(X)(columns, index=X.index) if hasattr(X, "index") else type(X)(columns)
