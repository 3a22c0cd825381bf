"""Tasks that draw classes of a set, and rows of each: what images and encoded rows share."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from fewstep._episode import Arrays, Batch, Episode
from fewstep._errors import FewstepError

_UNROLLED = 32
_MAX_NAMES = 5  # names in a message


@runtime_checkable
class ClassSizes(Protocol):
    """A set of rows by class, as far as its sizes go."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def counts(self) -> np.ndarray: ...


class Drawn(NamedTuple):
    """Which rows of a set a task takes, (ways, rows of each class); which copy of each class, where a set stands for
    several of itself; and a number from [0, 1) for each class, for whatever else is drawn for it."""

    rows: Int[Array, "ways each"]
    copy: Int[Array, " ways"]
    even: Float[Array, " ways"]


def draw_rows(data: Arrays, key: Key[Array, ""], ways: int, each: int, *, copies: int = 1) -> Drawn:
    """Draws `ways` different classes, and `each` different rows of each. `data` has the `starts` and `counts` of the
    classes."""
    classes = data["counts"].shape[0]
    even = jax.random.uniform(key, (ways, 2 + each))
    numbers = distinct(even[:, 0], jnp.asarray(classes * copies))
    labels = numbers % classes
    which = jax.vmap(distinct)(even[:, 2:], data["counts"][labels])
    return Drawn(data["starts"][labels][:, None] + which, numbers // classes, even[:, 1])


def episode_of(x: Float[Array, "ways each ..."], shots: int) -> Episode:
    """The episode of rows by class: the first of each are the support, the others the query."""
    return Episode(_batch(x[:, :shots]), _batch(x[:, shots:]))


def _batch(x: Float[Array, "ways rows ..."]) -> Batch:
    ways, rows = x.shape[:2]
    labels = jnp.repeat(jnp.arange(ways), rows)
    return Batch(x.reshape(ways * rows, *x.shape[2:]), labels, jnp.ones(ways * rows))


def distinct(even: Float[Array, " draws"], among: Int[Array, ""]) -> Int[Array, " draws"]:
    """As many different numbers below `among` as there are numbers drawn evenly from [0, 1): the beginning of a
    shuffled list, found without the list."""
    draws = even.shape[0]
    order = jnp.arange(draws)
    swapped = order + below(even, among - order)  # shuffling swaps the place i with a later one, or with itself

    def trace(step: int | Int[Array, ""], place: Array) -> Array:
        """What stands at a place before step k came from k's own place if k swapped just there."""
        k = draws - 1 - step
        return jnp.where((order > k) & (place == swapped[k]), k, place)

    if draws > _UNROLLED:
        return jax.lax.fori_loop(0, draws, trace, swapped)
    place = swapped
    for step in range(draws):
        place = trace(step, place)
    return place


def below(even: Float[Array, " draws"], limit: Int[Array, "..."]) -> Int[Array, " draws"]:
    """Whole numbers below a limit from numbers in [0, 1); rounding must not reach the limit."""
    return jnp.minimum((even * limit).astype(int), limit - 1)


def check_sizes(of: ClassSizes, shots: int, queries: int, ways: int, *, copies: int = 1, what: str = "rows") -> None:
    """Raises where a set has too few classes for a task, or too few of `what` in a class."""
    for name, value in (("shots", shots), ("queries", queries), ("ways", ways - 1)):
        if value < 1:
            raise FewstepError(f"{name} is {value + (name == 'ways')}. It must be at least {1 + (name == 'ways')}.")
    available = len(of.names) * copies
    if ways > available:
        raise FewstepError(f"A task takes {ways} classes and there are {available}. Use `ways={available}` or fewer.")
    few = [(int(count), name) for count, name in zip(of.counts, of.names, strict=True) if count < shots + queries]
    if few:
        named = ", ".join(f"{name!r} has {count}" for count, name in sorted(few)[:_MAX_NAMES])
        raise FewstepError(
            f"{len(few)} of the {len(of.names)} classes that tasks are drawn from have fewer {what} than a task takes, "
            f"{shots + queries} ({shots} shots and {queries} queries): {named}{' ...' * (len(few) > _MAX_NAMES)}. Use "
            f"fewer `shots` or `queries`, add {what}, or leave these classes out."
        )
