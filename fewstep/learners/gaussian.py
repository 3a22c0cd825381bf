r"""Gaussian processes with a prior that was learned from the training tasks, and the linear mixed-effects model.

A task's curve is y = m(x) + u(x) + noise, with u of mean 0 and covariance k. m, k and the noise are shared by all tasks
and maximize the likelihood of the training tasks; a new task is learned by conditioning on its rows:

    prediction(x) = m(x) + k(x, X) (k(X, X) + noise I)^-1 (y - m(X))

With m a perceptron and k = constant + linear + squared exponential this is the Gaussian process; with both linear it
is the mixed-effects model with a random intercept and random slopes, fully correlated.

Reference: Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006; Laird & Ware, Random-Effects Models for
Longitudinal Data, Biometrics 1982.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._episode import Batch, Episode
from fewstep._learner import Adapted, Learner
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.compute import cholesky, solve_factored, solve_lower
from fewstep.networks.mlp import mlp

Kernel = Callable[[dict[str, Array], Array, Array], Array]
_MIN_NOISE = 1e-4  # of the noise's variance, so that a matrix of few digits can be factored


class Fitting(NamedTuple):
    """How a prior is fitted to the tasks of a table: so many steps on so many tasks, each of so many rows at most, with
    a step size that falls to 0 from this. A prior has few numbers, which begin far from where they belong: with the
    step size of a network they do not arrive."""

    steps: int = 1500
    meta_batch: int = 16
    rows: int = 30
    rate: float = 1e-2


FITTING = Fitting()  # of runs and of the baselines alike


def gaussian(mean: Network, inputs: int) -> Learner:
    """The Gaussian process whose mean is a network and whose kernel has a length for each input.

    Example::

        learner = gaussian(networks.mlp(2, 1, std=None), inputs=2)
    """
    start = {
        "constant": jnp.asarray(-1.0), "linear": jnp.full(inputs, -2.0), "height": jnp.asarray(-1.0),
        "length": jnp.zeros(inputs), "noise": jnp.asarray(-2.0),
    }  # fmt: skip

    def kernel(own: dict[str, Array], a: Array, b: Array) -> Float[Array, "a b"]:
        scaled = lambda x: x / jnp.exp(own["length"])[None]
        apart = jnp.sum(jnp.square(scaled(a)[:, None] - scaled(b)[None]), axis=-1)
        linear = (a * jnp.exp(own["linear"])[None]) @ b.T
        return jnp.exp(own["constant"]) + linear + jnp.exp(own["height"]) * jnp.exp(-apart / 2)

    return conditioned(mean, kernel, start)


def mixed(inputs: int) -> Learner:
    """The linear mixed-effects model: a random intercept and random slopes, with any covariance between them."""
    start = {"root": 0.3 * jnp.eye(inputs + 1), "noise": jnp.asarray(-2.0)}

    def kernel(own: dict[str, Array], a: Array, b: Array) -> Float[Array, "a b"]:
        project = lambda x: jnp.concatenate([jnp.ones((x.shape[0], 1)), x], axis=1) @ jnp.tril(own["root"])
        return project(a) @ project(b).T

    return conditioned(mlp(inputs, 1, hidden=(), std=None), kernel, start)


def conditioned(mean: Network, kernel: Kernel, start: dict[str, Array]) -> Learner:
    """The learner that conditions a Gaussian process on the support. `start` are the kernel's own numbers, the
    logarithm of the `noise` among them."""

    def init(key: Key[Array, ""]) -> Meta:
        return {"weights": mean.init(key), "kernel": start}

    def around(meta: Meta, x: Array) -> Array:
        return mean.apply(meta["weights"], (), x, jnp.ones(x.shape[0]))[0]

    def factored(meta: Meta, batch: Batch) -> tuple[Array, Array]:
        """The factor of the covariance, and what the mean leaves over; a row of weight 0 is apart from all others."""
        there = (batch.weight > 0).astype(batch.x.dtype)
        both = there[:, None] * there[None]
        noise = jnp.exp(meta["kernel"]["noise"]) + _MIN_NOISE
        matrix = both * kernel(meta["kernel"], batch.x, batch.x) + jnp.diag(there * noise + (1 - there))
        return cholesky(matrix), there[:, None] * (batch.y - around(meta, batch.x))

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode) -> Float[Array, ""]:
        """The negative logarithm of the likelihood of all rows, for each row."""
        every: Batch = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *episode)
        root, residual = factored(meta, every)
        white = solve_lower(root, residual)
        return (jnp.sum(jnp.square(white)) / 2 + jnp.sum(jnp.log(jnp.diag(root)))) / jnp.sum(every.weight > 0)

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...]) -> Adapted:
        root, residual = factored(meta, support)
        there = (support.weight > 0).astype(support.x.dtype)[:, None]
        fast = {"x": support.x, "alpha": there * solve_factored(root, residual), "root": root, "there": there}
        once = Adapted(fast, ())
        return once if isinstance(steps, int) else jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), once)

    def predict(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        x = jnp.asarray(x)
        return around(meta, x) + kernel(meta["kernel"], x, adapted.fast["x"]) @ adapted.fast["alpha"]

    def spread(meta: Meta, adapted: Adapted, x: Array, weight: Array | None = None) -> Array:
        """The deviation of a new value: the prior's, less what the support says, and the noise."""
        x, fast = jnp.asarray(x), adapted.fast
        prior = jax.vmap(lambda row: kernel(meta["kernel"], row[None], row[None])[0, 0])(x)
        white = solve_lower(fast["root"], fast["there"] * kernel(meta["kernel"], fast["x"], x))
        noise = jnp.exp(meta["kernel"]["noise"]) + _MIN_NOISE
        variance = jnp.maximum(prior - jnp.sum(jnp.square(white), axis=0), 0.0) + noise
        return jnp.broadcast_to(jnp.sqrt(variance)[:, None], (x.shape[0], fast["alpha"].shape[1]))

    return Learner(init, loss, adapt, predict, spread=spread)
