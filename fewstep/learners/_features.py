"""What learners without an inner gradient share: features of a network, kept for a task under its labels."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta

Keep = Callable[[Meta, Array, Batch], dict[str, Array]]
Compare = Callable[[Meta, dict[str, Array], Array], Array]


def by_features(
    network: Network, loss: Loss, init: Callable[[Key[Array, ""]], Meta], keep: Keep, compare: Compare
) -> Learner:
    """The learner that keeps something of the support's features and compares the query's features with it.

    **Arguments:** `init(key)` makes meta-parameters beside the network's `weights`; `keep(meta, features, support)`
    what a task leaves behind; `compare(meta, memory, features)` the logits of a query.
    """

    def begin(key: Key[Array, ""]) -> Meta:
        of_network, of_rest = jax.random.split(key)
        return {"weights": network.init(of_network), **init(of_rest)}

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        features, state = network.apply(meta["weights"], (), support.x, support.weight)
        once = Adapted(keep(meta, features, support), state)
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def predict(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree:
        weight = jnp.ones(x.shape[0]) if weight is None else weight
        features, _ = network.apply(meta["weights"], adapted.state, x, weight)
        return compare(meta, adapted.fast, features)

    def episode_loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        adapted = adapt(meta, key, episode.support, 0)
        return loss(predict(meta, adapted, episode.query.x, episode.query.weight), episode.query)

    return Learner(begin, episode_loss, adapt, predict)


def labeled(support: Batch, ways: int) -> Float[Array, "rows ways"]:
    """One row per support example: its weight in the column of its label."""
    return jax.nn.one_hot(support.y, ways) * support.weight[:, None]


def unit(x: Float[Array, "rows features"]) -> Float[Array, "rows features"]:
    """Rows of length 1; a row of zeros stays one, and has a derivative."""
    return x * jax.lax.rsqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + 1e-12)


def nothing(key: Key[Array, ""]) -> PyTree:
    """No meta-parameters beside the network's."""
    return {}
