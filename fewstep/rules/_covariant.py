r"""MetaNCoV: the network's weights are a learned, non-linear and non-injective function of what a task adapts.

    z_0 = 0,    w(z) = z + D sigmoid(A z + b),    z_{k+1} = z_k - lr * (dL_support(w(z_k)) / dz_k + decay * z_k)

h hidden units see all adapted arrays together. A starts at 0 and b from a standard normal distribution. Every column of
D starts as the network's weights W over h; here it is W / h plus a column that starts at 0, so that W stays the start
that is meta-learned. With A = 0 and without decay a step is that of MAML from the start D sigmoid(b).

Reference: Zhang, Sadeghi & Giannakis, Meta-Learning Universal Priors Using Non-Injective Change of Variables, NeurIPS
2024.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._errors import FewstepError
from fewstep._network import flatten
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link


def covariant(
    *,
    hidden_units: Annotated[int, "Hidden units of the function that gives the weights"] = 10,
    decay: Annotated[float, "Decay of what a task adapts, to zero, in each step"] = 0.01,
) -> Rule:
    r"""Weights as a learned function of an adapted part, which starts at zero in every task.

    There are 2 `hidden_units` + 1 meta-parameters for every weight.

    **Arguments:** the number of `hidden_units`, and the `decay`, 0 or more; the authors take 10 units for one shot, 5
    for five, and a decay of 0.01.

    **Returns:** a link for `chain`: `chain(covariant(), sgd(0.01))`.

    **Reference:** Zhang, Sadeghi & Giannakis, NeurIPS 2024.
    """
    if hidden_units < 1:
        raise FewstepError(f"hidden_units is {hidden_units}. The function needs at least 1.")
    if not 0 <= decay < float("inf"):
        raise FewstepError(f"decay is {decay}. It must be finite and not negative, such as 0.01.")

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        nothing = {path: jnp.zeros((hidden_units, *leaf.shape), leaf.dtype) for path, leaf in fast.items()}
        bias = jax.random.normal(key, (hidden_units,), next(iter(fast.values())).dtype)
        return {"covariant": {"in": nothing, "bias": bias, "out": nothing}}

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        return {path: jnp.zeros_like(leaf) for path, leaf in fast.items()}

    def realize(layers: Layers, meta: Meta, params: Flat) -> Flat:
        own, weights = meta["covariant"], flatten(meta["weights"])
        seen = sum((jnp.tensordot(own["in"][path], params[path], params[path].ndim) for path in own["in"]), own["bias"])
        active = jax.nn.sigmoid(seen)
        moved = {
            path: params[path] + weights[path] * active.mean() + jnp.tensordot(active, out, 1)
            for path, out in own["out"].items()
        }
        return params | {path: leaf.astype(params[path].dtype) for path, leaf in moved.items()}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        return optax.add_decayed_weights(decay)

    return link("covariant", Stage.SHAPE, init=init, start=start, realize=realize, update=update)
