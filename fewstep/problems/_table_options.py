"""The options of the tasks of a table."""

import dataclasses
from typing import Literal

from fewstep._errors import FewstepError
from fewstep.problems._options import Value, option
from fewstep.tables import Roles


@dataclasses.dataclass(frozen=True)
class TableOptions:
    """The options of the tasks of a table."""

    task: str = option("", "Column that names the task a row belongs to: the child, the station, the shop.")
    x: tuple[str, ...] = option((), "Columns to predict from: numbers, ISO dates (as days), or text (as categories).")
    y: tuple[str, ...] = option((), "Column to predict: numbers, or text for classes; or several of numbers.")
    shots: int = option(5, "Rows of a task that are learned from.", min=1)
    min_shots: int = option(5, "Draw in training how many rows are learned from, between this and --shots.", min=1)
    queries: int = option(20, "Rows of a task that it is evaluated on.", min=1)
    categories: tuple[str, ...] = option((), "Columns of --x that are categories though they look like numbers.")
    classify: bool = option(False, "Take a target of numbers as classes.")
    missing: Literal["refuse", "mean"] = option(
        "refuse", "What to do about empty cells: refuse them, or take the mean of the training tasks for a feature, "
        "and leave rows without a target out.",
    )  # fmt: skip
    outliers: Literal["drop", "clip", "keep"] = option(
        "drop", "What to do about values that cannot be measurements, such as 9999 for a missing one: leave their rows "
        "out (drop), take the nearest other value (clip), or nothing (keep). The first two are reported.",
    )  # fmt: skip
    split_seed: int = option(0, "Seed of the split of the tasks, 65 : 15 : 20 of a hundred.", min=0)
    group: str = option("", "Column of groups that are held out with all of their tasks: the station of station-years.")
    test_tasks: tuple[str, ...] = option(
        (), "Tasks to test on (with --group, groups); the others are for training and validation."
    )  # fmt: skip
    folds: int = option(0, "Split the tasks (or groups) into so many folds, one of which is the test (0: none).", min=0)
    fold: int = option(1, "Which of the --folds is the test, counted from 1.", min=1)
    support: Literal["random", "first", "last"] = option(
        "random", "Rows of a task that are learned from: random ones, or the first or last by --order. The others, "
        "later or earlier, are predicted.",
    )  # fmt: skip
    order: str = option("", "Column that the rows of a task are sorted by for --support: numbers or dates.")
    cyclic: tuple[str, ...] = option(
        (), "Columns of --x that are cycles, with their periods, such as day=365.25: sine and cosine are learned from."
    )  # fmt: skip
    dates: tuple[str, ...] = option(
        ("days",), "What of a date is learned from: days (since 1970), day-of-year (a cycle), weekday (categories)."
    )  # fmt: skip
    date_order: Literal["", "day-first", "month-first"] = option(
        "", "How dates such as 03/04/2024 are read where no row of the column shows it: day-first or month-first.",
    )  # fmt: skip
    base: str = option(
        "", "A prediction from each row alone, whose residual is learned: trees, or FILE.py:FUNCTION, which makes an "
        "estimator of scikit-learn.",
    )  # fmt: skip
    unknown_categories: Literal["refuse", "allow"] = option(
        "refuse", "What to do, when a new task is learned, about a category that training never saw: refuse it, or "
        "take it as none of the known (allow), with a warning.",
    )  # fmt: skip
    classes: dict[str, tuple[str, ...]] = option({}, "The tasks of each split, as drawn for the run.", hidden=True)
    schema: dict[str, Value] = option({}, "The columns as the training tasks have them.", hidden=True)
    fitted_base: dict[str, Value] = option({}, "The base, fitted to the training tasks.", hidden=True)
    all_tasks: bool = option(False, "Train on the validation tasks too.", hidden=True)
    source: dict[str, Value] = option({}, "Where the table was, its rows, and a digest of them.", hidden=True)


def roles_of(options: TableOptions) -> Roles:
    """What the options say of a table."""
    if options.fold > 1 and not options.folds:
        raise FewstepError(f"`fold` is {options.fold}, and `folds` is not given. Give both, such as `folds=5`.")
    return Roles(
        options.task, options.x, options.y, options.classify or None, options.missing, options.categories,
        options.outliers, options.group or None, options.support, options.order or None, options.cyclic, options.dates,
        options.date_order, options.unknown_categories,
    )  # fmt: skip
