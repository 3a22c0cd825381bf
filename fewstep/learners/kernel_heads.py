r"""Heads that learn a task in closed form from the features of its support: no gradient is taken for a new task.

- `embedding`: a class is its examples' mean in the space of a Gaussian kernel, scaled to length 1 (W_s):

      z_c(x) = sum_{i in c} k(r_i, f(x)) / |sum_{i in c} phi(r_i)|,        logit_c(x) = log z_c(x)

- `spectral`: first the directions of the features in which that kernel depends most on the support's labels (W*).

The bandwidth of `embedding` is meta-learned. With one example per class it is a prototypical network whose distances
have a learned scale; it starts as one, so that the features of a prototypical network can be used as they are.
`spectral` keeps that start, and looks for directions at the bandwidth of the support's mean distance.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._kernels import center, gaussian, solve, squared_distances
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners._features import by_features, labeled
from fewstep.learners.prototypes import prototypes

START = 0.5**0.5  # at which the kernel of one example is exp(-|a - b|^2), as in a prototypical network


def embedding(network: Network, ways: int, loss: Loss = losses.cross_entropy) -> Learner:
    """The learner with a closed-form head. `network` gives features, `ways` is the number of classes of a task.

    Example::

        learner = embedding(conv4((28, 28, 1), None), ways=5)
    """

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        return _classes(features, labeled(support, ways), _sigma(meta))

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        return _logits(memory, features, _sigma(meta))

    return by_features(network, loss, _bandwidth, keep, compare)


def spectral(network: Network, ways: int, loss: Loss = losses.cross_entropy) -> Learner:
    """The learner that projects the features before the closed-form head. It is trained as a prototypical network is,
    since the directions come from eigenvectors that are looked for until they stay, which has no derivative here.

    Example::

        learner = spectral(conv4((28, 28, 1), None), ways=5)
    """

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        labels = labeled(support, ways)
        features = features * (jnp.sum(labels, 1, keepdims=True) > 0)  # rows of no weight have no say
        width = jnp.asarray(min(2 * ways, features.shape[1]))
        solution = solve(features, center(labels), _mean_distance(features, labels), width, None, features.shape[0])
        return {"weight": solution.weight, **_classes(features @ solution.weight, labels, _sigma(meta))}

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        return _logits(memory, features @ memory["weight"], _sigma(meta))

    head, plain = by_features(network, loss, _bandwidth, keep, compare), prototypes(network, ways, loss)
    return Learner(head.init, plain.loss, head.adapt, head.predict)


def _bandwidth(key: Key[Array, ""]) -> Meta:
    return {"bandwidth": jnp.log(START)}


def _sigma(meta: Meta) -> Float[Array, ""]:
    return jnp.exp(meta["bandwidth"])


def _mean_distance(rows: Float[Array, "rows d"], labels: Float[Array, "rows ways"]) -> Float[Array, ""]:
    here = (jnp.sum(labels, 1) > 0).astype(rows.dtype)
    return jnp.sqrt(here @ squared_distances(rows, rows) @ here) / jnp.maximum(jnp.sum(here), 1) + 1e-6


def _classes(rows: Float[Array, "rows d"], labels: Float[Array, "rows ways"], sigma: Array) -> dict[str, Array]:
    """The support, and the share of each example in its class: one over the length of the class's sum."""
    squares = jnp.sum(labels * (gaussian(rows, rows, sigma) @ labels), 0)
    return {"rows": rows, "shares": labels * jax.lax.rsqrt(jnp.maximum(squares, 1e-12))[None]}


def _logits(memory: dict[str, Array], features: Float[Array, "rows d"], sigma: Array) -> Float[Array, "rows ways"]:
    """log z, summed in logarithms, so that a query far from all classes still has a nearest."""
    near = -squared_distances(features, memory["rows"]) / (2 * jnp.square(sigma))
    shares = memory["shares"].T[None]
    logs = jnp.where(shares > 0, near[:, None] + jnp.log(jnp.where(shares > 0, shares, 1)), -jnp.inf)
    top = jax.lax.stop_gradient(jnp.max(logs, -1, keepdims=True))
    finite = jnp.where(jnp.isfinite(top), top, 0)
    score = jnp.log(jnp.sum(jnp.exp(logs - finite), -1) + 1e-30) + finite[..., 0]
    return jnp.where(jnp.any(shares > 0, -1), score, jnp.finfo(score.dtype).min)  # a class without examples never wins
