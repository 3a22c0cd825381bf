"""The inner loop: the only one. A learner adapts to a support set and predicts on the query."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, SupportsIndex, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._contract import AFTER_TRAINING, Carry, Init, Step, Steps, accepting, counts_of
from fewstep._contract import Adapted as Adapted
from fewstep._contract import Learner as Learner
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._network import Network, flatten, unflatten
from fewstep._rule import Flat, Meta, Rule, SupportLoss, chain, own_names
from fewstep._streams import INNER_LOSS, MINIBATCHES
from fewstep.compute import uphill


class Context(NamedTuple):
    """What a loss may know beside prediction and batch, if it has a parameter named `context`.

    `outer_step` counts the steps of training from 0. Outside of training it is 2**31 - 1, so that whatever is annealed
    has ended. `inner_step` counts the inner steps taken before, and `fast` are the weights that made the prediction.
    """

    outer_step: Step
    inner_step: Step
    fast: Flat


@runtime_checkable
class LossInContext(Protocol):
    """A loss that asks for the context."""

    def __call__(self, prediction: PyTree, batch: Batch, /, *, context: Context) -> Float[Array, ""]: ...


@runtime_checkable
class InnerLossInContext(Protocol):
    """An inner loss that asks for the context."""

    def __call__(self, meta: Meta, prediction: PyTree, batch: Batch, /, *, context: Context) -> Float[Array, ""]: ...


Loss = Callable[[PyTree, Batch], Float[Array, ""]]
InnerLoss = Callable[[Meta, PyTree, Batch], Float[Array, ""]] | InnerLossInContext


class LearnedLoss(NamedTuple):
    """An inner loss with meta-parameters of its own: `init(key)` makes them, as a dict, and `loss` finds them in meta.

    Reference: Bechtle et al., Meta-Learning via Learned Loss, ICPR 2020.
    """

    init: Init
    loss: InnerLoss


def gradient_learner(
    network: Network,
    rule: Rule,
    loss: Loss | LossInContext,
    *,
    steps: SupportsIndex = 1,
    inner_loss: InnerLoss | LearnedLoss | None = None,
    remat: bool = False,
    multi_step: SupportsIndex = 0,
) -> Learner:
    """Makes the learner that adapts a network by a few gradient steps of a rule.

    **Arguments:** `loss(prediction, batch)` on the query, and on the support too unless `inner_loss(meta, prediction,
    batch)` is given, or a `LearnedLoss`; a loss with a parameter named `context` is given a `Context` there; `steps`
    the inner steps in training; `remat` computes each inner step again on the way back, so that a step costs memory for
    the adapted weights only, and none for what the network computed from them; `multi_step`, in how many of the first
    outer steps the query loss after every inner step counts, the last one more and more (as in MAML++).

    **Returns:** a `Learner`.

    Example::

        learner = gradient_learner(mlp(), mtnet(0.01), squared_error)
    """
    layers, rule = network.layers, chain(rule)
    (training_steps,), (multi_step,) = counts_of(steps), counts_of(multi_step)
    query_loss, learned = accepting(loss, "context"), _learned(loss, inner_loss)
    inner = accepting(learned.loss, "context")

    def init(key: Key[Array, ""]) -> Meta:
        of_network, of_rule = jax.random.split(key)
        weights = network.init(of_network)
        movable = _movable(network, weights)
        if not movable:
            raise FewstepError(
                "The network has no array that a task may move: it has none at all, or all are frozen. Give it "
                "parameters, or leave some out of `frozen`."
            )
        meta = {"weights": weights, **rule.init(layers, of_rule, movable)}
        return meta | own_names("inner loss", learned.init(jax.random.fold_in(key, INNER_LOSS)), meta)

    def forward(meta: Meta, fast: Flat, state: PyTree, x: PyTree, weight: Array) -> tuple[PyTree, PyTree]:
        params = rule.realize(layers, meta, flatten(meta["weights"]) | fast)
        return network.apply(unflatten(meta["weights"], params), state, x, weight)

    def step(
        meta: Meta, key: Key[Array, ""], support: Batch, *, first_order: bool = False, minibatch: int | None = None,
        step_scale: float | Float[Array, ""] | None = None, sharpness: float = 0.0, outer_step: Step = AFTER_TRAINING,
    ) -> Steps:  # fmt: skip
        optimizer = optax.with_extra_args_support(rule.update(layers, meta, key))
        given: SupportLoss = partial(inner, meta)
        support_loss = rule.loss(layers, meta, given) if rule.loss else given
        of_batches = jax.random.fold_in(key, MINIBATCHES)

        def take(carry: Carry, number: Step) -> Carry:
            batch = support if minibatch is None else _draw(support, jax.random.fold_in(of_batches, number), minibatch)

            def of_fast(fast: Flat) -> Float[Array, ""]:
                prediction, _ = forward(meta, fast, (), batch.x, batch.weight)
                return support_loss(prediction, batch, context=Context(outer_step, number, fast))

            slope = jax.value_and_grad(of_fast)
            value, gradient = slope(carry.fast)
            if sharpness:
                _, gradient = slope(uphill(carry.fast, gradient, sharpness))
            value, gradient = jax.lax.stop_gradient((value, gradient)) if first_order else (value, gradient)
            updates, memory = optimizer.update(gradient, carry.memory, carry.fast, value=value)
            updates = updates if step_scale is None else jax.tree.map(lambda update: step_scale * update, updates)
            return Carry(optax.apply_updates(carry.fast, updates), memory)

        fast = rule.start(layers, meta, _movable(network, meta["weights"]))
        return Steps(Carry(fast, optimizer.init(fast)), take)

    def adapted_at(meta: Meta, fast: Flat, support: Batch) -> Adapted:
        return Adapted(fast, forward(meta, fast, (), support.x, support.weight)[1])

    def adapt(
        meta: Meta, key: Key[Array, ""], support: Batch, steps: int | tuple[int, ...] | Int[Array, ""], **options: Any
    ) -> Adapted:
        carry, take = step(meta, key, support, **options)
        if isinstance(steps, jax.Array):
            carry = jax.lax.fori_loop(0, steps, lambda number, carry: take(carry, number), carry)
            return adapted_at(meta, carry.fast, support)
        body = lambda carry, number: (take(carry, number), None)
        body, taken, every = jax.checkpoint(body) if remat else body, 0, []
        for count in (steps,) if isinstance(steps, int) else steps:
            carry, _ = jax.lax.scan(body, carry, jnp.arange(taken, count), unroll=count - taken == 1)
            taken = count
            every.append(adapted_at(meta, carry.fast, support))
        return every[0] if isinstance(steps, int) else jax.tree.map(lambda *leaves: jnp.stack(leaves), *every)

    def predict(meta: Meta, adapted: Adapted, x: PyTree, weight: Array | None = None) -> PyTree:
        weight = jnp.ones(jax.tree.leaves(x)[0].shape[0]) if weight is None else weight
        return forward(meta, adapted.fast, adapted.state, x, weight)[0]

    def episode_loss(
        meta: Meta, key: Key[Array, ""], episode: Episode, *,
        first_order: bool = False, sharpness: float = 0.0, fast: Flat | None = None, outer_step: Step = AFTER_TRAINING,
    ) -> Float[Array, ""]:  # fmt: skip
        support, query = episode

        def after(count: Step, adapted: Adapted) -> Float[Array, ""]:
            context = Context(outer_step, count, adapted.fast)
            return query_loss(predict(meta, adapted, query.x, query.weight), query, context=context)

        if fast is not None:
            return after(training_steps, adapted_at(meta, fast, support))
        options = {"first_order": first_order, "sharpness": sharpness, "outer_step": outer_step}
        if not multi_step or training_steps < 2:
            return after(training_steps, adapt(meta, key, support, training_steps, **options))
        every = adapt(meta, key, support, tuple(range(1, training_steps + 1)), **options)
        shares = _shares(outer_step / multi_step, training_steps)
        return jax.lax.cond(
            outer_step < multi_step,
            lambda: jnp.vdot(shares, jax.vmap(after)(jnp.arange(1, training_steps + 1), every)),
            lambda: after(training_steps, jax.tree.map(lambda leaf: leaf[-1], every)),
        )

    return Learner(init, episode_loss, adapt, predict, step)


def _learned(loss: Loss | LossInContext, inner: InnerLoss | LearnedLoss | None) -> LearnedLoss:
    """The loss on the support, with what makes its meta-parameters; that of the query unless there is one."""
    if isinstance(inner, LearnedLoss):
        return inner
    of_query = accepting(loss, "context")
    same = lambda meta, prediction, batch, *, context: of_query(prediction, batch, context=context)
    return LearnedLoss(lambda key: {}, inner or same)


def _shares(done: float | Float[Array, ""], steps: int) -> Float[Array, " steps"]:
    """How much the query loss after each inner step counts, when so much of the multi-step loss's time is over: all the
    same at first, and in the end only the last."""
    return jnp.full(steps, (1 - done) / steps).at[-1].add(done)


def _movable(network: Network, weights: PyTree) -> Flat:
    return {path: leaf for path, leaf in flatten(weights).items() if path not in network.frozen}


def _draw(support: Batch, key: Key[Array, ""], rows: int) -> Batch:
    """A minibatch without repetition; rows of weight 0 come last."""
    order = jnp.argsort(jax.random.uniform(key, support.weight.shape) + (support.weight == 0))
    return jax.tree.map(lambda array: array[order[:rows]], support)
