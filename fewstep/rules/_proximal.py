r"""The pull to the start: what a task learns stays near what all tasks share.

    g_k = dL_support(fast_k) / dfast_k + strength * F (fast_k - fast_0)        (F by element, 1 without it)

This is gradient descent on `L_support(fast) + strength / 2 * |fast - fast_0|^2`, the inner problem of implicit MAML.
With the diagonal of a Fisher matrix as F it is elastic weight consolidation: what earlier data depend on moves least.

Reference: Rajeswaran, Finn, Kakade & Levine, Meta-Learning with Implicit Gradients, NeurIPS 2019; Kirkpatrick et al.,
Overcoming Catastrophic Forgetting in Neural Networks, PNAS 2017.
"""

from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key, PyTree

from fewstep._episode import Batch
from fewstep._errors import FewstepError
from fewstep._network import Network, flatten
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link


def proximal(
    strength: Annotated[float, "Strength of the pull to the start"] = 1.0,
    *,
    fisher: Annotated[Flat | None, "Weights of the pull by element"] = None,
) -> Rule:
    r"""A pull back to the start of a task, added to the gradient before anything else works on it.

    **Arguments:** `strength`, 0 or more; it is stable while step size times `strength` (times `fisher`) is below 2.
    `fisher` weighs the pull by element, for arrays by path, such as `fisher_diagonal` gives; others are not pulled.

    **Returns:** a link for `chain`: `chain(proximal(1.0), sgd(0.01))`.

    **Reference:** Rajeswaran et al., NeurIPS 2019; Kirkpatrick et al., PNAS 2017.
    """
    if not 0 <= strength < float("inf"):
        raise FewstepError(f"strength is {strength}. A pull must be finite and not negative, such as 1.0.")

    def pulled(gradients: Flat, start: Flat, params: Flat | None = None) -> tuple[Flat, Flat]:
        assert params is not None
        pull = {path: strength * (params[path] - start[path]) for path in gradients}
        if fisher is not None:
            pull = {path: fisher[path] * pull[path] for path in pull if path in fisher}
        return {path: leaf + pull[path] if path in pull else leaf for path, leaf in gradients.items()}, start

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        return optax.GradientTransformation(lambda params: params, pulled)

    return link("proximal", Stage.SHAPE, update=update)


def fisher_diagonal(
    network: Network, weights: PyTree, loss: Callable[[PyTree, Batch], Array], batch: Batch
) -> Flat:  # fmt: skip
    r"""The diagonal of the empirical Fisher matrix: the mean over rows of the squared gradient of the loss of a row.

    **Arguments:** the `weights` of a network, and a `batch` of what they have learned.

    **Returns:** one number for every weight, by path, for `proximal(strength, fisher=...)`.

    Example::

        kept = fisher_diagonal(network, weights, losses.cross_entropy, earlier)
        rule = chain(proximal(10.0, fisher=kept), sgd(0.01))
    """

    def of_row(weights: PyTree, x: PyTree, y: Array) -> Array:
        row = Batch(jax.tree.map(lambda leaf: leaf[None], x), y[None], jnp.ones(1))
        return loss(network.apply(weights, (), row.x, row.weight)[0], row)

    slopes = jax.vmap(jax.grad(of_row), (None, 0, 0))(weights, batch.x, batch.y)
    share = batch.weight / jnp.sum(batch.weight)
    return {path: jnp.tensordot(share, jnp.square(leaf), 1) for path, leaf in flatten(slopes).items()}
