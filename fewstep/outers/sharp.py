r"""Sharpness-aware: the gradient a little uphill, so that what is learned lies in a flat place.

    outside: gradient at meta + rho g / |g|,  g the gradient of the task
    inside:  each inner step follows the gradient at fast + rho g / |g|,  g the inner gradient

Reference: Foret, Kleiner, Mobahi & Neyshabur, Sharpness-Aware Minimization, ICLR 2021; Abbas, Xiao, Chen, Chen & Chen,
Sharp-MAML: Sharpness-Aware Model-Agnostic Meta Learning, ICML 2022.
"""

from typing import Annotated, Literal

import jax
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step, takes
from fewstep._episode import Episode
from fewstep._errors import FewstepError, unknown
from fewstep._outer import Gradient, Outer
from fewstep._rule import Meta
from fewstep.compute import uphill, weighted_sum

Where = Literal["outside", "inside", "both"]


def sharp(
    where: Annotated[Where, "Where the gradient is taken uphill: outside, inside (the inner steps), or both"] = "both",
    rho: Annotated[float, "How far uphill"] = 0.0005,
) -> Outer:
    r"""The exact gradient of a learner that looks uphill (Sharp-MAML).

    Outside, each task moves the meta-parameters uphill by itself, so devices and chunks change nothing; it costs two
    unrolled gradients. Inside, an inner step costs two inner gradients, in training only: `adapt` stays as it is. The
    move itself counts as a constant in both.

    Example::

        train(learner, tasks, steps=1000, outer=sharp("outside", rho=0.05))
    """
    if where not in ("outside", "inside", "both"):
        raise unknown("place", where, ("outside", "inside", "both"))
    if rho < 0:
        raise FewstepError(f"rho is {rho}. It is a distance: give 0 or more, such as 0.0005.")

    def outer(learner: Learner) -> Gradient:
        inside = {} if where == "outside" else {"sharpness": rho}
        if inside and (learner.step is None or not takes(learner.loss, "sharpness")):
            raise FewstepError(
                f"where={where!r} changes inner steps, and this learner takes none by gradients. Use 'outside'."
            )

        def one(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> tuple[Array, Meta]:
            loss = lambda meta: learner.loss(meta, key, episode, outer_step=outer_step, **inside)
            slope = jax.value_and_grad(loss)
            value, gradient = slope(meta)
            return value, gradient if where == "inside" else slope(uphill(meta, gradient, rho))[1]

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            losses, each = jax.vmap(one, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return losses, weighted_sum(weights, each)

        return gradient

    return outer
