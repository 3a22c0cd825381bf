"""Tasks from the rows of a table: some of a task's rows to learn from, others to be evaluated on, whatever its size."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep.tables._rows import Rows
from fewstep.tasks import distinct


def table_tasks(of: Rows, shots: int = 5, queries: int = 10, *, min_shots: int | None = None) -> Tasks:
    """Tasks that draw one of the tasks of a table, and of its rows `shots` to learn from and up to `queries` others.

    A task with fewer rows gives a smaller query, and one with at most `shots` rows, which `min_shots` allows, also a
    smaller support: what is missing has weight 0. Every task has the same shape, so tasks of unequal size share one
    compiled step. Where the rows are to be learned from in order, the support is a task's first rows and the query is
    drawn from those behind.

    **Arguments:** `min_shots`: the number of rows learned from is drawn between this and `shots`, for a model that is
    to learn from more and from less.

    **Returns:** `Tasks`.
    """
    _check(of, shots, queries, min_shots)

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        of_task, of_rows, of_size = jax.random.split(key, 3)
        number = jax.random.randint(of_task, (), 0, data["tasks"])
        used = shots if min_shots is None else jax.random.randint(of_size, (), min_shots, shots + 1)
        return draw_episode(data, of_rows, number, shots, queries, used)

    return Tasks(_padded(of), sample)


def _padded(of: Rows) -> Arrays:
    """The rows with zeros behind them, as many as there is room for, and how many tasks there are."""
    arrays, (tasks, rows) = row_arrays(of), of.room
    sizes = {"x": rows, "y": rows, "starts": tasks, "counts": tasks}
    for name, size in sizes.items():
        array = np.asarray(arrays[name])
        behind = max(0, size - len(array))
        arrays = arrays | {name: np.pad(array, [(0, behind)] + [(0, 0)] * (array.ndim - 1))}
    return arrays | {"tasks": np.asarray(len(of.counts), np.int32)}


def whole_tasks(of: Rows, rows: int) -> Tasks:
    """Tasks of a table of which as many rows count as they have, at most `rows`: for a likelihood, to which it is all
    one which are learned from."""
    support = min(rows // 3, int(of.counts.min()) - 1)
    return table_tasks(of, support, rows - rows // 3)


def row_arrays(of: Rows) -> Arrays:
    """The rows as they travel into the compiled step; an entry `ordered` says that a task is learned from its first
    rows: which entries there are is known when a program is compiled."""
    arrays: Arrays = {"x": of.x, "y": of.y, "starts": of.starts, "counts": of.counts}
    return arrays if of.support == "random" else arrays | {"ordered": np.ones((), np.int32)}


def draw_episode(
    data: Arrays, key: Key[Array, ""], number: Int[Array, ""], shots: int, queries: int, used: int | Array | None = None
) -> Episode:
    """One draw from the task of a number: rows to learn from, `used` of them counting, and others to evaluate on."""
    count, start = data["counts"][number], data["starts"][number]
    known = jnp.minimum(shots, count - 1)  # a small task keeps one row to be evaluated on
    learned, asked = jnp.arange(shots), jnp.arange(queries)
    if "ordered" in data:
        others = distinct(jax.random.uniform(key, (queries,)), jnp.maximum(count - known, 1))
        support, query = learned, known + others
    else:
        places = distinct(jax.random.uniform(key, (shots + queries,)), count)
        support, query = places[:shots], places[jnp.minimum(known + asked, shots + queries - 1)]
    counts = learned < jnp.minimum(known, shots if used is None else used)

    def part(places: Array, counting: Array) -> Batch:
        rows = start + jnp.clip(places, 0, count - 1)
        return Batch(data["x"][rows], data["y"][rows], counting.astype(data["x"].dtype))

    return Episode(part(support, counts), part(query, known + asked < count))


def _check(of: Rows, shots: int, queries: int, min_shots: int | None) -> None:
    for name, value in (("shots", shots), ("queries", queries), ("min_shots", min_shots)):
        if value is not None and value < 1:
            raise FewstepError(f"{name} is {value}. It must be at least 1.")
    if min_shots is not None and min_shots > shots:
        raise FewstepError(f"min_shots is {min_shots} and shots is {shots}. Give the smaller number first.")
    fewest = shots if min_shots is None else min_shots
    if (of.counts < fewest + 1).any():
        raise FewstepError(
            f"A task takes {fewest} rows to learn from and one to be evaluated on; "
            f"{of.names[int(of.counts.argmin())]!r} has {int(of.counts.min())} in all. Take fewer shots, or "
            "leave such tasks out."
        )
