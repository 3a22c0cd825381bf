"""A learned loss: a small network adds to the loss on the support, by each inner step and what the task looks like."""

from functools import partial
from typing import Annotated

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep._episode import Batch
from fewstep._learner import Context
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, SupportLoss, link
from fewstep.losses import weighted_mean
from fewstep.rules._by_step import at_step, check_entries
from fewstep.rules._perceptron import check_width, perceive, perceptron


def learned_loss(inner_steps: int = 5, *, width: Annotated[int, "Units of a learned loss's network"] = 20) -> Rule:
    r"""A learned term of the loss on the support: `L(fast) + mean_i sum_j network_k(p_ij, e_ij, l_i; tau)`.

    `p` is the prediction, `l` the loss of a row and `e = dl/dp`, so that any loss and any number of outputs will do.
    `tau` is the state of the task: the loss of the whole support and the mean of every adapted array. Each inner step
    has a network of its own; steps after the last one in training use its network. The term starts at 0. It sees the
    support alone (inductive).

    **Arguments:** `inner_steps` in training; `width`, the units of the networks.

    **Returns:** a link for `chain`.

    **Reference:** Baik et al., Meta-Learning with Task-Adaptive Loss Function for Few-Shot Learning, ICCV 2021.
    """
    entries = check_entries(inner_steps)
    check_width(width)

    def init(layers: Layers, key: Key[Array, ""], fast: Flat) -> Meta:
        dtype = jnp.promote_types(next(iter(fast.values())).dtype, jnp.float32)
        made = lambda one: perceptron(one, 4 + len(fast), width, 1, dtype)
        return {"learned_loss": jax.vmap(made)(jax.random.split(key, entries))}

    def loss(layers: Layers, meta: Meta, support_loss: SupportLoss) -> SupportLoss:
        def with_term(prediction: Array, batch: Batch, *, context: Context) -> Float[Array, ""]:
            whole = support_loss(prediction, batch, context=context)
            state = jnp.stack([jnp.log1p(jnp.abs(whole)), *(leaf.mean() for _, leaf in sorted(context.fast.items()))])
            features = _features(partial(support_loss, context=context), prediction, batch, state)
            terms = perceive(at_step(meta["learned_loss"], context.inner_step), features)[..., 0]
            return whole + weighted_mean(terms.reshape(terms.shape[0], -1).sum(1), batch.weight).astype(whole.dtype)

        return with_term

    # In the last stage `init` is given all that any other link lets a task adapt.
    return link("learned_loss", Stage.SCALE, init=init, loss=loss)


def _features(of_rows: SupportLoss, prediction: Array, batch: Batch, state: Float[Array, " states"]) -> Array:
    """For every number predicted: itself, the loss of its row and the derivative of that, and the state of the task."""

    def of_row(predicted: Array, x: PyTree, y: Array) -> Float[Array, ""]:
        return of_rows(predicted[None], Batch(jax.tree.map(lambda leaf: leaf[None], x), y[None], jnp.ones(1)))

    values, slopes = jax.vmap(jax.value_and_grad(of_row))(prediction, batch.x, batch.y)
    spread = lambda value: jnp.broadcast_to(value.reshape(-1, *[1] * (prediction.ndim - 1)), prediction.shape)
    states = jnp.broadcast_to(state, (*prediction.shape, state.shape[0]))
    return jnp.concatenate([jnp.stack([prediction, slopes, spread(jnp.log1p(jnp.abs(values)))], -1), states], -1)
