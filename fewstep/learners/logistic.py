r"""Logistic regression for each task from scratch, on the features of a network: what most people would fit.

    min_{W, b}  |W|^2 / 2 + C sum_i d_i loss(f(x_i) W + b, y_i)

d are the weights of the rows; W has a penalty, b has none, as in scikit-learn. It is solved by damped Newton steps in
the space of the support's rows, which are few: W = F' A. The derivative of the solution is that of one last Newton
step, by the implicit function theorem; so C, and the network if it has weights, can be meta-learned.

Reference: Tian, Wang, Krishnan, Tenenbaum & Isola, Rethinking Few-Shot Image Classification, ECCV 2020.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import bicgstab
from jaxtyping import Array, Float, Key

from fewstep import losses
from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._learner import Learner, Loss
from fewstep._network import Network
from fewstep._rule import Meta
from fewstep.learners._features import by_features

_NEWTON, _ITERATIONS = 8, 60  # steps, and those of the linear solver in each
_DAMPING = (1.0, 0.5, 0.25, 0.1, 0.01)


class Line(NamedTuple):
    """Logits on the support: one column of `rows` for each class, in an orthogonal basis of the rows, and a `bias`."""

    rows: Float[Array, "rows ways"]
    bias: Float[Array, " ways"]


def logistic(
    network: Network,
    ways: int,
    *,
    inverse_penalty: Annotated[float, "C of the logistic regression: where it begins, as it is meta-learned."] = 1.0,
    loss: Loss = losses.cross_entropy,
) -> Learner:
    """The learner that fits a logistic regression. `network` gives features, `ways` is the number of classes.

    Example::

        learner = logistic(conv4((28, 28, 1), None), ways=5)
    """
    if inverse_penalty <= 0:
        raise FewstepError(f"`inverse_penalty` is {inverse_penalty}. It must be above 0.")

    def init(key: Key[Array, ""]) -> Meta:
        return {"logistic": {"log_inverse_penalty": jnp.log(jnp.asarray(inverse_penalty))}}

    def keep(meta: Meta, features: Float[Array, "rows d"], support: Batch) -> dict[str, Array]:
        there = (support.weight > 0)[:, None]
        features = jnp.where(there, features, 0.0)
        weight = jnp.exp(meta["logistic"]["log_inverse_penalty"]) * support.weight
        labels = jax.nn.one_hot(support.y, ways)
        gram = features @ features.T
        solution = fit(gram, labels, weight)
        return {"kernel": features.T @ solution.rows, "bias": solution.bias}

    def compare(meta: Meta, memory: dict[str, Array], features: Float[Array, "rows d"]) -> Float[Array, "rows ways"]:
        return features @ memory["kernel"] + memory["bias"][None]

    return by_features(network, loss, init, keep, compare)


def fit(gram: Float[Array, "n n"], labels: Float[Array, "n ways"], weight: Float[Array, " n"]) -> Line:
    """The coefficients A and the bias b that minimize tr(A' G A) / 2 + sum of the weighted losses of G A + b."""
    start = Line(jnp.zeros_like(labels), jnp.zeros_like(labels[0]))
    fixed = jax.lax.stop_gradient((gram, weight))
    near = jax.lax.fori_loop(0, _NEWTON, lambda n, line: _damped(line, fixed[0], labels, fixed[1]), start)
    return _step(jax.lax.stop_gradient(near), gram, labels, weight)


def _value(line: Line, gram: Array, labels: Array, weight: Array) -> Float[Array, ""]:
    logits = gram @ line.rows + line.bias[None]
    lost = jax.nn.logsumexp(logits, axis=1) - jnp.sum(logits * labels, axis=1)
    return jnp.sum(line.rows * (gram @ line.rows)) / 2 + jnp.sum(weight * lost)


def _damped(line: Line, gram: Array, labels: Array, weight: Array) -> Line:
    """The best of some shares of a Newton step, or none."""
    away = _direction(line, gram, labels, weight)
    shares = jnp.asarray((*_DAMPING, 0.0), gram.dtype)
    moved = lambda share: jax.tree.map(lambda a, b: a + share * b, line, away)
    values = jax.vmap(lambda share: _value(moved(share), gram, labels, weight))(shares)
    return moved(shares[jnp.argmin(values)])


def _step(line: Line, gram: Array, labels: Array, weight: Array) -> Line:
    """A whole step, or none where it leads far away: the linear solver can break down near the solution, where what is
    left is rounding."""
    moved = jax.tree.map(jnp.add, line, _direction(line, gram, labels, weight))
    before, after = (jax.lax.stop_gradient(_value(at, gram, labels, weight)) for at in (line, moved))
    return jax.tree.map(lambda old, new: jnp.where(after <= 1.1 * before, new, old), line, moved)


def _direction(line: Line, gram: Array, labels: Array, weight: Array) -> Line:
    """The Newton step: (S G + I) dA = -(A + wR) and what goes with it for the bias, with R = P - Y.

    The gradient is (G (A + wR), sum of wR). Dividing the first by G leaves a system that is well conditioned where G is
    not, but not symmetric. All biases together change nothing, so a part of their mean is added, which is 0 at the
    solution: the solver would wander there. Where it breaks down, the right side stands for the step: the gradient in
    the same sense.
    """
    share = jax.nn.softmax(gram @ line.rows + line.bias[None], axis=1)

    def curved(logits: Array) -> Array:
        inner = share * logits
        return weight[:, None] * (inner - share * jnp.sum(inner, axis=1, keepdims=True))

    def product(v: Line) -> Line:
        moved = curved(gram @ v.rows + v.bias[None])
        return Line(v.rows + moved, jnp.sum(moved, axis=0) + jnp.sum(weight) * jnp.mean(v.bias, keepdims=True))

    wrong = weight[:, None] * (share - labels)
    right = Line(-(line.rows + wrong), -jnp.sum(wrong, axis=0))
    solved: Line = bicgstab(product, right, tol=1e-6, atol=0.0, maxiter=_ITERATIONS)[0]
    whole = jnp.isfinite(solved.bias).all() & jnp.isfinite(solved.rows).all()
    return jax.tree.map(lambda step, gradient: jnp.where(whole, step, gradient), solved, right)
