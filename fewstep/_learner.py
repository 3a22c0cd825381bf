"""The inner loop: the only one. A learner adapts to a support set and predicts on the query."""

from collections.abc import Callable
from typing import Any, SupportsIndex

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._contract import Adapted as Adapted
from fewstep._contract import Learner as Learner
from fewstep._contract import counts_of
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._network import Network, flatten, unflatten
from fewstep._rule import Flat, Meta, Rule, chain

Loss = Callable[[Any, Batch], Float[Array, ""]]
InnerLoss = Callable[[Meta, Any, Batch], Float[Array, ""]]
_BATCHES = 2**31 - 1  # a number that no link of a chain has: what the rule draws and the minibatches never meet


def gradient_learner(
    network: Network,
    rule: Rule,
    loss: Loss,
    *,
    steps: SupportsIndex = 1,
    inner_loss: InnerLoss | None = None,
    remat: bool = False,
) -> Learner:
    """Makes the learner that adapts a network by a few gradient steps of a rule.

    **Arguments:** `loss(prediction, batch)` on the query, and on the support too unless `inner_loss(meta, prediction,
    batch)` is given; `steps` the inner steps in training; `remat` computes each inner step again on the way back, so
    that a step costs memory for the adapted weights only, and none for what the network computed from them.

    **Returns:** a `Learner`.

    Example::

        learner = gradient_learner(mlp(), mtnet(0.01), squared_error)
    """
    layers, rule, training_steps = network.layers, chain(rule), counts_of(steps)
    inner: InnerLoss = inner_loss or (lambda meta, prediction, batch: loss(prediction, batch))

    def init(key: Key[Array, ""]) -> Meta:
        of_network, of_rule = jax.random.split(key)
        weights = network.init(of_network)
        movable = _movable(network, weights)
        if not movable:
            raise FewstepError(
                "The network has no array that a task may move: it has none at all, or all are frozen. Give it "
                "parameters, or leave some out of `frozen`."
            )
        return {"weights": weights, **rule.init(layers, of_rule, movable)}

    def forward(meta: Meta, fast: Flat, state: PyTree, x: Any, weight: Array) -> tuple[Any, PyTree]:
        params = rule.realize(layers, meta, flatten(meta["weights"]) | fast)
        return network.apply(unflatten(meta["weights"], params), state, x, weight)

    def adapt(
        meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...] | Int[Array, ""], *,
        first_order: bool = False, minibatch: int | None = None, pace: float | Float[Array, ""] | None = None,
    ) -> Adapted:  # fmt: skip
        optimizer, of_batches = rule.update(layers, meta, key), jax.random.fold_in(key, _BATCHES)

        def step(carry: tuple[Flat, Any], number: Array) -> tuple[tuple[Flat, Any], None]:
            fast, memory = carry
            batch = support if minibatch is None else _draw(support, jax.random.fold_in(of_batches, number), minibatch)
            gradient = jax.grad(lambda f: inner(meta, forward(meta, f, (), batch.x, batch.weight)[0], batch))(fast)
            gradient = jax.lax.stop_gradient(gradient) if first_order else gradient
            updates, memory = optimizer.update(gradient, memory, fast)
            updates = updates if pace is None else jax.tree.map(lambda update: pace * update, updates)
            return (optax.apply_updates(fast, updates), memory), None

        fast = rule.start(layers, meta, _movable(network, meta["weights"]))
        carry, taken, reached = (fast, optimizer.init(fast)), 0, []
        body = jax.checkpoint(step) if remat else step
        if isinstance(steps, jax.Array):
            reached.append(jax.lax.fori_loop(0, steps, lambda number, carry: step(carry, number)[0], carry)[0])
        for count in () if isinstance(steps, jax.Array) else (steps,) if isinstance(steps, int) else steps:
            carry, _ = jax.lax.scan(body, carry, jnp.arange(taken, count), unroll=count - taken == 1)
            taken = count
            reached.append(carry[0])
        states = [forward(meta, fast, (), support.x, support.weight)[1] for fast in reached]
        every = [Adapted(fast, state) for fast, state in zip(reached, states, strict=True)]
        if isinstance(steps, int | jax.Array):
            return every[0]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)

    def predict(meta: Meta, adapted: Adapted, x: Any, weight: Array | None = None) -> Any:
        weight = jnp.ones(jax.tree.leaves(x)[0].shape[0]) if weight is None else weight
        return forward(meta, adapted.fast, adapted.state, x, weight)[0]

    def episode_loss(
        meta: Meta, key: Key[Array, ""], episode: Episode, *, first_order: bool = False
    ) -> Float[Array, ""]:
        adapted = adapt(meta, key, episode.support, training_steps, first_order=first_order)
        return loss(predict(meta, adapted, episode.query.x, episode.query.weight), episode.query)

    return Learner(init, episode_loss, adapt, predict)


def _movable(network: Network, weights: PyTree) -> Flat:
    return {path: leaf for path, leaf in flatten(weights).items() if path not in network.frozen}


def _draw(support: Batch, key: Key[Array, ""], rows: int) -> Batch:
    """A minibatch without repetition; rows of weight 0 come last."""
    order = jnp.argsort(jax.random.uniform(key, support.weight.shape) + (support.weight == 0))
    return jax.tree.map(lambda array: array[order[:rows]], support)
