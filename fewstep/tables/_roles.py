"""What a user says of a table: the columns' roles, and what to do about what is missing, far off, or unknown."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from fewstep._errors import FewstepError
from fewstep.tables._column import Missing
from fewstep.tables._dates import DateOrder
from fewstep.tables._features import Cyclic, periods
from fewstep.tables._outliers import Outliers

Unknown = Literal["refuse", "allow"]
Support = Literal["random", "first", "last"]


class Roles(NamedTuple):
    """What a user says of a table.

    - `task`, `x`, `y` are the columns' roles; `y` may name several targets of numbers;
    - `classify` takes numbers as classes, `categories` are columns of x that are such though they look like numbers;
    - `missing`, `outliers` and `unknown_categories` say what becomes of cells that are empty, far off, or new;
    - `group` is the column that tasks are held out together by;
    - `support` says which rows of a task are learned from: random ones, or the first or last by the column `order`;
    - `cyclic` are columns of x with their periods, `dates` the parts of dates that are features, and `date_order` says
      how dates such as 03/04/2024 are read.
    """

    task: str | None
    x: tuple[str, ...]
    y: str | tuple[str, ...]
    classify: bool | None = None
    missing: Missing = "refuse"
    categories: tuple[str, ...] = ()
    outliers: Outliers = "drop"
    group: str | None = None
    support: Support = "random"
    order: str | None = None
    cyclic: Cyclic = ()
    dates: Sequence[str] = ("days",)
    date_order: DateOrder = ""
    unknown_categories: Unknown = "refuse"

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns to predict."""
        return (self.y,) if isinstance(self.y, str) else tuple(self.y)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, the task first."""
        some = (self.task, *self.x, *self.targets, self.group, self.order)
        return tuple(dict.fromkeys(name for name in some if name is not None))


def check_roles(roles: Roles) -> None:
    """Raises `FewstepError` where roles contradict each other."""
    task, x, targets = roles.task, roles.x, roles.targets
    if not x:
        raise FewstepError("No columns are given to predict from. Name some in `x`.")
    for name, some in (("x", x), ("y", targets)):
        if twice := [column for column in dict.fromkeys(some) if list(some).count(column) > 1]:
            raise FewstepError(f"The column {twice[0]!r} is named twice in `{name}`. Name it once.")
    both = next((name for name in targets if name in x or name == task), task if task in x else None)
    if both is not None:
        raise FewstepError(
            f"The column {both!r} has two roles. The task's name, the target and the features are different columns: "
            f"`task` is {task}, `x` is {' '.join(x)}, `y` is {' '.join(targets)}."
        )
    for name, column in (("group", roles.group), ("order", roles.order)):
        if column in targets:
            raise FewstepError(f"The column {column!r} has two roles: `{name}` and `y`. Name another column.")
    for name in roles.categories:
        if name not in x:
            raise FewstepError(f"`categories` names {name!r}, which is not in `x`: {' '.join(x)}.")
    periods(roles.cyclic, x)
    check_support(roles.support, roles.order)


def check_support(support: str, order: object) -> None:
    """Raises `FewstepError` unless an order is given just where it is needed."""
    if support not in ("random", "first", "last"):
        raise FewstepError(f"`support` is {support!r}. Known: first, last, random.")
    if support != "random" and order is None:
        raise FewstepError(f"`support='{support}'` needs `order`: what the rows of a task are sorted by.")
    if support == "random" and order is not None:
        raise FewstepError(
            "`order` does not apply to `support='random'`. Leave it out, or use `support='first'` to learn a task "
            "from its first rows."
        )
