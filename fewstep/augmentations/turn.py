r"""Turned classes: each class of a task is turned by a multiple of 90 degrees, and is another class then.

Reference: Santoro, Bartunov, Botvinick, Wierstra & Lillicrap, Meta-Learning with Memory-Augmented Neural Networks,
ICML 2016.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep.augmentations._images import check_images, turned
from fewstep.augmentations._tasks import Augment


def turn(strength: Annotated[float | Float[Array, ""], "Share of the classes that are turned"] = 0.75) -> Augment:
    """Turns all images of a class alike, in support and query, by 90, 180 or 270 degrees.

    Example::

        train(learner, augmented(tasks, turn()), steps=1000)
    """

    def augment(key: Key[Array, ""], episode: Episode) -> Episode:
        check_images("turn", episode.support)
        _, high, wide, _ = episode.support.x.shape
        if high != wide:
            raise FewstepError(f"Images of {high} x {wide} pixels cannot be turned: they are not square.")
        of_choice, of_turns = jax.random.split(key)
        labels = len(episode.support.y)  # there are no more classes than rows
        turns = jax.random.randint(of_turns, (labels,), 1, 4)
        turns = jnp.where(jax.random.uniform(of_choice, (labels,)) < strength, turns, 0)

        def of_batch(batch: Batch) -> Batch:
            each = jax.vmap(lambda image, label: turned(image[None], turns[label])[0])
            return batch._replace(x=each(batch.x, batch.y))

        return Episode(*map(of_batch, episode))

    return augment
