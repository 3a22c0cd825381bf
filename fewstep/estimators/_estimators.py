"""The estimators that learn how to learn."""

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_regressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fewstep._errors import FewstepError
from fewstep.estimators import _input, _save
from fewstep.estimators._adapted import AdaptedClassifier, AdaptedRegressor, flat
from fewstep.estimators._encoded import EncodedClassifier
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
    check_support,
    encode,
    learn_features,
    learn_typical,
    treat,
)  # fmt: skip


class FewShotEstimator(BaseEstimator, ABC):
    """Abstract: what regressor and classifier share."""

    def __init__(
        self,
        method: str = "auto",
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
        effort: float = 1.0,
        refit: bool = True,
        missing: str = "refuse",
        outliers: str = "drop",
        support: str = "random",
        cyclic: Mapping[str, float] | None = None,
        dates: Sequence[str] = ("days",),
        unknown_categories: str = "refuse",
        base: str = "",
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
        self.effort = effort
        self.refit = refit
        self.missing = missing
        self.outliers = outliers
        self.support = support
        self.cyclic = cyclic
        self.dates = dates
        self.unknown_categories = unknown_categories
        self.base = base
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: TableLike, y: TableLike, tasks: TableLike = None, groups: TableLike = None, order: TableLike = None
    ) -> "FewShotEstimator":
        """Learns from many tasks how to learn one.

        **Arguments:** `X` a frame or an array, one row per example; `y` its target, or several of numbers as columns;
        `tasks` the name of the task that each row belongs to; `groups` the group of each row's task, such as the
        station of a year: whole groups are held out. `order` is what the rows of a task are sorted by, for `support`.
        Some tasks are held out, to stop by and to calibrate the intervals on. Tasks with too few rows are left out,
        with a warning. Without `tasks` all rows are one task, and a warning says so.
        """
        check_support(self.support, order)
        frame = _input.frame_of(self, X, reset=True)
        target = self._targets(y, frame.rows)
        names = _input.tasks_of(tasks, frame.rows)
        groups, place = _input.groups_of(groups, frame.rows), _input.order_of(order, frame.rows)
        seed = _input.seed_of(self.random_state)
        large, small = _input.without_small(names, self.shots)
        if small:
            warnings.warn(small, UserWarning, stacklevel=2)
        rows = _input.parts_of(names[large], seed, self.validation, None if groups is None else groups[large])
        rows = {part: large[some] for part, some in rows.items()}
        treated = self._treated(frame, target, rows["train"])
        kept = np.intersect1d(treated.kept, large)
        treated._replace(kept=kept).check_tasks(names[large], large)
        usable = treated.frame.only(kept)
        rows = {part: np.flatnonzero(np.isin(kept, some)) for part, some in rows.items()}
        schema = self._schema(usable, rows["train"], target.shape[1:])
        place = None if place is None else place[kept]
        own = None if groups is None else groups[kept]
        parts = encode(schema, usable, names[kept], rows, place, self.support, own)  # type: ignore[arg-type]
        schema = dataclasses.replace(schema, typical=learn_typical(parts["train"]))
        experiment = self._experiment(schema, _input.shots_of(self.shots, parts), seed)
        table = Table(schema, {}, parts)
        self.model_, self.history_, self.coverage_ = fit_table(experiment, table, self.network, self._watch)
        self.n_tasks_ = len(set(names[large].tolist()))
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
        """The table with its targets as the last columns and its outliers treated, with a warning."""
        if self.missing not in ("refuse", "mean"):
            raise FewstepError(f"missing is {self.missing!r}. Known: mean, refuse.")
        own = target if target.ndim == 2 else target[:, None]
        y = dict(zip(_input.target_names(frame.columns, own.shape[1]), own.T, strict=True))
        treated = treat(
            frame._replace(columns=frame.columns | y), training, x=tuple(frame.columns),
            y=tuple(y) if is_regressor(self) else (), outliers=check_outliers(self.outliers),
            missing=self.missing,  # type: ignore[arg-type]
        )  # fmt: skip
        if treated.note:
            warnings.warn(treated.note, UserWarning, stacklevel=3)
        return treated

    def _schema(self, table: Frame, training: np.ndarray, targets: tuple[int, ...]) -> Schema:
        if self.unknown_categories not in ("refuse", "allow"):
            raise FewstepError(f"unknown_categories is {self.unknown_categories!r}. Known: allow, refuse.")
        count, names = (targets or (1,))[0], tuple(table.columns)
        x, y = names[: len(names) - count], names[len(names) - count :]
        features = learn_features(table, training, x, self.cyclic or {}, self.dates)
        target, *more = (self._target(name, table, training) for name in y)
        return Schema(
            None, features, target, self.missing, tuple(more), self.unknown_categories,  # type: ignore[arg-type]
        )  # fmt: skip

    def _experiment(self, schema: Schema, shots: int, seed: int) -> Experiment:
        """The experiment that `fewstep train` would make of the same table."""
        options: dict[str, Value] = {
            "seed": seed, "seeds": self.seeds, "shots": shots, "patience": self.patience or 0,
            "schema": schema.to_dict(), "missing": self.missing, "inner_steps": self.inner_steps,
            "support": self.support, "effort": self.effort, "refit": self.refit, "member_seeds": min(self.seeds, 2),
        }  # fmt: skip
        options |= {} if self.network else {"hidden": tuple(self.hidden)}
        for name in ("steps", "meta_batch", "inner_lr", "outer_lr"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        applies = {field.name for _, field in plan_of(self.method, IN_MEMORY, options).fields()}
        if self.steps is not None and "outer_lr" not in applies:
            raise FewstepError(
                f"steps is {self.steps} and does not apply to {self.method}, which is not trained by outer steps as a "
                "whole. Give effort, such as 0.5 for half the steps of each member, or another method."
            )
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

    **Arguments:** `method` any of fewstep's rules, chains and learners that predict numbers; the default `auto` trains
    several and combines them, with `effort` times the usual steps, and in the end on the held-out tasks too (`refit`);
    `shots` the rows a task is learned from in training; the inner steps and their
    size; the `hidden` layers of the perceptron, or a `network` of yours as `make(x, outputs)`; `seeds` trained
    together, which answer together; outer `steps` at most (3000 for most methods), `patience` validations without gain
    end them sooner; `meta_batch` tasks per step, and its size `outer_lr`: by default the method's own; `validation` the
    share of tasks held out, or the names of these tasks; `missing` refuses empty cells or takes the mean ("mean");
    `outliers` says what to do about values that cannot be measurements, such as 9999 for a missing one: "drop" leaves
    their rows out, "clip" takes the nearest other value, both with a warning, and "keep" does nothing; `support` learns
    a task from random rows of it, or from its "first" or "last" by the `order` given to fit; `cyclic` are columns that
    are cycles, with their periods, such as {"day": 365.25}; `dates` the parts of dates that are features ("days",
    "day-of-year", "weekday"); `unknown_categories` refuses a category of a new task that training never saw, or takes
    it as none of the known ("allow"), with a warning; `base`, "trees" or "FILE.py:FUNCTION", is a prediction from each
    row alone whose residual is learned; `verbose` reports each validation.

    Example::

        model = FewShotRegressor(shots=5).fit(X, y, tasks=child)
        this_child = model.adapt(X_new, y_new)
        this_child.predict(X_asked)
    """

    def adapt(self, X: TableLike, y: TableLike) -> AdaptedRegressor:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedRegressor(self).fit(X, y)

    def score(
        self, X: TableLike, y: TableLike, sample_weight: TableLike = None, tasks: TableLike = None,
        order: TableLike = None,
    ) -> float:  # fmt: skip
        """R². With `tasks`, each is learned from `shots` of its rows (by `order`, if `support` asks for it) and
        evaluated on its others, which is what few-shot learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotRegressor, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks, order)

    def _targets(self, y: TableLike, rows: int) -> np.ndarray:
        return _input.numbers_of(y, rows)

    def _target(self, name: str, table: Frame, training: np.ndarray) -> Column:
        return Column.learn(name, Cells("number", table.columns[name]), training)

    def _decode(self, adapted: Adaptation, X: TableLike) -> np.ndarray:
        return flat(self._columns.decode(self._mean(adapted, X)))


class FewShotClassifier(ClassifierMixin, FewShotEstimator):
    """Learns how to distinguish classes from a few rows. The arguments are those of `FewShotRegressor`.

    With an `encoder`, for sentences or photographs, it is an `EncodedClassifier`, whose arguments apply then.

    Example::

        model = FewShotClassifier(shots=10).fit(X, y, tasks=shop)
        model.adapt(X_new, y_new).predict_proba(X_asked)
        FewShotClassifier(encoder="minilm-l6").fit(sentences, labels).predict(["is it sunny outside"])
    """

    def __new__(cls, method: str = "auto", *, encoder: str = "", **options: Any) -> Any:
        if not encoder:
            return super().__new__(cls)
        return EncodedClassifier(encoder, method="metric" if method == "auto" else method, **options)

    def adapt(self, X: TableLike, y: TableLike) -> AdaptedClassifier:
        """Learns a new task from its rows; an ordinary fitted estimator."""
        check_is_fitted(self)
        return AdaptedClassifier(self).fit(X, y)

    def score(
        self, X: TableLike, y: TableLike, sample_weight: TableLike = None, tasks: TableLike = None,
        order: TableLike = None,
    ) -> float:  # fmt: skip
        """The accuracy. With `tasks`, each is learned from `shots` of its rows and evaluated on its others, which is
        what few-shot learning is for; without, before any row of a task is known."""
        plain = lambda: super(FewShotClassifier, self).score(X, y, sample_weight)
        return plain() if tasks is None else _input.score_by_task(self, X, y, sample_weight, tasks, order)

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
