r"""LLAMA: how sure a task's adapted weights are, by Laplace's approximation around them, as intervals of predictions.

    p(fast | support) ~ N(fast_K, H^-1),    H = J' J / noise^2 + I / width^2        J: slopes of the predictions on it
    var(x) = noise^2 + j(x) H^-1 j(x)'
           = noise^2 + width^2 (k(x, x) - k(x, S) (k(S, S) + (noise / width)^2 I)^-1 k(S, x))

j(x) are the slopes of the prediction at x, and k(x, z) = j(x) j(z)' is the tangent kernel at the adapted weights: no
matrix is larger than the support. J' J is the Gauss-Newton form of the Hessian. noise and width are meta-learned: the
query is likeliest under the prediction and this variance. The adapted weights and the prediction are those of the
learner alone. With `determinant` above 0 its loss gets `determinant * log det H`, as in the paper, up to a constant.

Reference: Grant, Finn, Levine, Darrell & Griffiths, Recasting Gradient-Based Meta-Learning as Hierarchical Bayes, ICLR
2018; Immer, Korzepa & Bauer, Improving Predictions of Bayesian Neural Nets via Local Linearization, AISTATS 2021.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep._contract import Steps
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._learner import Adapted, Learner
from fewstep._rule import Meta
from fewstep.compute import cholesky, solve_lower
from fewstep.learners._process import log_likelihood
from fewstep.losses import weighted_mean

Slopes = Float[Array, "predictions weights"]
_ROWS = 64  # whose slopes are in memory at once
_NOISE, _WIDTH = -1.0, -2.0  # where the logarithms of noise and width begin


def laplace(
    learner: Learner,
    steps: int = 1,
    *,
    determinant: Annotated[float, "Weight of the log determinant of the posterior's precision in the loss"] = 0.0,
) -> Learner:
    """The learner with a standard deviation for each number that it predicts, of the noise and of the adapted weights.

    **Arguments:** a `learner` of numbers that learns by gradient `steps`, so many in training; `determinant`, 1e-6 in
    the paper, costs derivatives of the slopes.

    Example::

        learner = laplace(gradient_learner(mlp(), maml(0.01), squared_error))
    """
    if not 0 <= determinant < float("inf"):
        raise FewstepError(f"determinant is {determinant}. A weight must be finite and not negative, such as 1e-6.")

    def init(key: Key[Array, ""]) -> Meta:
        return learner.init(key) | {"laplace": {"noise": jnp.asarray(_NOISE), "width": jnp.asarray(_WIDTH)}}

    def adapt(meta: Meta, key: Key[Array, ""], support: Batch, steps: Any, **options: Any) -> Adapted:
        fast, state = learner.adapt(meta, key, support, steps, **options)
        rows = support.x, support.weight
        if isinstance(steps, tuple):
            rows = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (len(steps), *leaf.shape)), rows)
        return Adapted(fast, (state, rows))

    def inner(adapted: Adapted) -> Adapted:
        return adapted._replace(state=adapted.state[0])

    def predict(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree:
        return learner.predict(meta, inner(adapted), x, weight)

    def slopes(meta: Meta, adapted: Adapted, row: PyTree) -> Slopes:
        """Those of each number that is predicted for a row, in the adapted weights."""
        one = jax.tree.map(lambda leaf: leaf[None], row)
        of_fast = lambda fast: learner.predict(meta, inner(adapted._replace(fast=fast)), one)[0]
        by_array = jax.jacrev(of_fast)(adapted.fast)
        return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in by_array.values()], axis=1)

    def factor(meta: Meta, adapted: Adapted) -> tuple[Slopes, Float[Array, "predictions predictions"]]:
        """The slopes at the support, times width over noise, and the factor of their kernel plus 1."""
        x, weight = adapted.state[1]
        of_rows = jax.vmap(lambda row, weight: jnp.sqrt(weight) * slopes(meta, adapted, row))(x, weight)
        ratio = jnp.exp(meta["laplace"]["width"] - meta["laplace"]["noise"])
        own = ratio * of_rows.reshape(-1, of_rows.shape[2])
        return own, cholesky(own @ own.T + jnp.eye(len(own)))

    def spread(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> Float[Array, "rows outputs"]:
        own, lower = factor(meta, adapted)
        noise, width = (jnp.exp(2 * meta["laplace"][name]) for name in ("noise", "width"))

        def of_row(row: PyTree) -> Float[Array, " outputs"]:
            here = slopes(meta, adapted, row)
            known = jnp.sum(jnp.square(solve_lower(lower, own @ here.T)), axis=0)
            return jnp.sqrt(noise + width * jnp.maximum(jnp.sum(jnp.square(here), axis=1) - known, 0.0))

        return jax.lax.map(of_row, x, batch_size=_ROWS)

    def loss(meta: Meta, key: Key[Array, ""], episode: Episode, **options: Any) -> Float[Array, ""]:
        support, query = episode
        whole = learner.loss(meta, key, episode, **options)
        fixed = {name: part if name == "laplace" else jax.lax.stop_gradient(part) for name, part in meta.items()}
        adapted = adapt(fixed, key, support, steps, **options)
        mean = predict(fixed, adapted, query.x, query.weight)
        likely = weighted_mean(log_likelihood(mean, spread(fixed, adapted, query.x), query.y), query.weight)
        whole += jax.lax.stop_gradient(likely) - likely  # 0, with the slope of a likelihood in noise and width
        if determinant:
            held = meta | {"laplace": fixed["laplace"]}
            _, lower = factor(held, adapt(held, key, support, steps, **options))
            whole += determinant * 2 * jnp.sum(jnp.log(jnp.diagonal(lower)))
        return whole

    def step(meta: Meta, key: Key[Array, ""], support: Batch, **options: Any) -> Steps:
        assert learner.step is not None
        return learner.step(meta, key, support, **options)

    return Learner(init, loss, adapt, predict, None if learner.step is None else step, spread)
