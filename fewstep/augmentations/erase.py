r"""Erasing: a box of each query image takes the image's mean color.

Reference: Zhong, Zheng, Kang, Li & Yang, Random Erasing Data Augmentation, AAAI 2020; Ni, Goldblum, Sharaf, Kong &
Goldstein, Data Augmentation for Meta-Learning, ICML 2021 (on the query).
"""

from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep.augmentations._images import check_images, draw_box
from fewstep.augmentations._tasks import Augment


def erase(
    strength: Annotated[float | Float[Array, ""], "Share of an image that is erased"] = 0.25,
    part: Literal["query", "support"] = "query",
) -> Augment:
    """Erases a box of each image of the query, or of the support.

    Example::

        train(learner, augmented(tasks, erase(0.25)), steps=1000)
    """

    def augment(key: Key[Array, ""], episode: Episode) -> Episode:
        batch: Batch = getattr(episode, part)
        check_images("erase", batch)
        rows, high, wide, _ = batch.x.shape
        share = jnp.asarray(strength)
        boxes = jax.vmap(lambda key: draw_box(key, share, high, wide))(jax.random.split(key, rows))
        mean = batch.x.mean((1, 2), keepdims=True)
        return episode._replace(**{part: batch._replace(x=jnp.where(boxes[..., None], mean, batch.x))})

    return augment
