r"""Reptile: the start moves towards where the tasks went; no query, no derivative of the inner loop.

    gradient = W - fast_K(W),        K inner steps on minibatches of support and query together

Reference: Nichol, Achiam & Schulman, On First-Order Meta-Learning Algorithms, 2018.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._network import flatten
from fewstep._outer import Gradient, Outer
from fewstep._rule import Meta
from fewstep.compute import weighted_sum


def reptile(
    steps: Annotated[int, "Inner steps"] = 5, minibatch: Annotated[int, "Points of each inner step"] = 10
) -> Outer:
    r"""Reptile: the outer gradient is `start - adapted`, after steps on minibatches of support and query together.

    With `optax.sgd(e)` outside, the start moves by `e` times the mean way the tasks went. Nothing but the start gets a
    signal from this, so rules with a metric, a mask, rates or a fixed part are refused.

    **Arguments:** `steps` inner steps, each on a `minibatch` of rows.

    Example::

        train(learner, tasks, steps=1000, outer=reptile(steps=5), optimizer=optax.sgd(0.3))
    """

    def outer(learner: Learner) -> Gradient:
        def one(meta: Meta, key: Key[Array, ""], episode: Episode, outer_step: Step) -> tuple[Array, Meta]:
            every: Batch = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *episode)
            begin, back = jax.vjp(lambda m: learner.adapt(m, key, every, 0).fast, meta)
            refuse_without_signal(meta, begin)
            end = learner.adapt(meta, key, every, steps, minibatch=minibatch, outer_step=outer_step).fast
            (gradient,) = back(jax.tree.map(jnp.subtract, begin, end))
            return learner.loss(meta, key, episode, first_order=True, outer_step=outer_step), gradient

        def gradient(
            meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *,
            outer_step: Step = AFTER_TRAINING,
        ) -> tuple[Array, Meta]:  # fmt: skip
            losses, each = jax.vmap(one, (None, 0, 0, None))(meta, keys, episodes, outer_step)
            return losses, weighted_sum(weights, each)

        return gradient

    return outer


def refuse_without_signal(meta: Meta, fast: Any) -> None:
    """Raises when Reptile would leave some of the meta-parameters as they are for ever."""
    idle = [name for name in meta if name != "weights"]
    fixed = len(flatten(meta.get("weights", {})).keys() - flatten(fast).keys())
    if idle or fixed:
        what = f"the {' and the '.join(idle)}" if idle else f"{fixed} of the network's arrays, which no task adapts,"
        raise FewstepError(
            f"Reptile cannot train this rule: it only moves the start towards the adapted weights, so {what} would get "
            "no signal. Use outer=unrolled or outer=first_order, or the rule maml; of a conv4, adapt the normalization "
            "too: `adapt_norm=True`."
        )
