"""The estimators that learn how to learn."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fewstep._errors import FewstepError
from fewstep.estimators import _input, _save
from fewstep.estimators._adapted import AdaptedClassifier, AdaptedRegressor
from fewstep.estimators._input import TableLike
from fewstep.experiments import Experiment, plan_of
from fewstep.models import Adaptation, adapt, fit_table
from fewstep.problems import IN_MEMORY, Value
from fewstep.tables import (
    Cells,
    Column,
    Frame,
    Schema,
    Table,
    Treated,
    check_outliers,
    encode,
    read_cells,
    treat,
)  # fmt: skip


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
        network: Callable[..., object] | None = None,
        seeds: int = 3,
        steps: int | None = None,
        meta_batch: int | None = None,
        outer_lr: float | None = None,
        validation: float | Sequence[object] = 0.15,
        patience: int | None = 8,
        missing: str = "refuse",
        outliers: str = "drop",
        random_state: TableLike = None,
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

    def fit(self, X: TableLike, y: TableLike, tasks: TableLike = None) -> "FewShotEstimator":
        """Learns from many tasks how to learn one.

        **Arguments:** `X` a frame or an array, one row per example; `y` its target; `tasks` the name of the task that
        each row belongs to. Some tasks are held out, to stop by and to calibrate the intervals on. Without `tasks` all
        rows are one task, and a warning says so.
        """
        frame = _input.frame_of(self, X, reset=True)
        target = self._targets(y, frame.rows)
        names = _input.tasks_of(tasks, frame.rows)
        seed = _input.seed_of(self.random_state)
        rows = _input.parts_of(names, seed, self.validation)
        treated = self._treated(frame, target, rows["train"])
        treated.check_tasks(names)
        usable = treated.frame.only(treated.kept)
        rows = {part: np.flatnonzero(np.isin(treated.kept, some)) for part, some in rows.items()}
        schema = self._schema(usable, rows["train"])
        parts = encode(schema, usable, names[treated.kept], rows)
        experiment = self._experiment(schema, _input.shots_of(self.shots, parts), seed)
        table = Table(schema, {}, parts)
        self.model_, self.history_, self.coverage_ = fit_table(experiment, table, self.network, self._watch)
        self.n_tasks_ = len(set(names.tolist()))
        self.n_iter_ = self.model_.step
        held_out = parts["validation"].names if self.model_.calibration is not None else ()
        self.held_out_tasks_ = _input.as_given(tasks, names, held_out)
        only = parts["train"] if self.n_tasks_ == 1 else None
        self._only_task = None if only is None else (only.x, only.y)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, as joblib and copies use it: a model's functions cannot be pickled, what they are made of can."""
        state: dict[str, Any] = super().__getstate__()
        return state | ({"model_": _save.parts_of(state["model_"])} if "model_" in state else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in state:
            self.model_ = _save.model_of(state["model_"], self.network)

    def save(self, path: Path | str) -> Path:
        """Writes the fitted model into one file, without pickle; `fewstep.estimators.load` reads it."""
        check_is_fitted(self)
        return _save.write(self, Path(path))

    def predict(self, X: TableLike) -> np.ndarray:
        """What is said of a task before any of its rows is known; if there was one task in `fit`, of that one."""
        return self._decode(self._start(), X)

    def _start(self) -> Adaptation:
        check_is_fitted(self)
        if self._only_task is not None:
            return adapt(self.model_, self._only_task)
        inputs, outputs = self._columns.widths
        y = np.zeros(0, np.int32) if self._columns.classes else np.zeros((0, outputs), np.float32)
        return adapt(self.model_, (np.zeros((0, inputs), np.float32), y))

    @property
    def _columns(self) -> Schema:
        return self.model_.problem.details.schema

    def _mean(self, adapted: Adaptation, X: TableLike) -> np.ndarray:
        x, _ = _input.rows_of(self._columns, _input.frame_of(self, X, reset=False))
        return adapted.answer(x).mean

    def _watch(self, step: int, score: float) -> None:
        if self.verbose:
            print(f"step {step}: {score:.4g} on the validation tasks", flush=True)

    def _treated(self, frame: Frame, target: np.ndarray, training: np.ndarray) -> Treated:
        """The table with its target as the last column and its outliers treated, with a warning."""
        if self.missing not in ("refuse", "mean"):
            raise FewstepError(f"missing is {self.missing!r}. Known: mean, refuse.")
        y = _input.target_name(frame.columns)
        treated = treat(
            frame._replace(columns=frame.columns | {y: target}), training, x=tuple(frame.columns),
            y=y if is_regressor(self) else None, outliers=check_outliers(self.outliers),
            missing=self.missing,  # type: ignore[arg-type]
        )  # fmt: skip
        if treated.note:
            warnings.warn(treated.note, UserWarning, stacklevel=3)
        return treated

    def _schema(self, table: Frame, training: np.ndarray) -> Schema:
        *names, y = table.columns
        features = tuple(Column.learn(name, read_cells(table, name), training) for name in names)
        return Schema(None, features, self._target(y, table, training), self.missing)  # type: ignore[arg-type]

    def _experiment(self, schema: Schema, shots: int, seed: int) -> Experiment:
        """The experiment that `fewstep train` would make of the same table."""
        options: dict[str, Value] = {
            "seed": seed, "seeds": self.seeds, "shots": shots, "patience": self.patience or 0,
            "schema": schema.to_dict(), "missing": self.missing, "inner_steps": self.inner_steps,
        }  # fmt: skip
        options |= {} if self.network else {"hidden": tuple(self.hidden)}
        for name in ("steps", "meta_batch", "inner_lr", "outer_lr"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        applies = {field.name for _, field in plan_of(self.method, IN_MEMORY, options).fields()}
        return Experiment(self.method, IN_MEMORY, **{k: v for k, v in options.items() if k in applies})

    @abstractmethod
    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        """The target's cells."""

    @abstractmethod
    def _target(self, name: str, table: Frame, training: np.ndarray) -> Column:
        """The target's column."""

    @abstractmethod
    def _decode(self, adapted: Adaptation, X: TableLike) -> np.ndarray:
        """What is predicted, in the user's unit or classes."""


class FewShotRegressor(RegressorMixin, FewShotEstimator):
    """Learns how to learn a number from a few rows.

    With the same options it is the model that `fewstep train METHOD table:FILE` makes of the same tasks, up to rounding
    where the command spreads a large training over devices; the defaults are the same too.

    **Arguments:** `method` any of fewstep's rules, chains and learners that predict numbers; the default `mtnet+rates`
    is what we recommend for tables; `shots` the rows a task is learned from in training; the inner steps and their
    size; the `hidden` layers of the perceptron, or a `network` of yours as `make(x, outputs)`; `seeds` trained
    together, which answer together; outer `steps` at most (3000 for most methods), `patience` validations without gain
    end them sooner; `meta_batch` tasks per step, and its size `outer_lr`: by default the method's own; `validation` the
    share of tasks held out, or the names of these tasks; `missing` refuses empty cells or takes the mean ("mean");
    `outliers` says what to do about values that cannot be measurements, such as 9999 for a missing one: "drop" leaves
    their rows out, "clip" takes the nearest other value, both with a warning, and "keep" does nothing; `verbose`
    reports each validation.

    Example::

        model = FewShotRegressor(shots=5).fit(X, y, tasks=child)
        this_child = model.adapt(X_new, y_new)
        this_child.predict(X_asked)
    """

    def adapt(self, X: TableLike, y: TableLike) -> AdaptedRegressor:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedRegressor(self).fit(X, y)

    def score(self, X: TableLike, y: TableLike, sample_weight: TableLike = None, tasks: TableLike = None) -> float:
        """R². With `tasks`, each is learned from `shots` of its rows and evaluated on its others, which is what
        few-shot learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotRegressor, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks)

    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        return _input.numbers_of(y, rows)

    def _target(self, name: str, table: Frame, training: np.ndarray) -> Column:
        return Column.learn(name, Cells("number", table.columns[name]), training)

    def _decode(self, adapted: Adaptation, X: TableLike) -> np.ndarray:
        return self._columns.target.decode(self._mean(adapted, X)[:, 0])


class FewShotClassifier(ClassifierMixin, FewShotEstimator):
    """Learns how to distinguish classes from a few rows. The arguments are those of `FewShotRegressor`.

    Example::

        model = FewShotClassifier(shots=10).fit(X, y, tasks=shop)
        model.adapt(X_new, y_new).predict_proba(X_asked)
    """

    def adapt(self, X: TableLike, y: TableLike) -> AdaptedClassifier:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedClassifier(self).fit(X, y)

    def score(self, X: TableLike, y: TableLike, sample_weight: TableLike = None, tasks: TableLike = None) -> float:
        """The accuracy. With `tasks`, each is learned from `shots` of its rows and evaluated on its others, which is
        what few-shot learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotClassifier, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks)

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """The probability of each class, before any row of the task is known."""
        check_is_fitted(self)
        return self._mean(self._start(), X)

    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        y = _input.labels_of(y, rows)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise FewstepError(f"y has only one class, {self.classes_[0]!r}: there is nothing to distinguish.")
        return self._codes(y)

    def _codes(self, y: np.ndarray) -> np.ndarray:
        return np.asarray([str(n) for n in np.searchsorted(self.classes_, y)], object)

    def _target(self, name: str, table: Frame, training: np.ndarray) -> Column:
        return Column(name, "category", categories=tuple(map(str, range(len(self.classes_)))))

    def _decode(self, adapted: Adaptation, X: TableLike) -> np.ndarray:
        return self.classes_[self._mean(adapted, X).argmax(1)]
