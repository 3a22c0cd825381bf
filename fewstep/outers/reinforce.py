r"""The mask's logits by the score function: draw masks, keep what helped. The slope of no bit is needed.

    gradient of the logits = mean over draws of  (L(bits) - mean L of the other draws) (bits - sigmoid(logits))

It is the gradient of the expected loss without bias, where straight-through takes the slope of a relaxed bit for that
of a hard one.

Reference: Williams, Simple Statistical Gradient-Following Algorithms, Machine Learning 1992; Kool, van Hoof & Welling,
Buy 4 REINFORCE Samples, Get a Baseline for Free, 2019.
"""

from typing import Annotated

import jax
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step
from fewstep._episode import Episode
from fewstep._errors import FewstepError
from fewstep._outer import Gradient, Outer
from fewstep._rule import Flat, Meta
from fewstep._streams import DRAWS
from fewstep.compute import weighted_sum

_CERTAIN = 40.0  # a logit whose bit is drawn as 1 for certain, in single precision too


def reinforce(draws: Annotated[int, "Masks drawn for each task"] = 4) -> Outer:
    r"""The score function for the mask's logits; everything else gets the exact gradient, averaged over the draws.

    Each draw's loss is compared with the mean of the other draws of the same task, which lowers the noise and adds no
    bias. It is for rules with one bit per unit, such as `mnet`, `mtnet` and chains with `mask`.

    **Arguments:** `draws` masks for each task, 2 or more; the cost is that of as many unrolled gradients.

    Example::

        train(gradient_learner(mlp(), mtnet(0.01), squared_error), tasks, steps=1000, outer=reinforce(draws=8))
    """
    if draws < 2:
        raise FewstepError(f"draws is {draws}. Each draw is compared with the others; give at least 2.")

    def outer(learner: Learner) -> Gradient:
        def one(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> tuple[Array, Meta]:
            logits: Flat = meta["mask"]

            def of_draw(key_of_draw: Key[Array, ""]) -> tuple[Array, Meta, Flat]:
                bits = _bits(key_of_draw, logits)
                certain = {path: _CERTAIN * (2 * bit - 1) for path, bit in bits.items()}
                loss = lambda rest: learner.loss(rest | {"mask": certain}, key, episode, outer_step=outer_step)
                return *jax.value_and_grad(loss)({name: meta[name] for name in meta if name != "mask"}), bits

            losses, slopes, bits = jax.lax.map(of_draw, jax.random.split(jax.random.fold_in(key, DRAWS), draws))
            advantage = (losses - losses.mean()) / (draws - 1)  # of the others' mean, averaged
            scores = {path: bit - jax.nn.sigmoid(logits[path])[None] for path, bit in bits.items()}
            mean = jax.tree.map(lambda leaf: leaf.mean(0), slopes)
            return losses.mean(), {name: (mean | {"mask": weighted_sum(advantage, scores)})[name] for name in meta}

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            _refuse_without_mask(meta)
            losses, each = jax.vmap(one, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return losses, weighted_sum(weights, each)

        return gradient

    return outer


def _bits(key: Key[Array, ""], logits: Flat) -> Flat:
    """One bit for each logit, 1 with probability sigmoid(logit)."""
    keys = jax.random.split(key, len(logits))
    draw = lambda key, logit: jax.random.bernoulli(key, jax.nn.sigmoid(logit)).astype(logit.dtype)
    return {path: draw(key, logit) for key, (path, logit) in zip(keys, logits.items(), strict=True)}


def _refuse_without_mask(meta: Meta) -> None:
    if "mask" not in meta:
        raise FewstepError(
            "The score function needs a mask with one bit per unit, and the rule has none: its meta-parameters are "
            f"{', '.join(meta)}. Use outer=unrolled, or a rule with a mask such as mtnet."
        )
