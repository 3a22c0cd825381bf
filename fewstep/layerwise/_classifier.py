"""What both networks share as scikit-learn estimators: checks, scaling, classes, probabilities, features."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from fewstep._kernels import draw_holdout, temperature
from fewstep.layerwise._checks import check_table, check_targets, standardize
from fewstep.layerwise._history import Ending, Record, Watch
from fewstep.layerwise._save import write_network
from fewstep.layerwise._transform import ByLayer, NamedColumns

HELD_OUT = 5  # one in so many rows of each class is held out for the calibration


Parts = TypeVar("Parts")
Options = TypeVar("Options")


@dataclass(frozen=True)
class LayerStack(Generic[Parts]):
    """A learned network: its parts, which the subclass knows, the record of each layer, and why it ended."""

    parts: Parts
    history: list[Record]
    ending: Ending


class LayerwiseClassifier(ByLayer, NamedColumns, ClassifierMixin, BaseEstimator, ABC, Generic[Parts, Options]):
    """Abstract: a subclass names its parameters in `__init__`, checks them, learns a network, and applies it."""

    def _watch(self, number: int, record: Record, *, calibrating: bool = False) -> None:
        """Called after each layer, those of the network that only calibrates first; may be replaced."""

    def fit(self, X: object, y: object) -> "LayerwiseClassifier":
        """Learns the layers one by one, then the read-out."""
        options = self._options()
        rows = check_table(self, X, self.dtype, reset=True)
        self.classes_, codes = check_targets(y, len(rows))
        self.mean_, self.scale_ = standardize(rows)
        rng = check_random_state(self.random_state)
        rows = (rows - self.mean_) / self.scale_
        # Matrices as small as these are not worth a second thread, and wait long for one where others work too.
        with jax.enable_x64(self.dtype == "float64"), threadpool_limits(1, "blas"):
            self.temperature_ = self._temperature(rows, codes, rng, options)
            self._set_stack(self._learn(rows, codes, _generator(rng), options, self._watch))
        return self

    def save(self, path: Path | str) -> Path:
        """Writes the fitted network into one file, without pickle; `fewstep.layerwise.load` reads it."""
        check_is_fitted(self)
        return write_network(self, self._arrays(self._fitted.parts), Path(path))

    def decision_function(self, X: object) -> np.ndarray:
        """The score of each class, higher is nearer; for two classes the second's less the first's."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: object) -> np.ndarray:
        """The class of each row."""
        scores = self._scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X: object) -> np.ndarray:
        """The softmax of the scores over a temperature, which was fitted on rows held out of the training."""
        logits = self._scores(X) / self.temperature_
        exponentials = np.exp(logits - logits.max(1, keepdims=True))
        return exponentials / exponentials.sum(1, keepdims=True)

    def _transformed(self, X: object) -> np.ndarray:
        with jax.enable_x64(self.dtype == "float64"):
            return self._features(self._fitted.parts, self._scaled(X), self.n_layers_)

    def _scores(self, X: object) -> np.ndarray:
        check_is_fitted(self)
        with jax.enable_x64(self.dtype == "float64"):
            return self._scores_of(self._fitted.parts, self._scaled(X)).astype(np.float64)

    def _scaled(self, X: object) -> np.ndarray:
        return (check_table(self, X, self.dtype, reset=False) - self.mean_) / self.scale_

    def _set_stack(self, stack: LayerStack[Parts]) -> None:
        self._fitted = stack
        self.history_, (self.converged_, self.stopped_, self.refused_) = stack.history, stack.ending
        self.n_layers_ = len(stack.history)
        self._n_features_out = self._columns(stack.parts, self.n_layers_)

    def _temperature(self, X: np.ndarray, codes: np.ndarray, rng: np.random.RandomState, options: Options) -> float:
        """Fitted with a network of the other rows; 1 without calibration, or where classes are too small."""
        holdout = draw_holdout(codes, HELD_OUT, rng)
        if not self.calibrate or not holdout.any():
            return 1.0
        watch = partial(self._watch, calibrating=True)
        stack = self._learn(X[~holdout], codes[~holdout], _generator(rng), options, watch)
        return temperature(self._scores_of(stack.parts, X[holdout]), codes[holdout])

    @abstractmethod
    def _options(self) -> Options:
        """The parameters, checked."""

    @abstractmethod
    def _learn(
        self, X: np.ndarray, codes: np.ndarray, rng: np.random.Generator, options: Options, watch: Watch
    ) -> LayerStack[Parts]:
        """Learns a network from scaled rows and the numbers of their classes."""

    @abstractmethod
    def _features(self, parts: Parts, x: np.ndarray, count: int) -> np.ndarray:
        """The features of scaled rows after so many layers."""

    @abstractmethod
    def _columns(self, parts: Parts, count: int) -> int:
        """How many features there are after so many layers."""

    @abstractmethod
    def _scores_of(self, parts: Parts, x: np.ndarray) -> np.ndarray:
        """The score of each class for scaled rows."""

    @abstractmethod
    def _arrays(self, parts: Parts) -> dict[str, np.ndarray]:
        """The parts as named arrays."""

    @abstractmethod
    def _parts(self, arrays: Mapping[str, np.ndarray]) -> Parts:
        """The parts from named arrays."""


def _generator(rng: np.random.RandomState) -> np.random.Generator:
    return np.random.default_rng(int(rng.randint(2**31 - 1)))
