"""Tasks whose episodes are changed as they are drawn."""

from collections.abc import Callable

import jax
from jaxtyping import Array, Key, PyTree

from fewstep._episode import Episode, Tasks
from fewstep._streams import VARIANTS

Augment = Callable[[Key[Array, ""], Episode], Episode]


def augmented(tasks: Tasks, *augments: Augment) -> Tasks:
    """The tasks, each changed by all of the `augments`, one after the other. Train on them; evaluate on the plain ones.

    Example::

        train(learner, augmented(sinusoid(), label_shift(0.5)), steps=1000)
    """

    def sample(data: PyTree, key: Key[Array, ""]) -> Episode:
        episode = tasks.sample(data, key)
        own = jax.random.fold_in(key, VARIANTS)
        for number, augment in enumerate(augments):
            episode = augment(jax.random.fold_in(own, number), episode)
        return episode

    return Tasks(tasks.data, sample)
