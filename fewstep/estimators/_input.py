"""What the estimators are given: frames with columns of any kind, or arrays of numbers, as one table."""

import numbers
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from fewstep._errors import FewstepError
from fewstep.tables import (
    Frame,
    Outside,
    Rows,
    Schema,
    check_support,
    clamped,
    group_by_task,
    left_out,
    outside,
    read,
    read_cells,
    small_tasks,
)
from fewstep.tables import order_of as table_order

TARGET, TASK, ORDER = "y", "task", "order"
TableLike: TypeAlias = Any  # frames of any library, arrays, lists: whatever scikit-learn takes


def target_names(columns: Iterable[str], count: int = 1) -> tuple[str, ...]:
    """What targets are called among the features: y, or y1 and so on, unless one of them is."""
    columns, names = set(columns), []
    for number in range(count):
        name = TARGET if count == 1 else f"{TARGET}{number + 1}"
        while name in columns:
            name = f"target {name}"
        names.append(name)
    return tuple(names)


def frame_of(estimator: BaseEstimator, X: TableLike, *, reset: bool) -> Frame:
    """X as a table: a frame's own columns, or those of an array by number."""
    if hasattr(X, "columns"):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return read(X)._replace(name="X")
    empty: TableLike = "allow-nan" if getattr(estimator, "missing", "refuse") == "mean" else True
    fewest = 2 if reset else 1
    numbers = validate_data(estimator, X, reset=reset, dtype=float, ensure_min_samples=fewest, ensure_all_finite=empty)
    return Frame("X", {f"x{n}": numbers[:, n] for n in range(numbers.shape[1])})


def numbers_of(y: TableLike, rows: int) -> np.ndarray:
    """Targets of numbers, (rows, targets)."""
    if y is None:
        raise FewstepError("requires y to be passed, but the target y is None: it is what is learned.")
    wide = np.ndim(y) == 2 and np.shape(y)[1] > 1
    columns = np.asarray(y).T if wide else [column_or_1d(y, warn=True)]
    check_consistent_length(np.asarray(y), np.empty(rows))
    cells = [read_cells(Frame("y", {TARGET: np.asarray(each)}), TARGET, "number").values for each in columns]
    numbers = np.stack(cells, axis=1)
    if (strange := ~np.isfinite(numbers).all(1)).any():
        raise FewstepError(f"y contains NaN or infinity at row {int(np.flatnonzero(strange)[0])}.")
    return numbers


def labels_of(y: TableLike, rows: int) -> np.ndarray:
    """A target of classes, one for each row."""
    if y is None:
        raise FewstepError("requires y to be passed, but the target y is None: it is what is learned.")
    y = column_or_1d(y, warn=True)
    if len(y) != rows:
        raise FewstepError(f"X has {rows} rows and y has {len(y)}: inconsistent numbers of samples.")
    empty = np.asarray([label is None or label != label for label in y.tolist()], bool)
    if empty.any():
        raise FewstepError(
            f"y holds {y[empty][0]} at row {int(np.flatnonzero(empty)[0])}, which is not a class; {int(empty.sum())} "
            f"of {rows} rows have none (None or NaN). Leave these rows out."
        )
    return y


def rows_of(schema: Schema, frame: Frame, y: np.ndarray | None = None) -> tuple[np.ndarray, Outside]:
    """The encoded rows of a table, to be learned from if `y` is given, and how far each lies outside what the training
    tasks had; a warning reports those that lie far."""
    x = schema.unbounded(frame, strict=schema.unknown == "refuse")
    far = outside(schema, frame, x, y)
    for note in far.notes:
        warnings.warn(note, UserWarning, stacklevel=4)
    return clamped(x), far


def order_of(order: TableLike, rows: int) -> np.ndarray | None:
    """What each row is sorted by within its task: numbers or dates."""
    if order is None:
        return None
    frame = Frame("order", {ORDER: _each(order)})
    if frame.rows != rows:
        raise FewstepError(f"X has {rows} rows and order has {frame.rows}: inconsistent numbers of samples.")
    return table_order(frame, ORDER)


def groups_of(groups: TableLike, rows: int) -> np.ndarray | None:
    """The group of each row as text."""
    if groups is None:
        return None
    if isinstance(groups, str):
        raise FewstepError(f"groups is {groups!r}, one text. Give each row's group, such as groups=table[{groups!r}].")
    groups = _each(groups)
    if len(groups) != rows:
        raise FewstepError(f"X has {rows} rows and groups has {len(groups)}: inconsistent numbers of samples.")
    names = read_cells(Frame("groups", {TASK: groups}), TASK, "category").values
    if None in names:
        raise FewstepError("groups has empty entries. Give every row the name of its group.")
    return names


def without_small(names: np.ndarray, shots: int) -> tuple[np.ndarray, str]:
    """The rows of the tasks that have enough to learn from and one more, and a remark on the others; all, if there is
    one task, or too few would be left."""
    tasks, small = set(names.tolist()), small_tasks(names, shots + 1)
    if not small or len(tasks) == 1 or len(tasks) - len(small) < 2:
        return np.arange(len(names)), ""
    rows = np.flatnonzero(~np.isin(names.astype(str), list(small)))
    return rows, left_out(small, len(tasks), shots + 1)


def tasks_of(tasks: TableLike, rows: int) -> np.ndarray:
    """The task of each row as text; without tasks, one, with a warning."""
    if tasks is None:
        warnings.warn(
            "No tasks are given, so all rows are one task: there are no others to learn from how to learn. Give "
            "fit(X, y, tasks) the task of each row.", UserWarning, stacklevel=4,
        )  # fmt: skip
        return np.full(rows, "all", object)
    if isinstance(tasks, str):
        raise FewstepError(f"tasks is {tasks!r}, one text. Give the task of each row, such as tasks=table[{tasks!r}].")
    tasks = _each(tasks)
    if len(tasks) != rows:
        raise FewstepError(f"X has {rows} rows and tasks has {len(tasks)}: inconsistent numbers of samples.")
    return read_cells(Frame("tasks", {TASK: tasks}), TASK, "category").values


def as_given(tasks: TableLike, names: np.ndarray, some: Iterable[str]) -> tuple[object, ...]:
    """Some tasks as the user called them, where `names` are their texts."""
    if tasks is None:
        return tuple(some)
    called = dict(zip(names.tolist(), _each(tasks).tolist(), strict=True))
    return tuple(called[name] for name in some)


def _each(tasks: TableLike) -> np.ndarray:
    """One entry per row, whatever it is; tuples stay tuples."""
    cells = tasks.tolist() if hasattr(tasks, "tolist") else list(tasks)
    entries = np.empty(len(cells), object)
    entries[:] = cells
    return entries


def score_by_task(
    model: Any, X: TableLike, y: TableLike, sample_weight: TableLike, tasks: TableLike, order: TableLike = None
) -> float:
    """The score of all rows but those that their tasks were learned from, of a model that has been fitted."""
    if sample_weight is not None:
        raise FewstepError("sample_weight does not apply where tasks are given. Leave it out.")
    check_support(model.support, order)
    names, y, place = tasks_of(tasks, len(y)), np.asarray(y), order_of(order, len(y))
    rng, rows = np.random.default_rng(0), np.arange(len(y))
    take = (lambda some: X.iloc[some]) if hasattr(X, "iloc") else (lambda some: X[some])
    shots, predictions, true, small = model.model_.experiment.shots, [], [], {}
    for name in dict.fromkeys(names.tolist()):
        own = rng.permutation(rows[names == name])
        if place is not None:
            own = own[np.argsort(place[own], kind="stable")]
            own = own[::-1] if model.support == "last" else own
        if len(own) <= shots:
            small[name] = len(own)
            continue
        predictions.append(model.adapt(take(own[:shots]), y[own[:shots]]).predict(take(own[shots:])))
        true.append(y[own[shots:]])
    if not true:
        raise FewstepError(f"No task has more than {shots} rows (shots), which it takes to learn one and be evaluated.")
    if small:
        warnings.warn(left_out(small, len(true) + len(small), shots + 1), UserWarning, stacklevel=3)
    score = accuracy_score if hasattr(model, "classes_") else r2_score
    return float(score(np.concatenate(true), np.concatenate(predictions)))


def seed_of(random_state: TableLike) -> int:
    """A whole number as it is; else one that the random state draws."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def parts_of(
    names: np.ndarray, seed: int, validation: float | Sequence[object], groups: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """The rows of the training and of the validation tasks, whole `groups` of them; with fewer than three tasks or
    groups, all for both."""
    if None in names:
        raise FewstepError("tasks has empty entries. Give every row the name of its task.")
    if groups is not None:
        group_by_task(names, groups)
        names = groups
    tasks, everything = sorted(set(names.tolist())), np.arange(len(names))
    what = "tasks" if groups is None else "groups"
    if not isinstance(validation, float | int):
        held_out = {str(name) for name in validation}
        if not held_out or not held_out < set(tasks):
            raise FewstepError(f"validation names {len(held_out)} {what}. Give some of those in `{what}`, but not all.")
    elif not 0 < validation < 0.5:
        raise FewstepError(f"validation is {validation}. It must be above 0 and below 0.5, such as 0.15.")
    elif len(tasks) < 3:
        return {"train": everything, "validation": everything}
    else:
        count = min(max(1, round(validation * len(tasks))), len(tasks) - 2)
        held_out = {tasks[n] for n in np.random.default_rng(seed).permutation(len(tasks))[:count]}
    inside = np.asarray([name in held_out for name in names.tolist()], bool)
    return {"train": everything[~inside], "validation": everything[inside]}


def shots_of(shots: int, parts: dict[str, Rows]) -> int:
    """The rows a task is learned from, at most as many as leave one to be evaluated on in the smallest task."""
    smallest = min(int(rows.counts.min()) for rows in parts.values())
    if smallest < 2:
        raise FewstepError(
            "The smallest task has 1 sample (n_samples=1 there): it needs one to learn from and one to be evaluated "
            "on. Leave such tasks out."
        )
    names = {name for rows in parts.values() for name in rows.names}
    if len(names) == 1:
        return min(shots, smallest // 2)
    few = [name for rows in parts.values() for name, n in zip(rows.names, rows.counts, strict=True) if n <= shots]
    if few:
        raise FewstepError(
            f"{len(set(few))} of {len(names)} tasks have fewer than {shots + 1} rows, {shots} to learn from (shots) "
            f"and one to be evaluated on, such as {few[0]!r}; the smallest has {smallest}. Use shots={smallest - 1}, "
            "or leave these tasks out."
        )
    return shots
