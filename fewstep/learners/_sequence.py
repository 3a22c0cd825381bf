"""What in-context learners have in common: its examples in a row, then a query whose label is hidden."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from fewstep._episode import Batch
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners._features import by_features


class Sizes(NamedTuple):
    """What a learner is made for: the width of an input's features, the outputs, and whether these are classes."""

    features: int
    outputs: int
    classes: bool

    @property
    def token(self) -> int:
        """The width of a row of the sequence: features, label, and whether the label is there."""
        return self.features + self.outputs + 1


def by_sequence(
    network: Network,
    sizes: Sizes,
    loss: Loss,
    init: Callable[[Key[Array, ""]], Meta],
    read: Callable[[Meta, Array, Array], Array],
) -> Learner:
    """The learner that reads the sequence of a task's examples and one query, for every query anew.

    **Arguments:** `init(key)` makes meta-parameters beside the network's `weights`; `read(meta, rows, there)` is given
    the rows of the sequence and which of them are not padding, and answers for the last.
    """

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        there = support.weight > 0
        labeled = there[:, None].astype(features.dtype)
        rows = jnp.concatenate([features, labels_of(support, sizes), jnp.ones_like(labeled)], axis=1) * labeled
        order = jnp.argsort(there)  # padding first, so that the examples stand next to the query
        return {"rows": rows[order], "there": there[order]}

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows outputs"]:
        there = jnp.concatenate([memory["there"], jnp.ones(1, bool)])

        def one(feature: Float[Array, " d"]) -> Float[Array, " outputs"]:
            last = jnp.concatenate([feature, jnp.zeros(sizes.outputs + 1, feature.dtype)])
            return read(meta, jnp.concatenate([memory["rows"], last[None]]), there)

        return jax.vmap(one)(features)

    return by_features(network, loss, init, keep, compare)


def labels_of(support: Batch, sizes: Sizes) -> Float[Array, "rows outputs"]:
    """The labels as rows of numbers: classes as 0 and one 1."""
    return jax.nn.one_hot(support.y, sizes.outputs) if sizes.classes else support.y


def nothing_but_x(inputs: int) -> Network:
    """The network whose features are its input."""

    def apply(
        params: Meta, state: tuple[()], x: Shaped[Array, "rows inputs"], weight: Array
    ) -> tuple[Array, tuple[()]]:
        return x.reshape(-1, inputs), state

    return Network(lambda key: {}, apply, ())
