r"""Derivative-order annealing: first-order outer gradients at first, then the exact ones.

    gradient = first_order   in the first outer steps,        unrolled   after them

Reference: Antoniou, Edwards & Storkey, How to Train Your MAML, ICLR 2019.
"""

from typing import Annotated

import jax
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step
from fewstep._episode import Episode
from fewstep._errors import FewstepError
from fewstep._outer import Gradient, Outer, loss_gradient
from fewstep._rule import Meta


def annealed(
    first_order_steps: Annotated[int, "Outer steps with first-order gradients, before the exact ones"] = 1000,
) -> Outer:
    """First-order gradients in the first outer steps, and exact ones after them: a cheap and stable beginning.

    **Arguments:** `first_order_steps`, how many outer steps are of first order.

    Example::

        train(learner, tasks, steps=2000, outer=annealed(500))
    """
    if first_order_steps < 0:
        raise FewstepError(f"first_order_steps is {first_order_steps}. Give 0 or more outer steps, such as 1000.")

    def outer(learner: Learner) -> Gradient:
        first, exact = loss_gradient(learner, first_order=True), loss_gradient(learner)

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            of = lambda one: lambda *given: one(*given, outer_step=outer_step)
            early = outer_step < first_order_steps
            return jax.lax.cond(early, of(first), of(exact), meta, keys, episodes, weights)

        return gradient

    return outer
