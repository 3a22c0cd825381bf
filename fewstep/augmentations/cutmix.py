r"""CutMix on the query: a box of each image comes from another, and its label counts by its share of the image.

    loss of a row = (1 - share) loss(x, y) + share loss(x, y of the other)

Reference: Yun, Han, Oh, Chun, Choe & Yoo, CutMix, ICCV 2019; Ni, Goldblum, Sharaf, Kong & Goldstein, Data Augmentation
for Meta-Learning, ICML 2021 (on the query).
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep.augmentations._images import check_images, draw_box
from fewstep.augmentations._tasks import Augment


def cutmix(
    strength: Annotated[float | Float[Array, ""], "Largest share of an image that comes from another"] = 1.0,
) -> Augment:
    """Mixes query images. Each is there twice in the new query, once with each label, weighted by the labels' shares.

    Example::

        train(learner, augmented(tasks, cutmix()), steps=1000)
    """

    def augment(key: Key[Array, ""], episode: Episode) -> Episode:
        query = episode.query
        check_images("cutmix", query)
        rows, high, wide, _ = query.x.shape
        of_other, of_share, of_box = jax.random.split(key, 3)
        other = jax.random.permutation(of_other, rows)
        share = strength * jax.random.uniform(of_share, (rows,)) * (query.weight[other] > 0)  # nothing of padding
        boxes = jax.vmap(lambda key, share: draw_box(key, share, high, wide))(jax.random.split(of_box, rows), share)
        x = jnp.where(boxes[..., None], query.x[other], query.x)
        share = boxes.mean((1, 2))  # in whole pixels
        twice = lambda a, b: jnp.concatenate([a, b])
        weight = twice(query.weight * (1 - share), query.weight * share)
        return episode._replace(query=Batch(twice(x, x), twice(query.y, query.y[other]), weight))

    return augment
