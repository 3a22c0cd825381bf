"""Few-shot classification of images: N classes, K images of each to learn from, Q of each to be evaluated on."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep.data import ImageSet

Rotate = Literal["none", "episode", "classes"]
_UNROLLED = 32
_MAX_NAMES = 5  # names in a message


def images(
    of: ImageSet, shots: int = 1, queries: int = 1, *, ways: int = 5, rotate: Rotate = "none", invert: bool = False
) -> Tasks:
    """Tasks that draw `ways` classes of a set, and of each `shots` images for the support and `queries` for the query.

    No class and no image is there twice in a task. Images stay bytes on the device; a task gets them as numbers from 0
    to 1.

    **Arguments:** `rotate` by multiples of 90 degrees: `episode` draws one rotation for each class of a task (as the
    code of MAML), `classes` makes four classes of each (as that of prototypical networks); `invert` swaps dark
    and light.

    **Returns:** `Tasks`.
    """
    _check(of, shots, queries, ways, rotate)
    classes, each = len(of.names), shots + queries
    data = {"images": of.images, "starts": of.starts, "counts": of.counts}

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        even = jax.random.uniform(key, (ways, 2 + each))
        copies = 4 if rotate == "classes" else 1
        numbers = distinct(even[:, 0], jnp.asarray(classes * copies))
        labels = numbers % classes
        which = jax.vmap(distinct)(even[:, 2:], data["counts"][labels])
        x = _to_floats(data["images"][data["starts"][labels][:, None] + which], even.dtype, invert)
        if rotate != "none":
            turns = numbers // classes if copies == 4 else _below(even[:, 1], jnp.asarray(4))
            x = jax.vmap(_turn)(x, turns)
        part = lambda begin, end: _batch(x[:, begin:end])
        return Episode(part(0, shots), part(shots, each))

    return Tasks(data, sample)


def all_classes(of: ImageSet, rows: int = 64, *, rotate: Rotate = "none", invert: bool = False) -> Tasks:
    """Batches of `rows` images from all classes, labeled by the class: what an ordinary classifier is trained on.

    **Arguments:** as `images`; with `rotate="classes"` there are four times as many labels, with `"episode"` each image
    is turned at random.

    **Returns:** `Tasks` whose support and query are the same batch.
    """
    classes = len(of.names)
    data = {"images": of.images, "starts": of.starts, "counts": of.counts}

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        even = jax.random.uniform(key, (3, rows))
        label, turns = _below(even[0], jnp.asarray(classes)), _below(even[1], jnp.asarray(4))
        which = data["starts"][label] + _below(even[2], data["counts"][label])
        x = _to_floats(data["images"][which], even.dtype, invert)
        if rotate != "none":
            x = jax.vmap(_turn)(x[:, None], turns)[:, 0]
        label = label + classes * turns if rotate == "classes" else label
        batch = Batch(x, label, jnp.ones(rows))
        return Episode(batch, batch)

    return Tasks(data, sample)


def distinct(even: Float[Array, " draws"], among: Int[Array, ""]) -> Int[Array, " draws"]:
    """As many different numbers below `among` as there are numbers drawn evenly from [0, 1): the beginning of a
    shuffled list, found without the list."""
    draws = even.shape[0]
    order = jnp.arange(draws)
    swapped = order + _below(even, among - order)  # shuffling swaps the place i with a later one, or with itself

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


def _below(even: Float[Array, " draws"], limit: Int[Array, "..."]) -> Int[Array, " draws"]:
    """Whole numbers below a limit from numbers in [0, 1); rounding must not reach the limit."""
    return jnp.minimum((even * limit).astype(int), limit - 1)


def _to_floats(pixels: Array, kind: np.dtype, invert: bool) -> Array:
    x = pixels.astype(kind) / 255
    return 1 - x if invert else x


def _turn(x: Float[Array, "rows high wide channels"], turns: Int[Array, ""]) -> Float[Array, "rows high wide channels"]:
    flipped = jnp.where(turns >= 2, x[:, ::-1, ::-1], x)
    return jnp.where(turns % 2 == 1, jnp.swapaxes(flipped, 1, 2)[:, ::-1], flipped)


def _batch(x: Float[Array, "ways rows high wide channels"]) -> Batch:
    ways, rows = x.shape[:2]
    labels = jnp.repeat(jnp.arange(ways), rows)
    return Batch(x.reshape(ways * rows, *x.shape[2:]), labels, jnp.ones(ways * rows))


def _check(of: ImageSet, shots: int, queries: int, ways: int, rotate: str) -> None:
    for name, value in (("shots", shots), ("queries", queries), ("ways", ways - 1)):
        if value < 1:
            raise FewstepError(f"{name} is {value + (name == 'ways')}. It must be at least {1 + (name == 'ways')}.")
    available = len(of.names) * (4 if rotate == "classes" else 1)
    if ways > available:
        raise FewstepError(f"A task takes {ways} classes and there are {available}. Use `ways={available}` or fewer.")
    few = [(int(count), name) for count, name in zip(of.counts, of.names, strict=True) if count < shots + queries]
    if few:
        named = ", ".join(f"{name!r} has {count}" for count, name in sorted(few)[:_MAX_NAMES])
        raise FewstepError(
            f"{len(few)} of the {len(of.names)} classes that tasks are drawn from have fewer images than a task takes, "
            f"{shots + queries} ({shots} shots and {queries} queries): {named}{' ...' * (len(few) > _MAX_NAMES)}. Use "
            "fewer `shots` or `queries`, add images, or leave these classes out."
        )
    if rotate != "none" and of.shape[0] != of.shape[1]:
        raise FewstepError(f"Images of {of.shape[0]} x {of.shape[1]} pixels cannot be turned: they are not square.")
