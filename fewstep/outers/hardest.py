r"""The worst of some variants of each task: the gradient at the one with the highest loss (MaxUp).

    gradient = d/dmeta max over variants of L(meta, variant)

Reference: Gong, Ren, Ye & Liu, MaxUp, 2020; Ni, Goldblum, Sharaf, Kong & Goldstein, Data Augmentation for
Meta-Learning, ICML 2021.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step, accepting
from fewstep._episode import Episode
from fewstep._errors import FewstepError
from fewstep._outer import Gradient, Outer, loss_gradient
from fewstep._rule import Meta
from fewstep._streams import VARIANTS
from fewstep.augmentations import AUGMENTATIONS, Augment
from fewstep.files import function_of


def hardest(
    variants: Annotated[int, "Variants of each task, of which the worst counts"] = 4,
    augment: Annotated[
        str | Augment, f"How they are made: {', '.join(AUGMENTATIONS)}, or FILE.py:FUNCTION of key and episode"
    ] = "cutmix",
    *,
    by: Annotated[Outer, "How the gradient of the worst is taken"] = loss_gradient,
) -> Outer:
    r"""The gradient at the worst of some augmented variants of each task. With one variant it is plain augmentation.

    **Arguments:** `variants` of each task: their losses cost a forward pass each, the gradient is taken once;
    `augment(key, episode)` makes one, or the name of an augmentation; `by` takes the gradient of the worst.

    Example::

        train(learner, tasks, steps=1000, outer=hardest(4, label_shift(0.5)))
    """
    if variants < 1:
        raise FewstepError(f"variants is {variants}. Give at least one.")
    vary: Augment = _named(augment) if isinstance(augment, str) else augment

    def outer(learner: Learner) -> Gradient:
        of_worst = accepting(by(learner), "outer_step")

        def worst(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> Episode:
            keys = jax.random.split(jax.random.fold_in(key, VARIANTS), variants)
            every = jax.vmap(lambda key: vary(key, episode))(keys)
            if variants > 1:
                loss = lambda one: learner.loss(meta, key, one, outer_step=outer_step)
                number = jnp.argmax(jax.lax.map(loss, every))
            else:
                number = jnp.asarray(0)
            return jax.tree.map(lambda leaf: leaf[number], every)

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            chosen = jax.vmap(worst, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return of_worst(meta, keys, chosen, weights, outer_step=outer_step)

        return gradient

    return outer


def _named(name: str) -> Augment:
    return (
        AUGMENTATIONS[name]()
        if name in AUGMENTATIONS
        else function_of("augment", name, "(key, episode)", AUGMENTATIONS)
    )
