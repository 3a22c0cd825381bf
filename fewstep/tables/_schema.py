"""What a model knows of its table: which column names the task, what goes in, what comes out, and in which unit."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.tables._column import FARTHEST, Column, Missing, empty_cells, read_cells
from fewstep.tables._frame import Frame


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table as a network sees them, learned from the training tasks only."""

    task: str | None
    features: tuple[Column, ...]
    target: Column
    missing: Missing = "refuse"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the target; none for numbers."""
        return self.target.categories

    @property
    def widths(self) -> tuple[int, int]:
        """The numbers of a row of x, and of what is predicted."""
        return sum(column.width for column in self.features), len(self.classes) or 1

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of x."""
        return tuple(column.name for column in self.features)

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of each number of a row of x in training; a category has none."""
        ends = [
            (-np.inf, np.inf) if column.kind == "category" else column.ends
            for column in self.features for _ in range(column.width)
        ]  # fmt: skip
        return tuple(np.asarray(ends).T)

    def x(self, frame: Frame, *, strict: bool = True) -> np.ndarray:
        """The features of each row, standardized; a number beyond five deviations is taken as five."""
        return clamped(self.unbounded(frame, strict=strict))

    def unbounded(self, frame: Frame, *, strict: bool = True) -> np.ndarray:
        """The features of each row, standardized, however far they lie."""
        for name in self.names:
            if name not in frame.columns:
                raise FewstepError(
                    f"{frame.name} has no column {name!r}, which the model was trained with. It has: "
                    f"{', '.join(frame.columns)}."
                )
        parts = [column.encode(frame, missing=self.missing, strict=strict) for column in self.features]
        return np.concatenate(parts, axis=1)

    def y(self, frame: Frame) -> np.ndarray:
        """The target of each row: a column of standardized numbers, or the numbers of the classes."""
        if self.target.name not in frame.columns:
            raise FewstepError(
                f"{frame.name} has no column {self.target.name!r}, which is what the model learns. It has: "
                f"{', '.join(frame.columns)}."
            )
        if self.classes:
            return self.target.codes(frame)
        return self.target.encode(frame, missing="refuse", strict=True).astype(np.float32)

    def to_dict(self) -> dict[str, JSON]:
        """For JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, JSON]) -> "Schema":
        """What `to_dict` gave."""
        column = lambda of: Column(**(of | {"categories": tuple(of["categories"])}))
        features = tuple(column(of) for of in fields["features"])
        return Schema(fields["task"], features, column(fields["target"]), fields["missing"])


def clamped(x: np.ndarray) -> np.ndarray:
    """Standardized features as the network gets them."""
    return np.clip(x, -FARTHEST, FARTHEST).astype(np.float32)


def learn_schema(
    frame: Frame,
    rows: np.ndarray,
    *,
    task: str | None,
    x: Sequence[str],
    y: str,
    classify: bool | None = None,
    missing: Missing = "refuse",
) -> Schema:
    """The schema of a table, from these of its rows: those of the training tasks.

    A target of text is classified; one of numbers only if `classify` says so.
    """
    _check_roles(task, x, y)
    features = tuple(Column.learn(name, read_cells(frame, name), rows) for name in x)
    cells = read_cells(frame, y, "category" if classify else None)
    if cells.kind == "date":
        raise FewstepError(f"The target {y!r} holds dates. Turn them into numbers first, such as days since an event.")
    if classify is False and cells.kind == "category":
        raise FewstepError(f"The target {y!r} holds text, such as {cells.values[0]!r}, and regression needs numbers.")
    # A class that only a held-out task has is a class all the same; a number's scale is that of the training tasks.
    target = Column.learn(y, cells, np.arange(frame.rows) if cells.kind == "category" else rows)
    there = cells.values[rows][~empty_cells(cells)[rows]]
    if len(set(there.tolist())) < 2:
        raise FewstepError(f"The target {y!r} is {there[0]} in every training task: there is nothing to learn.")
    return Schema(task, features, target, missing)


def _check_roles(task: str | None, x: Sequence[str], y: str) -> None:
    if not x:
        raise FewstepError("No columns are given to predict from. Name some in `x`.")
    if twice := [name for name in dict.fromkeys(x) if list(x).count(name) > 1]:
        raise FewstepError(f"The column {twice[0]!r} is named twice in `x`. Name it once.")
    if y in x or task in x or task == y:
        both = y if y in x or task == y else task
        raise FewstepError(
            f"The column {both!r} has two roles. The task's name, the target and the features are different columns: "
            f"`task` is {task}, `x` is {' '.join(x)}, `y` is {y}."
        )
