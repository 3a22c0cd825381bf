r"""Ridge regression on learned features: the last layer is solved for, in closed form, from a learned start.

    W = W_0 + (F' D F + e^s I)^-1 F' D (Y - F W_0),        prediction(x) = f(x) W

f is the network, F the support's features, D the weights of its rows; W_0, s and f are meta-learned. It is the mean of
a Gaussian process whose mean and kernel, f(x)'f(x'), were learned from the training tasks.

Reference: Bertinetto, Henriques, Torr & Vedaldi, Meta-learning with differentiable closed-form solvers, ICLR 2019;
with a learned start, Harrison, Sharma & Pavone, Meta-learning priors for efficient online Bayesian regression, 2018.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.compute import solve_positive
from fewstep.learners._features import by_features


def ridge(
    network: Network, features: int, outputs: int = 1, *, classes: bool = False, loss: Loss | None = None
) -> Learner:
    """The learner that solves for its last layer. The outputs of `network` are as many as `features`.

    **Arguments:** `outputs`, numbers or `classes`; classes are regressed on as -1 and 1, and the prediction is scaled
    and shifted by two learned numbers before the softmax, as in the paper.

    Example::

        learner = ridge(networks.mlp(2, 32, hidden=(64,)), features=32)
    """

    def init(key: Key[Array, ""]) -> Meta:
        start = {"weights": jnp.zeros((features + 1, outputs)), "log_penalty": jnp.zeros(())}
        return {"ridge": start | ({"scale": jnp.ones(()), "shift": jnp.zeros(())} if classes else {})}

    def extend(raw: Float[Array, "rows d"]) -> Float[Array, "rows e"]:
        """The features with a one beside them, of a size that the number of features does not change."""
        return jnp.concatenate([raw / jnp.sqrt(features), jnp.ones((raw.shape[0], 1))], axis=1)

    def keep(meta: Meta, raw: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        start, f = meta["ridge"], extend(raw)
        begin = start["weights"][:, :outputs]  # fewer classes than in training take the first columns
        y = 2 * jax.nn.one_hot(support.y, outputs) - 1 if classes else support.y
        # Solved in the space of the rows, which are few: (F'DF + cI)^-1 F'D = F'R (R F F' R + cI)^-1 R with R = D^1/2.
        # A row of weight 0 must not pass the root: its derivative there is infinite.
        there = support.weight > 0
        root = jnp.where(there, jnp.sqrt(jnp.where(there, support.weight, 1.0)), 0.0)[:, None]
        weighted = root * f
        gram = weighted @ weighted.T + jnp.exp(start["log_penalty"]) * jnp.eye(f.shape[0])
        return {"weights": begin + weighted.T @ solve_positive(gram, root * (y - f @ begin))}

    def compare(meta: Meta, memory: dict[str, Array], raw: Float[Array, "rows d"]) -> Float[Array, "rows outputs"]:
        answer = extend(raw) @ memory["weights"]
        return answer * meta["ridge"]["scale"] + meta["ridge"]["shift"] if classes else answer

    return by_features(
        network, loss or (losses.cross_entropy if classes else losses.squared_error), init, keep, compare
    )
