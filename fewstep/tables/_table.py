"""A table by task: rows one task after the other, and which tasks are for training, validation and test."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fewstep._errors import FewstepError
from fewstep.tables._column import Missing, empty_cells, read_cells
from fewstep.tables._frame import Frame
from fewstep.tables._outliers import Outliers, treat
from fewstep.tables._schema import Schema, learn_schema

SPLITS = ("train", "validation", "test")
Split = Mapping[str, Sequence[str]]


class Rows(NamedTuple):
    """Encoded rows, task after task: task n, called `names[n]`, is `x[starts[n] : starts[n] + counts[n]]`."""

    x: np.ndarray
    y: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    names: tuple[str, ...]

    def of(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y of one task."""
        rows = slice(self.starts[number], self.starts[number] + self.counts[number])
        return self.x[rows], self.y[rows]


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


class Roles(NamedTuple):
    """What a user says of a table: which columns have which role, and what to do about missing cells and outliers."""

    task: str | None
    x: tuple[str, ...]
    y: str
    classify: bool | None = None
    missing: Missing = "refuse"
    categories: tuple[str, ...] = ()
    outliers: Outliers = "drop"


def make_table(
    frame: Frame,
    roles: Roles,
    *,
    split: Split | None = None,
    split_seed: int = 0,
    schema: Schema | None = None,
) -> Table:
    """Splits a table by task, learns its schema from the training tasks, and encodes all of it.

    A split or schema that is given stays as it is: it is that of the run which was begun with it.
    """
    frame, note = _with_target(_declared(frame, roles), roles)
    names = task_names(frame, roles.task)
    split = _check_split(split, frame, names) if split else split_tasks(names, split_seed)
    # Tasks that came into the table later change nothing, also not what counts as an outlier.
    every = np.asarray([name for tasks in split.values() for name in tasks], object)
    frame = frame.only(np.flatnonzero(np.isin(names, every)))
    digest = _digest(frame, (roles.task, *roles.x, roles.y))
    frame, more = _without_outliers(frame, roles, split)
    names = task_names(frame, roles.task)
    where = {part: np.flatnonzero(np.isin(names, np.asarray(tasks, object))) for part, tasks in split.items()}
    if schema is None:
        options = {name: value for name, value in roles._asdict().items() if name not in ("categories", "outliers")}
        schema = learn_schema(frame, where["train"], **options)
    parts = encode(schema, frame, names, where)
    tasks = {part: tuple(tasks) for part, tasks in split.items()}
    return Table(schema, tasks, parts, f"{note} {more}".strip(), digest)


def _without_outliers(frame: Frame, roles: Roles, split: Split) -> tuple[Frame, str]:
    """The table after its outliers were treated, and what was done."""
    names = task_names(frame, roles.task)
    training = np.flatnonzero(np.isin(names, np.asarray(split["train"], object)))
    y = None if roles.classify else roles.y
    treated = treat(frame, training, x=roles.x, y=y, missing=roles.missing, outliers=roles.outliers)
    treated.check_tasks(names)
    return treated.frame.only(treated.kept), treated.note


def _digest(frame: Frame, names: Sequence[str | None]) -> str:
    """A short text that stands for all cells of these columns."""
    digest = hashlib.blake2b(digest_size=16)
    for name in names:
        if name is not None:
            digest.update("\x1f".join(map(str, [name, *frame.columns[name].tolist()])).encode())
    return digest.hexdigest()


def encode(schema: Schema, frame: Frame, names: np.ndarray, parts: Mapping[str, np.ndarray]) -> dict[str, Rows]:
    """The rows of each part of a table as numbers, sorted by task; categories that training never saw are none of the
    known."""
    x, y = schema.x(frame, strict=False), schema.y(frame)

    def part(rows: np.ndarray) -> Rows:
        rows = rows[np.argsort(names[rows], kind="stable")]
        tasks, starts, counts = np.unique(names[rows].astype(str), return_index=True, return_counts=True)
        return Rows(x[rows], y[rows], starts.astype(np.int32), counts.astype(np.int32), tuple(tasks.tolist()))

    return {name: part(rows) for name, rows in parts.items()}


def _declared(frame: Frame, roles: Roles) -> Frame:
    """The table with the columns that the user calls categories taken as such."""
    for name in roles.categories:
        if name not in roles.x:
            raise FewstepError(f"`categories` names {name!r}, which is not in `x`: {' '.join(roles.x)}.")
    return frame._replace(categories=frame.categories | set(roles.categories))


def task_names(frame: Frame, task: str | None) -> np.ndarray:
    """The task that each row belongs to, as text; without a column, all to one."""
    if task is None:
        return np.full(frame.rows, "all", object)
    cells = read_cells(frame, task, "category")
    if (empty := empty_cells(cells)).any():
        raise FewstepError(
            f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the column {task!r}, which names the task; "
            f"{int(empty.sum())} of {frame.rows} rows lack it. Fill them in, or leave the rows out."
        )
    return cells.values


def split_tasks(names: ArrayLike, seed: int, parts: tuple[float, float] = (0.15, 0.2)) -> dict[str, tuple[str, ...]]:
    """Tasks drawn into training, validation and test; the parts are those of validation and test, never a row's."""
    tasks = sorted(set(np.asarray(names, object).tolist()))
    sizes = [max(1, round(part * len(tasks))) for part in parts]
    if len(tasks) - sum(sizes) < 2:
        raise FewstepError(
            f"The table has {len(tasks)} tasks ({', '.join(map(str, tasks[:5]))}). Learning to learn takes at least 4: "
            "two to learn from, one to validate on and one to be evaluated on. Does the right column name the task?"
        )
    order = [tasks[n] for n in np.random.default_rng(seed).permutation(len(tasks))]
    cuts = np.cumsum([len(tasks) - sum(sizes), *sizes])
    return {
        part: tuple(sorted(order[begin:end])) for part, begin, end in zip(SPLITS, [0, *cuts[:-1]], cuts, strict=True)
    }


def check_sizes(rows: Rows, shots: int, part: str) -> None:
    """Raises when a task has too few rows to learn from so many and be evaluated on one more."""
    small = [(int(count), name) for count, name in zip(rows.counts, rows.names, strict=True) if count < shots + 1]
    if small:
        count, name = min(small)
        fewer = f"Use `shots={count - 1}`, or leave" if count > 1 else "Leave"
        raise FewstepError(
            f"{len(small)} of the {len(rows.names)} {part} tasks have fewer than {shots + 1} rows, {shots} to learn "
            f"from (`shots`) and one to be evaluated on: {name!r} has {count}. {fewer} these tasks out of the table."
        )


def _with_target(frame: Frame, roles: Roles) -> tuple[Frame, str]:
    """The table without the rows that have no target, where missing cells are filled, and how many these are; else they
    are refused."""
    cells = read_cells(frame, roles.y, "category" if roles.classify else None)
    empty = empty_cells(cells)
    if not empty.any():
        return frame, ""
    if roles.missing == "refuse" or empty.all():
        raise FewstepError(
            f"{frame.where(int(np.flatnonzero(empty)[0]))} has nothing in the target {roles.y!r}; {int(empty.sum())} "
            f"of {frame.rows} rows lack it. Leave these rows out, or let `missing='mean'` do so."
        )
    note = f"{int(empty.sum())} of {frame.rows} rows of {frame.name} have no {roles.y} and are left out."
    return frame.only(np.flatnonzero(~empty)), note


def _check_split(split: Split, frame: Frame, names: np.ndarray) -> dict[str, tuple[str, ...]]:
    there = set(names.tolist())
    if gone := [name for part in split.values() for name in part if name not in there]:
        raise FewstepError(
            f"{frame.name} no longer has the task {gone[0]!r} that the run was made with ({len(gone)} are gone). Bring "
            "the table back as it was, or train a new run."
        )
    return {part: tuple(tasks) for part, tasks in split.items()}
