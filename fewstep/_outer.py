"""The outer gradient of many tasks at once. How it is taken for each of them: `fewstep.outers`."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._contract import AFTER_TRAINING, Learner, Step, accepting
from fewstep._episode import Episode, Tasks
from fewstep._rule import Meta
from fewstep.compute import on_mesh


@runtime_checkable
class Gradient(Protocol):
    """The loss of each of several tasks, and the sum over them of weight times gradient.

    A task of weight 0 fills up a batch and must change nothing. A function with a parameter named `outer_step` is given
    the step of training there, counted from 0.
    """

    def __call__(
        self, meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Float[Array, " tasks"], /
    ) -> tuple[Float[Array, " tasks"], Meta]: ...


@runtime_checkable
class Outer(Protocol):
    """A way to take the outer gradient: given a learner, once, it makes the `Gradient` that training calls."""

    def __call__(self, learner: Learner, /) -> Gradient: ...


def loss_gradient(learner: Learner, *, first_order: bool = False) -> Gradient:
    """The gradient of a learner's loss, through all that the loss computes; past the inner gradients, if asked."""

    def gradient(
        meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *, outer_step: Step = AFTER_TRAINING
    ) -> tuple[Array, Meta]:
        one = partial(learner.loss, first_order=first_order, outer_step=outer_step)

        def total(meta: Meta) -> tuple[Array, Array]:
            losses = jax.vmap(one, (None, 0, 0))(meta, keys, episodes)
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
    """A meta-batch in two parts: `draw(data, key)` makes the tasks of a step, `gradient(meta, drawn, outer_step)` gives
    their mean loss and gradient. Apart, so that a loop can draw the tasks of several steps at once."""

    draw: Callable[[PyTree, Key[Array, ""]], Drawn]
    gradient: Callable[..., tuple[Array, Meta]]


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
    of_tasks = accepting(gradient, "outer_step")

    def draw(data: PyTree, key: Key[Array, ""], indices: Array) -> Drawn:
        # What fills up a chunk repeats the last task: another draw may diverge, and 0 times NaN is NaN.
        of_data, of_task = task_keys(key, jnp.minimum(indices, meta_batch - 1))
        if scans == 1:
            return Drawn(indices, of_task, jax.vmap(tasks.sample, (None, 0))(data, of_data))
        return Drawn(indices, of_task, jax.lax.map(lambda some: tasks.sample(data, some), of_data))

    def of_chunk(meta: Meta, outer_step: Step, drawn: Drawn) -> tuple[Array, Meta]:
        weights = (drawn.indices < meta_batch) / meta_batch
        losses, grads = of_tasks(meta, drawn.keys, drawn.episodes, weights, outer_step=outer_step)
        return jnp.sum(losses * weights), grads

    def on_device(meta: Meta, drawn: Drawn, outer_step: Step) -> tuple[Array, Meta]:
        of_some = partial(of_chunk, meta, outer_step)
        return of_some(drawn) if scans == 1 else _in_chunks(of_some, scans, drawn)

    drawing, summed = (draw, on_device) if mesh is None else on_mesh(draw, on_device, mesh)
    return OverTasks(
        lambda data, key: drawing(data, key, jnp.arange(devices * scans * chunk)),
        lambda meta, drawn, outer_step=AFTER_TRAINING: summed(meta, drawn, jnp.asarray(outer_step)),
    )


def _in_chunks(of_chunk: Callable[[PyTree], PyTree], scans: int, arrays: PyTree) -> PyTree:
    """The sum of what a function gives for each of so many equal chunks of the arrays, one after the other."""
    chunks = jax.tree.map(lambda array: array.reshape(scans, -1, *array.shape[1:]), arrays)
    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(of_chunk, jax.tree.map(lambda array: array[0], chunks)))
    add = lambda sums, some: (jax.tree.map(jnp.add, sums, of_chunk(some)), None)
    return jax.lax.scan(add, nothing, chunks)[0]
