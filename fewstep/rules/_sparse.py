r"""Sparse-MAML: learn which weights a task may move, one by one, without chance.

    fast_{k+1} = fast_k - lr * 1[m >= 0] * dL_support(fast_k) / dfast_k        (product by element)

Going back the step counts as the identity (straight through), so that a weight that is held can be let go again.

Reference: von Oswald et al., Learning Where to Learn: Gradient Sparsity in Meta and Continual Learning, NeurIPS 2021.
"""

import jax
import optax
from jaxtyping import Array, Key

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._mask import mean_by_unit, small_normal


def sparse() -> Rule:
    r"""A bit for every adapted weight, 1 where a learned number is not negative: the same in every task and step.

    The numbers start as the logits of `full_mask` do, from a normal distribution, so that half of the weights move.

    **Returns:** a link for `chain`: `chain(sparse(), sgd(0.01))`.

    **Reference:** von Oswald et al., Learning Where to Learn, NeurIPS 2021.
    """

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        return {
            "sparse": {p: small_normal(jax.random.fold_in(key, n), leaf) for n, (p, leaf) in enumerate(fast.items())}
        }

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        return optax.stateless(lambda steps, params: {p: s * _bits(meta["sparse"][p]) for p, s in steps.items()})

    def units(layers: Layers, meta: Meta, key: Key[Array, ""]) -> Flat:
        """The share of a unit's weights that may move."""
        return mean_by_unit(layers, {path: _bits(numbers) for path, numbers in meta["sparse"].items()})

    return link("sparse", Stage.SCALE, init=init, update=update, units=units)


def _bits(numbers: Array) -> Array:
    return numbers + jax.lax.stop_gradient((numbers >= 0).astype(numbers.dtype) - numbers)
