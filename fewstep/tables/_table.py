"""A table made ready: split by task, its schema learned from the training tasks, and all of it encoded."""

import dataclasses
import hashlib
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._cells import empty_cells, read_cells
from fewstep.tables._frame import Frame
from fewstep.tables._outliers import Treated, treat
from fewstep.tables._roles import Roles, check_roles, check_support
from fewstep.tables._rows import Rows, encode, left_out, order_of, small_tasks
from fewstep.tables._schema import Schema, learn_schema
from fewstep.tables._split import Draw, Split, split_tasks
from fewstep.tables._suggest import suggest_cycles
from fewstep.tables._typical import learn_typical

_FEWEST = 4  # tasks: two to learn from, one to validate on and one to be evaluated on


class Table(NamedTuple):
    """A table made ready: its schema, its split, and the encoded rows of each part; `note` reports rows left out and
    of outliers, and `digest` is another when any cell of these tasks is."""

    schema: Schema
    split: dict[str, tuple[str, ...]]
    parts: dict[str, Rows]
    note: str = ""
    digest: str = ""

    @property
    def rows(self) -> int:
        """How many rows its tasks have together."""
        return sum(int(part.counts.sum()) for part in self.parts.values())


def make_table(
    frame: Frame,
    roles: Roles,
    *,
    split: Split | None = None,
    split_seed: int = 0,
    draw: Draw | None = None,
    min_rows: int = 1,
    schema: Schema | None = None,
) -> Table:
    """Splits a table by task, learns its schema from the training tasks, and encodes all of it.

    A split or schema that is given stays as it is: it is that of the run which was begun with it. Tasks with fewer than
    `min_rows` rows are left out before a split is drawn by `draw`, and so are those that outliers leave with fewer.
    """
    check_roles(roles)
    check_support(roles.support, roles.order)
    frame, note = _with_targets(_declared(frame, roles), roles)
    names = task_names(frame, roles.task)
    if split:
        usable = _usable(frame, names, roles, _check_split(split, frame, names))
        usable.treated.check_tasks(usable.names)
        return _encoded(usable, roles, schema, [note])
    notes, tasks, small = [note], len(set(names.tolist())), small_tasks(names, min_rows)
    if small:
        notes.append(left_out(small, tasks, min_rows))
        large = np.flatnonzero(~np.isin(names.astype(str), list(small)))
        frame, names = frame.only(large), names[large]
    groups = None if roles.group is None else task_names(frame, roles.group, "`group`")
    try:
        split = split_tasks(names, draw or Draw(split_seed), groups)
    except FewstepError as error:
        raise _too_small(small, names, min_rows, error) if small else error from None
    usable = _usable(frame, names, roles, split)
    while min_rows > 1 and (few := usable.small(min_rows)):
        notes.append(f"{usable.treated.note} {left_out(few, tasks, min_rows, ' then')}")
        usable = _usable(frame, names, roles, _without(usable.split, few))  # others may be outliers now
    usable.treated.check_tasks(usable.names)
    return _encoded(usable, roles, schema, notes)


def _too_small(small: dict[str, int], names: np.ndarray, min_rows: int, error: FewstepError) -> FewstepError:
    """The error where too few tasks are left once small ones are not counted."""
    left = np.unique(names.astype(str), return_counts=True)[1].tolist()
    sizes = sorted([*small.values(), *left], reverse=True)
    if len(left) >= _FEWEST:
        return FewstepError(f"{left_out(small, len(sizes), min_rows)} {error}")
    fix = f"Use `shots={sizes[_FEWEST - 1] - 1}`, or give" if len(sizes) >= _FEWEST and sizes[3] > 1 else "Give"
    return FewstepError(
        f"{len(small)} of {len(sizes)} tasks have fewer than {min_rows} rows, {min_rows - 1} to learn from (`shots`) "
        f"and one to be evaluated on, and {len(left)} are left, of at least {_FEWEST} that it takes. {fix} tasks with "
        "more rows."
    )


def _without(split: Split, gone: dict[str, int]) -> Split:
    """A split without some tasks. Raises `FewstepError` if that leaves too few."""
    rest = {part: tuple(name for name in tasks if name not in gone) for part, tasks in split.items()}
    for part, least in (("train", 2), ("validation", 1), ("test", 1)):
        if len(rest[part]) < least:
            raise FewstepError(
                f"Without outliers {', '.join(map(repr, gone))} have too few rows, and {len(rest[part])} {part} tasks "
                f"are left, of {least} that are needed. Use `outliers='clip'` or `outliers='keep'`."
            )
    return rest


class _Usable(NamedTuple):
    """The rows of the tasks in a split, the names of their tasks, and which are left once outliers are treated."""

    split: dict[str, tuple[str, ...]]
    names: np.ndarray
    treated: Treated
    digest: str

    def small(self, min_rows: int) -> dict[str, int]:
        """The tasks with fewer rows left, and how many these are."""
        gone = set(self.names.tolist()) - set(self.names[self.treated.kept].tolist())
        return small_tasks(self.names[self.treated.kept], min_rows) | dict.fromkeys(sorted(gone), 0)


def _usable(frame: Frame, names: np.ndarray, roles: Roles, split: Split) -> _Usable:
    # Tasks that came into the table later change nothing, also not what counts as an outlier.
    inside = np.flatnonzero(np.isin(names, np.asarray([name for tasks in split.values() for name in tasks], object)))
    frame, names = frame.only(inside), names[inside]
    training = np.flatnonzero(np.isin(names, np.asarray(split["train"], object)))
    y = () if roles.classify else roles.targets
    treated = treat(frame, training, x=roles.x, y=y, missing=roles.missing, outliers=roles.outliers)
    return _Usable({part: tuple(tasks) for part, tasks in split.items()}, names, treated, _digest(frame, roles))


def _encoded(usable: _Usable, roles: Roles, schema: Schema | None, notes: list[str]) -> Table:
    """The table with its schema, which is learned unless one is given."""
    frame, names = usable.treated.frame.only(usable.treated.kept), usable.names[usable.treated.kept]
    where = {part: np.flatnonzero(np.isin(names, np.asarray(tasks, object))) for part, tasks in usable.split.items()}
    own = learn_schema(frame, where["train"], roles) if schema is None else schema
    groups = None if roles.group is None else task_names(frame, roles.group, "`group`")
    parts = encode(own, frame, names, where, order_of(frame, roles.order), roles.support, groups)
    if schema is None:
        own = dataclasses.replace(own, typical=learn_typical(parts["train"]))
    ideas = "" if schema is not None else suggest_cycles(frame.only(where["train"]), own, names[where["train"]])
    note = " ".join(filter(None, [*notes, usable.treated.note, ideas]))
    return Table(own, usable.split, parts, note, usable.digest)


def _digest(frame: Frame, roles: Roles) -> str:
    """A short text that stands for all cells of the columns that are used."""
    digest = hashlib.blake2b(digest_size=16)
    for name in roles.columns:
        digest.update("\x1f".join(map(str, [name, *frame.columns[name].tolist()])).encode())
    return digest.hexdigest()


def _declared(frame: Frame, roles: Roles) -> Frame:
    """The table with the columns that the user calls categories taken as such."""
    return frame._replace(categories=frame.categories | set(roles.categories), date_order=roles.date_order)


def task_names(frame: Frame, task: str | None, what: str = "which names the task") -> np.ndarray:
    """The task that each row belongs to, as text; without a column, all to one."""
    if task is None:
        return np.full(frame.rows, "all", object)
    cells = read_cells(frame, task, "category")
    if (empty := empty_cells(cells)).any():
        raise FewstepError(
            f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {task!r}, {what}; "
            f"{int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out."
        )
    return cells.values


def _with_targets(frame: Frame, roles: Roles) -> tuple[Frame, str]:
    """The table without the rows that lack a target, where missing cells are filled, and how many these are; else they
    are refused."""
    notes = []
    for name in roles.targets:
        empty = empty_cells(read_cells(frame, name, "category" if roles.classify else None))
        if not empty.any():
            continue
        if roles.missing == "refuse" or empty.all():
            raise FewstepError(
                f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the target {name!r}; {int(empty.sum())} "
                f"of {frame.rows} rows lack it. Leave these rows out, or let `missing='mean'` do so."
            )
        notes.append(f"{int(empty.sum())} of {frame.rows} rows of {frame.name} have no {name} and are left out.")
        frame = frame.only(np.flatnonzero(~empty))
    return frame, " ".join(notes)


def _check_split(split: Split, frame: Frame, names: np.ndarray) -> dict[str, tuple[str, ...]]:
    there = set(names.tolist())
    if gone := [name for part in split.values() for name in part if name not in there]:
        raise FewstepError(
            f"{frame.name} no longer has the task {gone[0]!r} that the run was made with ({len(gone)} are gone). Bring "
            "the table back as it was, or train a new run."
        )
    return {part: tuple(tasks) for part, tasks in split.items()}
