"""What a model knows of its table: which column names the task, what goes in, what comes out, and in which unit."""

import dataclasses

import numpy as np

from fewstep._errors import FewstepError
from fewstep.files import JSON
from fewstep.tables._cells import empty_cells, read_cells
from fewstep.tables._column import FARTHEST, Column, Missing
from fewstep.tables._features import learn_features
from fewstep.tables._frame import Frame
from fewstep.tables._roles import Roles, Unknown, check_roles
from fewstep.tables._typical import Typical


@dataclasses.dataclass(frozen=True)
class Schema:
    """The columns of a table as a network sees them, learned from the training tasks only.

    `more` are targets beside the first one, `unknown` says what becomes of a category that training never saw, and
    `typical` is what the training tasks' targets look like beside their features. A row is not learned from if its
    target lies more than `credible` of training's range outside that range.
    """

    task: str | None
    features: tuple[Column, ...]
    target: Column
    missing: Missing = "refuse"
    more: tuple[Column, ...] = ()
    unknown: Unknown = "refuse"
    typical: Typical | None = None
    credible: float | None = None

    @property
    def targets(self) -> tuple[Column, ...]:
        """The columns that are predicted."""
        return (self.target, *self.more)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the target; none for numbers."""
        return self.target.categories

    @property
    def widths(self) -> tuple[int, int]:
        """The numbers of a row of x, and of what is predicted."""
        return sum(column.width for column in self.features), len(self.classes) or len(self.targets)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of x."""
        return tuple(dict.fromkeys(column.name for column in self.features))

    @property
    def places(self) -> tuple[int, ...]:
        """Where each feature begins among the numbers of a row of x."""
        return tuple(np.cumsum([0, *(column.width for column in self.features[:-1])]).tolist())

    @property
    def limits(self) -> np.ndarray:
        """The ends between which each target is learned from, (2, targets)."""
        low, high = np.asarray([target.ends for target in self.targets]).T
        far = np.inf if self.credible is None else self.credible * (high - low)
        return np.stack([low - far, high + far])

    def ignored(self, y: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """Which rows are not learned from, by their targets as `y` gives them; all of a task, if several and more than
        a quarter of its targets are not credible: in another unit, those that happen to be are as wrong."""
        if self.classes or self.credible is None:
            return np.zeros(len(y), bool)
        low, high = self.limits
        far = ((y < low) | (y > high)).any(1)
        for task in set(tasks[far].tolist()):
            own = tasks == task
            if (count := int(far[own].sum())) > 1 and 4 * count > own.sum():
                far = far | own
        return far

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
        """The targets of each row: columns of standardized numbers, or the numbers of the classes."""
        for target in self.targets:
            if target.name not in frame.columns:
                raise FewstepError(
                    f"{frame.name} has no column {target.name!r}, which is what the model learns. It has: "
                    f"{', '.join(frame.columns)}."
                )
        if self.classes:
            return self.target.codes(frame)
        parts = [target.encode(frame, missing="refuse", strict=True) for target in self.targets]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Numbers of shape (rows, targets) in the user's units."""
        values = np.asarray(values, float)
        return values * [target.scale for target in self.targets] + [target.mean for target in self.targets]

    def to_dict(self) -> dict[str, JSON]:
        """For JSON."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(fields: dict[str, JSON]) -> "Schema":
        """What `to_dict` gave."""
        column = lambda of: Column(**(of | {"categories": tuple(of["categories"])}))
        columns = lambda name: tuple(column(of) for of in fields.get(name, ()))
        typical = Typical.from_dict(fields["typical"]) if fields.get("typical") else None
        return Schema(
            fields["task"], columns("features"), column(fields["target"]), fields["missing"], columns("more"),
            fields.get("unknown", "refuse"), typical, fields.get("credible"),
        )  # fmt: skip


def clamped(x: np.ndarray) -> np.ndarray:
    """Standardized features as the network gets them."""
    return np.clip(x, -FARTHEST, FARTHEST).astype(np.float32)


def learn_schema(frame: Frame, rows: np.ndarray, roles: Roles) -> Schema:
    """The schema of a table, from these of its rows: those of the training tasks.

    A target of text is classified; one of numbers only if `classify` says so.
    """
    check_roles(roles)
    features = learn_features(frame, rows, roles.x, roles.cyclic, roles.dates)
    target, *more = (_learn_target(frame, rows, name, roles) for name in roles.targets)
    return Schema(roles.task, features, target, roles.missing, tuple(more), roles.unknown_categories)


def _learn_target(frame: Frame, rows: np.ndarray, y: str, roles: Roles) -> Column:
    cells = read_cells(frame, y, "category" if roles.classify else None)
    if cells.is_date:
        raise FewstepError(f"The target {y!r} holds dates. Turn them into numbers first, such as days since an event.")
    if roles.classify is False and cells.is_category:
        raise FewstepError(f"The target {y!r} holds text, such as {cells.values[0]!r}, and regression needs numbers.")
    if len(roles.targets) > 1 and cells.is_category:
        raise FewstepError(
            f"`y` names {len(roles.targets)} targets, and {y!r} holds classes. Several targets are numbers; train a "
            f"run of its own for {y!r}."
        )
    # A class that only a held-out task has is a class all the same; a number's scale is that of the training tasks.
    target = Column.learn(y, cells, np.arange(frame.rows) if cells.is_category else rows)
    there = cells.values[rows][~empty_cells(cells)[rows]]
    if len(set(there.tolist())) < 2:
        raise FewstepError(f"The target {y!r} is {there[0]} in every training task: there is nothing to learn.")
    return target
