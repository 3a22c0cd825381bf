"""The estimators that learn how to learn."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fewstep._errors import FewstepError
from fewstep.estimators import _input, _save
from fewstep.estimators._adapted import AdaptedClassifier, AdaptedRegressor
from fewstep.experiments.experiment import Experiment
from fewstep.runs.memory import fit
from fewstep.tables import Column, Frame, Schema, encode
from fewstep.tables._column import Cells, read_cells
from fewstep.tables._ensemble import Adapted, Ensemble
from fewstep.tables._outliers import Treated, check_outliers, treat

_BATCH = 8


class FewShotEstimator(BaseEstimator, ABC):
    """Abstract: what regressor and classifier share."""

    def __init__(
        self,
        method: str = "mtnet+rates",
        *,
        shots: int = 5,
        inner_steps: int = 5,
        inner_lr: float | None = None,
        hidden: tuple[int, ...] = (64, 64),
        network: Callable[..., Any] | None = None,
        seeds: int = 3,
        steps: int = 3000,
        meta_batch: int = _BATCH,
        outer_lr: float | None = None,
        validation: float = 0.2,
        patience: int | None = 8,
        missing: str = "refuse",
        outliers: str = "drop",
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.method = method
        self.shots = shots
        self.inner_steps = inner_steps
        self.inner_lr = inner_lr
        self.hidden = hidden
        self.network = network
        self.seeds = seeds
        self.steps = steps
        self.meta_batch = meta_batch
        self.outer_lr = outer_lr
        self.validation = validation
        self.patience = patience
        self.missing = missing
        self.outliers = outliers
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, tasks: Any = None) -> "FewShotEstimator":
        """Learns from many tasks how to learn one.

        **Arguments:** `X` a frame or an array, one row an example; `y` its target; `tasks` the name of the task that
        each row belongs to. Some tasks are held out, to stop by and to calibrate the intervals on. Without `tasks` all
        rows are one task, and a warning says so.
        """
        frame = _input.frame_of(self, X, reset=True)
        target = self._targets(y, frame.rows)
        names = _input.tasks_of(tasks, frame.rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = _input.parts_of(names, seed, self._share())
        treated = self._treated(frame, target, rows["train"])
        treated.check_tasks(names)
        whole = treated.frame.only(treated.kept)
        rows = {part: np.flatnonzero(np.isin(treated.kept, some)) for part, some in rows.items()}
        schema = self._schema(whole, rows["train"])
        parts = encode(schema, whole, names[treated.kept], rows)
        shots = _input.shots_of(self.shots, parts)
        self._fitted = fit(self._experiment(shots, seed), schema, parts, self.network, self._watch)
        self.n_tasks_ = len(set(names.tolist()))
        self.n_iter_ = self._fitted.history[-1][0] if self._fitted.history else self.steps
        self.history_ = list(self._fitted.history)
        held = parts["validation"].names if self._fitted.calibration else ()
        self.held_out_tasks_ = _input.as_given(tasks, names, held)
        self.coverage_ = self._fitted.coverage
        known = parts["train"] if self.n_tasks_ == 1 else None
        self._known = None if known is None else (known.x, known.y)
        return self

    @property
    def ensemble_(self) -> Ensemble:
        """The trained model as fewstep has it."""
        check_is_fitted(self)
        return self._fitted.ensemble(self.network)

    def save(self, path: Path | str) -> Path:
        """Writes the fitted model into one file, without pickle; `fewstep.estimators.load` reads it."""
        check_is_fitted(self)
        return _save.write(self, Path(path))

    def predict(self, X: Any) -> np.ndarray:
        """What is said of a task before any of its rows is known; if there was one task in `fit`, of that one."""
        return self._told(self._start(), X)

    def _start(self) -> Adapted:
        ensemble = self.ensemble_
        if self._known is not None:
            return ensemble.adapted(*self._known)
        inputs, outputs = ensemble.schema.widths
        y = np.zeros(0, np.int32) if ensemble.schema.classes else np.zeros((0, outputs), np.float32)
        return ensemble.adapted(np.zeros((0, inputs), np.float32), y)

    def _mean(self, adapted: Adapted, X: Any) -> np.ndarray:
        x, _ = _input.rows_of(adapted.ensemble.schema, _input.frame_of(self, X, reset=False))
        return adapted.predict(x)[0]

    def _watch(self, step: int, score: float) -> None:
        if self.verbose:
            print(f"step {step} of {self.steps}: {score:.4g} on the validation tasks", flush=True)

    def _share(self) -> float:
        if not 0 < self.validation < 0.5:
            raise FewstepError(f"validation is {self.validation}. It must be above 0 and below 0.5, such as 0.2.")
        return self.validation

    def _treated(self, frame: Frame, target: np.ndarray, training: np.ndarray) -> Treated:
        """The table with its target as the last column and its outliers treated, with a warning."""
        if self.missing not in ("refuse", "mean"):
            raise FewstepError(f"missing is {self.missing!r}. Known: mean, refuse.")
        y = _input.target_name(frame.columns)
        made = treat(
            frame._replace(columns=frame.columns | {y: target}), training, x=tuple(frame.columns),
            y=y if is_regressor(self) else None, outliers=check_outliers(self.outliers),
            missing=self.missing,  # type: ignore[arg-type]
        )  # fmt: skip
        if made.note:
            warnings.warn(made.note, UserWarning, stacklevel=3)
        return made

    def _schema(self, whole: Frame, training: np.ndarray) -> Schema:
        *names, y = whole.columns
        features = tuple(Column.learn(name, read_cells(whole, name), training) for name in names)
        return Schema(None, features, self._target(y, whole, training), self.missing)  # type: ignore[arg-type]

    def _experiment(self, shots: int, seed: int) -> Experiment:
        every = max(1, self.steps // 20)
        return Experiment(
            self.method, "table:fit", seed=seed, seeds=self.seeds, steps=self.steps, meta_batch=self.meta_batch,
            shots=shots, hidden=None if self.network else tuple(self.hidden), outer_lr=self.outer_lr,
            patience=self.patience, log_every=every, validate_every=every, **self._of_rule(),
        )  # fmt: skip

    def _of_rule(self) -> dict[str, Any]:
        from fewstep.learners import LEARNERS

        if self.method in LEARNERS:
            return {}
        return {"inner_steps": self.inner_steps, "inner_lr": self.inner_lr}

    @abstractmethod
    def _targets(self, y: Any, rows: int) -> np.ndarray:
        """The target's cells."""

    @abstractmethod
    def _target(self, name: str, whole: Frame, training: np.ndarray) -> Column:
        """The target's column."""

    @abstractmethod
    def _told(self, adapted: Adapted, X: Any) -> np.ndarray:
        """What is predicted, in the user's unit or classes."""


class FewShotRegressor(RegressorMixin, FewShotEstimator):
    """Learns how to learn a number from a few rows.

    **Arguments:** `method` any of fewstep's rules, chains and learners that predict numbers; `shots` the rows a task is
    learned from in training; the inner steps and their size; the `hidden` layers of the perceptron, or a `network` of
    yours as `make(x, outputs)`; `seeds` trained together, which answer together; outer `steps` at most, `patience`
    validations without gain end them sooner; their size `outer_lr`, by default the method's own; `validation` the share
    of tasks held out; `missing` refuses empty cells or takes the mean ("mean"); `outliers` says what to do about values
    that cannot be measurements, such as 9999 for a missing one: "drop" leaves their rows out, "clip" takes the nearest
    other value, both with a warning, and "keep" does nothing; `verbose` tells of each validation.

    Example::

        model = FewShotRegressor(shots=5).fit(X, y, tasks=child)
        this_child = model.adapt(X_new, y_new)
        this_child.predict(X_asked)
    """

    def adapt(self, X: Any, y: Any) -> AdaptedRegressor:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedRegressor(self).fit(X, y)

    def score(self, X: Any, y: Any, sample_weight: Any = None, tasks: Any = None) -> float:
        """R². With `tasks`, each is learned from `shots` of its rows and judged on its others, which is what few-shot
        learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotRegressor, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks)

    def _targets(self, y: Any, rows: int) -> np.ndarray:
        return _input.numbers_of(y, rows)

    def _target(self, name: str, whole: Frame, training: np.ndarray) -> Column:
        return Column.learn(name, Cells("number", whole.columns[name]), training)

    def _told(self, adapted: Adapted, X: Any) -> np.ndarray:
        schema = adapted.ensemble.schema
        return schema.target.decode(self._mean(adapted, X)[:, 0])


class FewShotClassifier(ClassifierMixin, FewShotEstimator):
    """Learns how to tell classes apart from a few rows. The arguments are those of `FewShotRegressor`.

    Example::

        model = FewShotClassifier(shots=10).fit(X, y, tasks=shop)
        model.adapt(X_new, y_new).predict_proba(X_asked)
    """

    def adapt(self, X: Any, y: Any) -> AdaptedClassifier:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedClassifier(self).fit(X, y)

    def score(self, X: Any, y: Any, sample_weight: Any = None, tasks: Any = None) -> float:
        """The accuracy. With `tasks`, each is learned from `shots` of its rows and judged on its others, which is what
        few-shot learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotClassifier, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, before any row of the task is known."""
        check_is_fitted(self)
        return self._mean(self._start(), X)

    def _targets(self, y: Any, rows: int) -> np.ndarray:
        y = _input.labels_of(y, rows)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise FewstepError(f"y has only one class, {self.classes_[0]!r}: there is nothing to tell apart.")
        return self._codes(y)

    def _codes(self, y: np.ndarray) -> np.ndarray:
        return np.asarray([str(n) for n in np.searchsorted(self.classes_, y)], object)

    def _target(self, name: str, whole: Frame, training: np.ndarray) -> Column:
        return Column(name, "category", categories=tuple(map(str, range(len(self.classes_)))))

    def _told(self, adapted: Adapted, X: Any) -> np.ndarray:
        return self.classes_[self._mean(adapted, X).argmax(1)]
