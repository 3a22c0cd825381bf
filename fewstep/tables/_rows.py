"""Encoded rows, task after task, and which tasks have enough of them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from fewstep._errors import FewstepError
from fewstep.tables._cells import empty_cells, read_cells
from fewstep.tables._frame import Frame
from fewstep.tables._roles import Support
from fewstep.tables._schema import Schema

_CASES = 3


class Rows(NamedTuple):
    """Encoded rows, task after task: task n, called `names[n]`, is `x[starts[n] : starts[n] + counts[n]]`.

    `support` says which rows of a task are learned from: random ones, or the first or last in some order. Then a task's
    rows lie in the order in which they are learned from, so those of `last` from the end. `room` is for how many tasks
    and rows, at least, there is room in the arrays that a training gets: those of several parts of a table then have
    the same shapes and share compiled programs. `groups` are those of the tasks, where tasks are held out in groups.
    """

    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]
    support: Support = "random"
    room: tuple[int, int] = (0, 0)
    groups: tuple[str, ...] = ()

    @property
    def units(self) -> np.ndarray:
        """The number of what each task belongs to that is unlike others by chance: its group, or the task itself."""
        return np.unique(self.groups or self.names, return_inverse=True)[1]

    def of(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y of one task."""
        rows = slice(self.starts[number], self.starts[number] + self.counts[number])
        return self.x[rows], self.y[rows]


def encode(
    schema: Schema, frame: Frame, names: np.ndarray, parts: Mapping[str, np.ndarray], order: np.ndarray | None = None,
    support: Support = "random", groups: np.ndarray | None = None,
) -> dict[str, Rows]:  # fmt: skip
    """The rows of each part of a table as numbers, sorted by task and in it by `order`; categories that training never
    saw are none of the known. `groups` are those of each row's task, where there are some."""
    x, y = schema.x(frame, strict=False), schema.y(frame)
    place = np.arange(frame.rows) if order is None else np.argsort(np.argsort(order, kind="stable"))
    place = -place if support == "last" else place

    def part(rows: np.ndarray) -> Rows:
        rows = rows[np.lexsort((place[rows], names[rows].astype(str)))]
        tasks, starts, counts = np.unique(names[rows].astype(str), return_index=True, return_counts=True)
        of_tasks = () if groups is None else tuple(groups[rows][starts].tolist())
        return Rows(
            x[rows], y[rows], starts.astype(np.int32), counts.astype(np.int32), tuple(tasks.tolist()), support,
            groups=of_tasks,
        )  # fmt: skip

    return {name: part(rows) for name, rows in parts.items()}


def join_rows(a: Rows, b: Rows) -> Rows:
    """The tasks of both, in the order of their names; one that is in both is there once."""
    tasks = {name: part.of(n) for part in (b, a) for n, name in enumerate(part.names)}
    names = tuple(sorted(tasks))
    counts = np.asarray([len(tasks[name][0]) for name in names], np.int32)
    x, y = (np.concatenate([tasks[name][side] for name in names]) for side in (0, 1))
    group_of = dict(zip(b.names + a.names, b.groups + a.groups, strict=True)) if a.groups else {}
    return a._replace(
        x=x, y=y, starts=(np.cumsum(counts) - counts).astype(np.int32), counts=counts, names=names,
        groups=tuple(group_of[name] for name in names) if group_of else (),
    )  # fmt: skip


def order_of(frame: Frame, name: str | None) -> np.ndarray | None:
    """What each row of a table is sorted by within its task: numbers or dates."""
    if name is None:
        return None
    cells = read_cells(frame, name)
    if cells.is_category:
        raise FewstepError(f"The column {name!r}, `order`, holds text: {cells.values[0]!r}. Give numbers or dates.")
    if (empty := empty_cells(cells)).any():
        raise FewstepError(
            f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {name!r}, `order`; "
            f"{int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out."
        )
    return cells.values


def small_tasks(names: np.ndarray, min_rows: int) -> dict[str, int]:
    """The tasks with fewer rows, and how many they have."""
    tasks, counts = np.unique(names.astype(str), return_counts=True)
    pairs = zip(tasks.tolist(), counts.tolist(), strict=True)
    return {name: count for name, count in pairs if count < min_rows}


def left_out(small: Mapping[str, int], tasks: int, min_rows: int, why: str = "") -> str:
    """A remark on tasks that have too few rows."""
    cases = [f"{name} ({count})" for name, count in list(small.items())[:_CASES]]
    return (
        f"{len(small)} of {tasks} tasks have fewer than {min_rows} rows{why} and are left out: {', '.join(cases)}"
        f"{', ...' * (len(small) > _CASES)}."
    )


def large_enough(rows: Rows, shots: int, part: str, say: Callable[[str], None] = lambda message: None) -> Rows:
    """The tasks that have enough rows to learn from so many and be evaluated on one more; `say` reports others. Raises
    `FewstepError` if there is none."""
    enough = rows.counts > shots
    if enough.all():
        return rows
    if not enough.any():
        most = int(rows.counts.max())
        fix = f"Use `shots={most - 1}`, or give" if most > 1 else "Give"
        raise FewstepError(
            f"All {len(rows.names)} {part} tasks have fewer than {shots + 1} rows, {shots} to learn from (`shots`) and "
            f"one to be evaluated on: {rows.names[int(rows.counts.argmax())]!r} has most, {most}. {fix} tasks with "
            "more rows."
        )
    pairs = zip(rows.names, rows.counts.tolist(), strict=True)
    say(f"Of the {part} tasks, " + left_out({n: c for n, c in pairs if c <= shots}, len(rows.names), shots + 1))
    kept = lambda some: tuple(name for name, keep in zip(some, enough, strict=True) if keep) if some else ()
    return rows._replace(
        starts=rows.starts[enough], counts=rows.counts[enough], names=kept(rows.names), groups=kept(rows.groups)
    )  # fmt: skip
