"""Which tasks are for training, validation and test: drawn, named, or in folds; groups of tasks stay together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fewstep._errors import FewstepError, unknown

SPLITS = ("train", "validation", "test")
Split = Mapping[str, Sequence[str]]


class Draw(NamedTuple):
    """How tasks are split: by a seed; with the test tasks, or groups, named; or fold number `fold` of `folds` as the
    test. `parts` are those of validation and test without either."""

    seed: int = 0
    test: tuple[str, ...] = ()
    folds: int = 0
    fold: int = 1
    parts: tuple[float, float] = (0.15, 0.2)


def split_tasks(names: ArrayLike, draw: Draw | int, groups: ArrayLike | None = None) -> dict[str, tuple[str, ...]]:
    """Tasks split into training, validation and test, whole groups at a time where each row has one."""
    draw = draw if isinstance(draw, Draw) else Draw(draw)
    names = np.asarray(names, object)
    group_of = {name: name for name in set(names.tolist())} if groups is None else group_by_task(names, groups)
    units = sorted(set(group_of.values()))
    what = "tasks" if groups is None else "groups"
    test = _test_units(units, draw, what, group_of)
    held_out = set(test)
    rest = [units[n] for n in np.random.default_rng(draw.seed).permutation(len(units)) if units[n] not in held_out]
    share = draw.parts[0] / (1 - draw.parts[1]) * len(rest) if draw.test or draw.folds else draw.parts[0] * len(units)
    validation = max(1, round(share))
    chosen = {"train": rest[: len(rest) - validation], "validation": rest[len(rest) - validation :], "test": test}
    part_of = {unit: part for part, some in chosen.items() for unit in some}
    split = {part: tuple(sorted(name for name, unit in group_of.items() if part_of[unit] == part)) for part in SPLITS}
    if len(split["train"]) < 2 or not all(split.values()):
        raise _too_few(units, group_of, what)
    return split


def group_by_task(names: np.ndarray, groups: ArrayLike) -> dict[str, str]:
    """The group of each task. Raises `FewstepError` if a task has rows in two."""
    group_of: dict[str, str] = {}
    for name, group in zip(names.tolist(), np.asarray(groups, object).tolist(), strict=True):
        if group_of.setdefault(name, group) != group:
            raise FewstepError(
                f"The task {name!r} has rows in two groups, {group_of[name]!r} and {group!r}. A group is held out with "
                "all of its tasks, so each task belongs to one. Correct the column, or name a task by both columns."
            )
    return group_of


def _test_units(units: list[str], draw: Draw, what: str, group_of: Mapping[str, str]) -> list[str]:
    """The tasks or groups to test on."""
    if draw.test and draw.folds:
        raise FewstepError("`test_tasks` and `folds` are both given. Keep one.")
    for name in draw.test:
        if name not in units:
            if name in group_of:
                raise FewstepError(
                    f"`test_tasks` names the task {name!r}. With `group`, name whole groups, {group_of[name]!r} for it."
                )
            raise unknown(f"{what[:-1]} in `test_tasks`", name, units)
    order = [units[n] for n in np.random.default_rng(draw.seed).permutation(len(units))]
    if draw.test:
        return list(dict.fromkeys(draw.test))
    if not draw.folds:
        sizes = [max(1, round(part * len(units))) for part in draw.parts]
        if len(units) - sum(sizes) < (2 if what == "tasks" else 1):
            raise _too_few(units, group_of, what)
        return order[len(order) - sizes[1] :]
    if not 2 <= draw.folds <= len(units):
        raise FewstepError(f"`folds` is {draw.folds}. It must be at least 2, and at most the {len(units)} {what}.")
    if not 1 <= draw.fold <= draw.folds:
        raise FewstepError(f"`fold` is {draw.fold}. Folds are counted from 1 to `folds`, {draw.folds}.")
    return order[draw.fold - 1 :: draw.folds]


def _too_few(units: list[str], group_of: Mapping[str, str], what: str) -> FewstepError:
    if what == "tasks":
        return FewstepError(
            f"The table has {len(units)} tasks ({', '.join(map(str, units[:5]))}). Learning to learn takes at least 4: "
            "two to learn from, one to validate on and one to be evaluated on. Does the right column name the task?"
        )
    return FewstepError(
        f"The table has {len(units)} groups ({', '.join(map(str, units[:5]))}) with {len(group_of)} tasks. It takes at "
        "least 3: one with at least two tasks to learn from, one to validate on and one to be evaluated on. Does the "
        "right column name the group?"
    )
