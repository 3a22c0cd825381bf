"""Few-shot classification of images: N classes, K images of each to learn from, Q of each to be evaluated on."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from fewstep._episode import Arrays, Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep.augmentations import turned
from fewstep.data import ImageSet
from fewstep.tasks._classes import below, check_sizes, draw_rows, episode_of

Rotate = Literal["none", "episode", "classes"]


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
    data = {"images": of.images, "starts": of.starts, "counts": of.counts}

    def sample(data: Arrays, key: Key[Array, ""]) -> Episode:
        drawn = draw_rows(data, key, ways, shots + queries, copies=4 if rotate == "classes" else 1)
        x = _to_floats(data["images"][drawn.rows], drawn.even.dtype, invert)
        if rotate != "none":
            turns = drawn.copy if rotate == "classes" else below(drawn.even, jnp.asarray(4))
            x = jax.vmap(turned)(x, turns)
        return episode_of(x, shots)

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
        label, turns = below(even[0], jnp.asarray(classes)), below(even[1], jnp.asarray(4))
        which = data["starts"][label] + below(even[2], data["counts"][label])
        x = _to_floats(data["images"][which], even.dtype, invert)
        if rotate != "none":
            x = jax.vmap(turned)(x[:, None], turns)[:, 0]
        label = label + classes * turns if rotate == "classes" else label
        batch = Batch(x, label, jnp.ones(rows))
        return Episode(batch, batch)

    return Tasks(data, sample)


def _to_floats(pixels: Array, kind: np.dtype, invert: bool) -> Array:
    x = pixels.astype(kind) / 255
    return 1 - x if invert else x


def _check(of: ImageSet, shots: int, queries: int, ways: int, rotate: str) -> None:
    check_sizes(of, shots, queries, ways, copies=4 if rotate == "classes" else 1, what="images")
    if rotate != "none" and of.shape[0] != of.shape[1]:
        raise FewstepError(f"Images of {of.shape[0]} x {of.shape[1]} pixels cannot be turned: they are not square.")
