"""Normalization by step: shift and scale that change at every inner step, in the same way for every task."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Key

from fewstep._errors import FewstepError
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._by_step import at_step, by_step, check_entries


def step_norm(inner_steps: int = 5) -> Rule:
    r"""Learned changes of a normalization's shift and scale: `fast_{k+1} = fast_k + change_k`, whatever the task.

    It takes the place of gradient steps on all adapted arrays that belong to no linear layer. So a normalization has
    parameters of its own after every inner step in training, and keeps the last ones after them. The changes begin at
    0. The network must let a task adapt these arrays, as `conv4(adapt_norm=True)` does.

    **Arguments:** `inner_steps` in training.

    **Returns:** a link for `chain`.

    **Reference:** Antoniou, Edwards & Storkey, How to Train Your MAML, ICLR 2019.
    """
    entries = check_entries(inner_steps)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        paths = [leaf.path for layer in layers if layer.skip for leaf in layer.leaves if leaf.path in fast]
        if not paths:
            raise FewstepError(
                "step_norm changes the shift and scale of a normalization, and this network adapts none. Take a "
                "network that has one, and adapt it: conv4 with `adapt_norm=True`."
            )
        return {"step_norm": {path: jnp.zeros((entries, *fast[path].shape), fast[path].dtype) for path in paths}}

    def update(layers: Layers, meta: Meta, key: Key[Array, ""]) -> optax.GradientTransformation:
        def replaced(steps: Flat, params: Flat, number: Array) -> Flat:
            changes = at_step(meta["step_norm"], number)
            return steps | {path: jnp.where(number < entries, change, 0) for path, change in changes.items()}

        return by_step(replaced)

    return link("step_norm", Stage.REPLACE, init=init, update=update)
