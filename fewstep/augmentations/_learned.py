"""A learner that learns how strongly to change the examples that a task is learned from."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._contract import Adapted, Learner
from fewstep._episode import Batch, Episode
from fewstep._rule import Meta, own_names
from fewstep._streams import VARIANTS
from fewstep.augmentations._tasks import Augment

NAME = "augmentation"  # in meta


def learned(learner: Learner, augmentation: Callable[[Float[Array, ""]], Augment], *, start: float = 0.1) -> Learner:
    """The learner, whose support is augmented in training by a strength that is learned; the query is not.

    Outside of training it adapts as before. Few augmentations have a derivative by their strength, so let `evolution`
    learn it.

    **Arguments:** `augmentation(strength)` makes an `Augment` that changes the support; `start` is the first strength.

    Example::

        each = learned(learner, lambda strength: erase(strength, "support"))
        train(each, tasks, steps=1000, outer=evolution(of=("augmentation",), std=0.05))
    """

    def init(key: Key[Array, ""]) -> Meta:
        meta = learner.init(key)
        return meta | own_names("augmentation", {NAME: {"strength": jnp.asarray(start)}}, meta)

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode, **options: Any) -> Float[Array, ""]:
        augment = augmentation(meta[NAME]["strength"])
        support = augment(jax.random.fold_in(key, VARIANTS), episode).support
        return learner.loss(_rest(meta), key, Episode(support, episode.query), **options)

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, **options: Any) -> Adapted:
        return learner.adapt(_rest(meta), key, support, steps, **options)

    return learner._replace(
        init=init, loss=loss, adapt=adapt,
        predict=lambda meta, *given: learner.predict(_rest(meta), *given),
        step=None if learner.step is None else lambda meta, *given, **more: learner.step(_rest(meta), *given, **more),
        spread=None if learner.spread is None else lambda meta, *given: learner.spread(_rest(meta), *given),
    )  # fmt: skip


def _rest(meta: Meta) -> Meta:
    return {name: part for name, part in meta.items() if name != NAME}
