r"""Matching networks: a query's label is the mean of the support's labels, weighed by attention.

    p(y | x, S) = sum_i a(x, x_i) y_i,        a = softmax over the support of cos(f(x), g(x_i))

With full-context embeddings, g(x_i) is read by a recurrent network that goes over the support both ways, and f(x) by
one that attends to the support a few times.

Reference: Vinyals, Blundell, Lillicrap, Kavukcuoglu & Wierstra, Matching Networks for One Shot Learning, NeurIPS 2016.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners import _dense
from fewstep.learners._features import by_features, labeled, nothing, unit

_READS = 5


def matching(
    network: Network, ways: int, loss: Loss = losses.cross_entropy, *, full_context: int | None = None
) -> Learner:
    """The learner of matching networks. `network` gives features, `ways` is the number of classes of a task.

    **Arguments:** `full_context` is the number of features, for full-context embeddings; without it there are none.

    Example::

        learner = matching(conv4((28, 28, 1), None), ways=5)
    """

    def init(key: Key[Array, ""]) -> Meta:
        if full_context is None:
            return {}
        names, width = ("forward", "backward", "attention"), full_context
        keys = jax.random.split(key, len(names))
        inputs = {"forward": width, "backward": width, "attention": 2 * width}
        return {"context": {n: _dense.cell(k, inputs[n], width) for n, k in zip(names, keys, strict=True)}}

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        if full_context is not None:
            features = _in_both_directions(meta["context"], features, support.weight > 0)
        return {"features": features, "labels": labeled(support, ways)}

    def compare(meta: Meta, support: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        if full_context is not None:
            features = jax.vmap(lambda one: _attending(meta["context"]["attention"], one, support))(features)
        near = unit(features) @ unit(support["features"]).T
        there = support["labels"].sum(1)[None] > 0
        attention = jax.nn.softmax(jnp.where(there, near, -jnp.inf), axis=1)
        return jnp.log(attention @ support["labels"] + 1e-12)

    return by_features(network, loss, init if full_context else nothing, keep, compare)


def _in_both_directions(
    context: Meta, features: Float[Array, "rows d"], there: Bool[Array, " rows"]
) -> Float[Array, "rows d"]:
    """`g(x_i) = forward_i + backward_i + x_i`, read over the support in its order and against it, past its padding."""
    read = partial(_dense.read, width=features.shape[1])
    back = read(context["backward"], features[::-1], there=there[::-1])[::-1]
    return features + read(context["forward"], features, there=there) + back


def _attending(cell: dict[str, Array], feature: Float[Array, " d"], support: dict[str, Array]) -> Float[Array, " d"]:
    """A query's feature after some reads of the support, each attending to what the one before asked for."""
    hidden = memory = jnp.zeros_like(feature)
    there = support["labels"].sum(1) > 0
    for _ in range(_READS):
        attention = jax.nn.softmax(jnp.where(there, support["features"] @ (hidden + feature), -jnp.inf))
        read = attention @ support["features"]
        hidden, memory = _dense.lstm(cell, jnp.concatenate([feature, read]), hidden, memory)
    return hidden + feature
