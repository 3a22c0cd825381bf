r"""Prototypical networks: a class is the mean of its examples' features, a query belongs to the nearest.

    c_k = mean of f(x) over the support of class k,        logit_k(x) = -|f(x) - c_k|^2

Reference: Snell, Swersky & Zemel, Prototypical Networks for Few-shot Learning, NeurIPS 2017.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fewstep import losses
from fewstep._episode import Batch
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners._features import by_features, labeled, nothing


def prototypes(network: Network, ways: int, loss: Loss = losses.cross_entropy) -> Learner:
    """The learner of prototypical networks. `network` gives features, `ways` is the number of classes of a task.

    Example::

        learner = prototypes(conv4((28, 28, 1), None), ways=5)
    """

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        parts = labeled(support, ways)
        count = parts.sum(0)[:, None]
        return {"prototypes": (parts.T @ features) / jnp.maximum(count, 1e-12)}

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        apart = features[:, None] - memory["prototypes"][None]
        return -jnp.sum(jnp.square(apart), axis=-1)

    return by_features(network, loss, nothing, keep, compare)
