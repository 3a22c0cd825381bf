"""How the outer gradient is taken: through the inner loop, past it, or without it; and over many tasks at once."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key

from fewstep._episode import Batch, Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._learner import Learner
from fewstep._mesh import on_mesh
from fewstep._network import flatten
from fewstep._rule import Meta

Gradient = Callable[[Meta, Key[Array, " tasks"], Episode, Float[Array, " tasks"]], tuple[Array, Meta]]
Outer = Callable[[Learner], Gradient]


def unrolled(learner: Learner) -> Gradient:
    """The exact gradient of the query loss, through all inner steps and their second derivatives."""
    return _by_loss(learner.loss)


def first_order(learner: Learner) -> Gradient:
    """The gradient that takes the inner gradients as constants: cheaper, no second derivatives (FOMAML)."""
    return _by_loss(partial(learner.loss, first_order=True))


def reptile(steps: int = 5, minibatch: int = 10) -> Outer:
    r"""Reptile: the outer gradient is `start - adapted`, after steps on minibatches of support and query together.

    With `optax.sgd(e)` outside, the start moves by `e` times the mean way the tasks went. Nothing but the start gets a
    signal from this, so rules with a metric, a mask, rates or a fixed part are refused.

    **Arguments:** `steps` inner steps, each on a `minibatch` of rows.

    **Reference:** Nichol, Achiam & Schulman, On First-Order Meta-Learning Algorithms, 2018.
    """

    def outer(learner: Learner) -> Gradient:
        def one(meta: Meta, key: Key[Array, ""], episode: Episode) -> tuple[Array, Meta]:
            every: Batch = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *episode)
            begin, back = jax.vjp(lambda m: learner.adapt(m, key, every, 0).fast, meta)
            refuse_without_signal(meta, begin)
            end = learner.adapt(meta, key, every, steps, minibatch=minibatch).fast
            (gradient,) = back(jax.tree.map(jnp.subtract, begin, end))
            return learner.loss(meta, key, episode, first_order=True), gradient

        def gradient(meta: Meta, keys: Any, episodes: Episode, weights: Array) -> tuple[Array, Meta]:
            losses, each = jax.vmap(one, (None, 0, 0))(meta, keys, episodes)
            return losses, jax.tree.map(lambda g: jnp.tensordot(weights, g, 1), each)

        return gradient

    return outer


def refuse_without_signal(meta: Meta, fast: Any) -> None:
    """Raises when Reptile would leave some of the meta-parameters as they are for ever."""
    idle = [name for name in meta if name != "weights"]
    fixed = len(flatten(meta.get("weights", {})).keys() - flatten(fast).keys())
    if idle or fixed:
        what = f"the {' and the '.join(idle)}" if idle else f"{fixed} of the network's arrays, which no task adapts,"
        raise FewstepError(
            f"Reptile cannot train this rule: it only moves the start towards the adapted weights, so {what} would get "
            "no signal. Use outer=unrolled or outer=first_order, or the rule maml; of a conv4, adapt the normalization "
            "too: `adapt_norm=True`."
        )


def _by_loss(loss: Callable[..., Array]) -> Gradient:
    def gradient(meta: Meta, keys: Any, episodes: Episode, weights: Array) -> tuple[Array, Meta]:
        def total(meta: Meta) -> tuple[Array, Array]:
            losses = jax.vmap(loss, (None, 0, 0))(meta, keys, episodes)
            return jnp.sum(weights * losses), losses

        grads, losses = jax.grad(total, has_aux=True)(meta)
        return losses, grads

    return gradient


def task_keys(key: Key[Array, ""], indices: Array) -> tuple[Key[Array, " tasks"], Key[Array, " tasks"]]:
    """For each task, by its number alone, the keys of its data and of its adaptation."""
    keys = jax.vmap(lambda index: jax.random.split(jax.random.fold_in(key, index)))(indices)
    return keys[:, 0], keys[:, 1]


class Drawn(NamedTuple):
    """The tasks of a step: their numbers, the keys of their adaptation, and their data."""

    indices: Int[Array, " tasks"]
    keys: Key[Array, " tasks"]
    episodes: Episode


class OverTasks(NamedTuple):
    """A meta-batch in two parts: `draw(data, key)` makes the tasks of a step, `gradient(meta, drawn)` gives their mean
    loss and gradient. Apart, so that a loop can draw the tasks of several steps at once."""

    draw: Callable[[Any, Key[Array, ""]], Drawn]
    gradient: Callable[[Meta, Drawn], tuple[Array, Meta]]


def over_tasks(
    gradient: Gradient, tasks: Tasks, meta_batch: int, mesh: Mesh | None = None, chunk: int | None = None
) -> OverTasks:
    """The mean loss and gradient over a meta-batch: tasks sharded over the mesh, scanned in chunks on each device.

    A task's keys depend on its number only, so neither devices nor chunks change what is drawn. Copies of the last task
    fill up the last chunk, with weight 0.
    """
    devices = 1 if mesh is None else mesh.size
    share = -(-meta_batch // devices)
    chunk = min(chunk or share, share)
    scans = -(-share // chunk)

    def draw(data: Any, key: Key[Array, ""], indices: Array) -> Drawn:
        # What fills up a chunk repeats the last task: another draw may diverge, and 0 times NaN is NaN.
        of_data, of_task = task_keys(key, jnp.minimum(indices, meta_batch - 1))
        if scans == 1:
            return Drawn(indices, of_task, jax.vmap(tasks.sample, (None, 0))(data, of_data))
        return Drawn(indices, of_task, jax.lax.map(lambda some: tasks.sample(data, some), of_data))

    def of_chunk(meta: Meta, drawn: Drawn) -> tuple[Array, Meta]:
        weights = (drawn.indices < meta_batch) / meta_batch
        losses, grads = gradient(meta, drawn.keys, drawn.episodes, weights)
        return jnp.sum(losses * weights), grads

    def on_device(meta: Meta, drawn: Drawn) -> tuple[Array, Meta]:
        return of_chunk(meta, drawn) if scans == 1 else _in_chunks(partial(of_chunk, meta), scans, drawn)

    drawing, summed = (draw, on_device) if mesh is None else on_mesh(draw, on_device, mesh)
    return OverTasks(lambda data, key: drawing(data, key, jnp.arange(devices * scans * chunk)), summed)


def _in_chunks(of_chunk: Callable[..., Any], scans: int, arrays: Any) -> Any:
    """The sum of what a function gives for each of so many equal chunks of the arrays, one after the other."""
    chunks = jax.tree.map(lambda array: array.reshape(scans, -1, *array.shape[1:]), arrays)
    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(of_chunk, jax.tree.map(lambda array: array[0], chunks)))
    add = lambda sums, some: (jax.tree.map(jnp.add, sums, of_chunk(some)), None)
    return jax.lax.scan(add, nothing, chunks)[0]
