r"""Label shift: one offset for all numbers to predict of a task, so that the support is needed to predict the query.

    y = y + strength e,        e ~ N(0, 1), the same in support and query

Reference: Rajendran, Irpan & Jang, Meta-Learning Requires Meta-Augmentation, NeurIPS 2020.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Episode
from fewstep._errors import FewstepError
from fewstep.augmentations._tasks import Augment


def label_shift(strength: Annotated[float | Float[Array, ""], "Standard deviation of the offset"] = 1.0) -> Augment:
    """Shifts what is to be predicted of a whole task: against memorized training tasks, where there are few.

    Example::

        train(learner, augmented(tasks, label_shift(0.5)), steps=1000)
    """

    def augment(key: Key[Array, ""], episode: Episode) -> Episode:
        y = episode.support.y
        if not jnp.issubdtype(y.dtype, jnp.floating):
            raise FewstepError(
                f"The augmentation 'label_shift' is for numbers to predict, and y is of {y.dtype}: classes. For images "
                "use 'turn', 'cutmix' or 'erase'."
            )
        shift = strength * jax.random.normal(key, y.shape[1:], y.dtype)
        return Episode(*(batch._replace(y=batch.y + shift[None]) for batch in episode))

    return augment
