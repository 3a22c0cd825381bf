"""What both networks share as scikit-learn estimators: checks, scaling, classes, probabilities, features."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from fewstep._kernels import held_out, temperature
from fewstep.layerwise._checks import standardize, table, targets
from fewstep.layerwise._history import Record, Stopped, Watch
from fewstep.layerwise._save import write
from fewstep.layerwise._transform import ByLayer, Named

HELD_OUT = 5  # one in so many rows of each class is held out for the calibration


class Fitted(NamedTuple):
    """A network that was learned: its parts, which the subclass knows, and how it came to be."""

    parts: Any
    history: list[Record]
    stopped: Stopped


class LayerwiseClassifier(ByLayer, Named, ClassifierMixin, BaseEstimator, ABC):
    """Abstract: a subclass names its parameters in `__init__`, checks them, learns a network, and applies it."""

    def _watch(self, number: int, record: Record, *, calibrating: bool = False) -> None:
        """Told of each layer when it is learned, those of the network that only calibrates first; may be replaced."""

    def fit(self, X: Any, y: Any) -> "LayerwiseClassifier":
        """Learns the layers one by one, then the read-out."""
        options = self._options()
        X = table(self, X, self.dtype, reset=True)
        self.classes_, codes = targets(y, len(X))
        self.mean_, self.scale_ = standardize(X)
        rng = check_random_state(self.random_state)
        X = (X - self.mean_) / self.scale_
        # Matrices as small as these are not worth a second thread, and wait long for one where others work too.
        with jax.enable_x64(self.dtype == "float64"), threadpool_limits(1, "blas"):
            self.temperature_ = self._temperature(X, codes, rng, options)
            self._take(self._learn(X, codes, _generator(rng), options, self._watch))
        return self

    def save(self, path: Path | str) -> Path:
        """Writes the fitted network into one file, without pickle; `fewstep.layerwise.load` reads it."""
        check_is_fitted(self)
        return write(self, self._arrays(self._fitted.parts), Path(path))

    def decision_function(self, X: Any) -> np.ndarray:
        """The score of each class, higher is nearer; for two classes the second's less the first's."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        scores = self._scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The softmax of the scores over a temperature, which was fitted on rows held out of the training."""
        scaled = self._scores(X) / self.temperature_
        risen = np.exp(scaled - scaled.max(1, keepdims=True))
        return risen / risen.sum(1, keepdims=True)

    def _transformed(self, X: Any) -> np.ndarray:
        with jax.enable_x64(self.dtype == "float64"):
            return self._features(self._fitted.parts, self._scaled(X), self.n_layers_)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        with jax.enable_x64(self.dtype == "float64"):
            return self._scores_of(self._fitted.parts, self._scaled(X)).astype(np.float64)

    def _scaled(self, X: Any) -> np.ndarray:
        return (table(self, X, self.dtype, reset=False) - self.mean_) / self.scale_

    def _take(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.history_, (self.converged_, self.stopped_, self.refused_) = fitted.history, fitted.stopped
        self.n_layers_ = len(fitted.history)
        self._n_features_out = self._columns(fitted.parts, self.n_layers_)

    def _temperature(self, X: np.ndarray, codes: np.ndarray, rng: np.random.RandomState, options: Any) -> float:
        """Learned from a network of the other rows, unless the user does without or classes are too small."""
        out = held_out(codes, HELD_OUT, rng)
        if not self.calibrate or not out.any():
            return 1.0
        others = self._learn(X[~out], codes[~out], _generator(rng), options, partial(self._watch, calibrating=True))
        return temperature(self._scores_of(others.parts, X[out]), codes[out])

    @abstractmethod
    def _options(self) -> Any:
        """The parameters, checked."""

    @abstractmethod
    def _learn(self, X: np.ndarray, codes: np.ndarray, rng: np.random.Generator, options: Any, watch: Watch) -> Fitted:
        """Learns a network from scaled rows and the numbers of their classes."""

    @abstractmethod
    def _features(self, parts: Any, x: np.ndarray, count: int) -> np.ndarray:
        """The features of scaled rows after so many layers."""

    @abstractmethod
    def _columns(self, parts: Any, count: int) -> int:
        """How many features there are after so many layers."""

    @abstractmethod
    def _scores_of(self, parts: Any, x: np.ndarray) -> np.ndarray:
        """The score of each class for scaled rows."""

    @abstractmethod
    def _arrays(self, parts: Any) -> dict[str, np.ndarray]:
        """The parts as named arrays."""

    @abstractmethod
    def _parts(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """The parts from named arrays."""


def _generator(rng: np.random.RandomState) -> np.random.Generator:
    return np.random.default_rng(int(rng.randint(2**31 - 1)))
