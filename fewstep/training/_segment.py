"""The outer step: a pure function, compiled once for any number of steps, and the state it carries."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._contract import Learner, Step
from fewstep._episode import Tasks
from fewstep._outer import Drawn, Outer, loss_gradient, over_tasks
from fewstep._rule import Meta
from fewstep._streams import START, TRAINING
from fewstep.compute import light, written_out

_TASKS_BYTES, _MAX_AHEAD = 2**18, 32  # of the tasks that are drawn ahead


class Best(NamedTuple):
    """The meta-parameters with the lowest validation score so far, and how many validations ago that was."""

    meta: Meta
    score: Float[Array, " seeds"]
    step: Int[Array, " seeds"]
    stale: Int[Array, " seeds"]


class TrainState(NamedTuple):
    """All that training carries from step to step, with an axis of seeds in front: what a checkpoint holds.

    `window` is the sum of the losses and gradient norms since the last row of the log.
    """

    meta: Meta
    optimizer: PyTree
    key: Key[Array, " seeds"]
    window: Float[Array, "2 seeds"]
    best: Best
    step: Int[Array, ""]


Segment: TypeAlias = Callable[[TrainState, PyTree, Step], tuple[TrainState, Array]]
# What loops carry: the state, the place among tasks drawn or the data they are drawn from, steps to go, whether finite.
Carry = tuple[TrainState, PyTree, Step, Array]


def keys_of(seeds: Int[Array, " seeds"]) -> Key[Array, " seeds"]:
    """The key of each seed."""
    return jax.vmap(jax.random.key)(seeds)


def first_state(learner: Learner, optimizer: optax.GradientTransformation, seeds: Sequence[int]) -> TrainState:
    """The state before the first step, for each seed."""
    # Their own types, because the weak ones of Python's numbers are others after a step, which compiles again.
    strong = lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf))
    init = jax.vmap(lambda key: jax.tree.map(strong, learner.init(jax.random.fold_in(key, START))))
    begin = jax.jit(lambda seeds: state_of(init(keys_of(seeds)), optimizer, seeds), compiler_options=light())
    # Copies, because the state's buffers are handed over to each segment and none may be there twice.
    return jax.tree.map(jnp.copy, begin(jnp.asarray(seeds)))


def state_of(meta: Meta, optimizer: optax.GradientTransformation, seeds: Int[Array, " seeds"]) -> TrainState:
    """The state before the first step, of meta-parameters with an axis of seeds in front."""
    none = jnp.zeros_like(seeds)
    # The type is given, because a weak one would be another after a validation and all would compile again.
    best = Best(meta, jnp.full(len(seeds), jnp.inf, jnp.result_type(float)), none, none)
    window = jnp.zeros((2, len(seeds)))
    return TrainState(meta, jax.vmap(optimizer.init)(meta), keys_of(seeds), window, best, jnp.asarray(0))


def make_segment(
    learner: Learner,
    tasks: Tasks,
    optimizer: optax.GradientTransformation,
    *,
    meta_batch: int,
    outer: Outer = loss_gradient,
    mesh: Mesh | None = None,
    chunk: int | None = None,
    small: bool = False,
) -> Segment:
    """The compiled `(state, data, steps) -> (state, finite)`, the same program whatever the number of steps. One for
    `small` networks compiles faster.

    It stops after a step in which no seed had a finite loss and gradient; as long as one has, all go on.
    """
    draw, gradient = over_tasks(outer(learner), tasks, meta_batch, mesh, chunk)
    ahead = _ahead(draw, tasks.data)

    def draw_step(key: Key[Array, ""], number: Array, data: PyTree) -> Drawn:
        return draw(data, step_key(written_out(key), number))

    def step(meta: Meta, memory: PyTree, tasks: Drawn, number: Array) -> tuple[Meta, PyTree, Array]:
        loss, grads = gradient(meta, tasks, number)
        updates, memory = optimizer.update(grads, memory, meta)
        return optax.apply_updates(meta, updates), memory, jnp.stack([loss, optax.tree.norm(grads)])

    def one(of_steps: Drawn, carry: Carry) -> Carry:
        state, number, remaining, _ = carry
        now = jax.tree.map(lambda array: jax.lax.dynamic_index_in_dim(array, number, keepdims=False), of_steps)
        meta, memory, losses = jax.vmap(step, (0, 0, 0, None), (0, 0, 1))(state.meta, state.optimizer, now, state.step)
        finite = jnp.isfinite(losses).all(0).any()
        state = state._replace(meta=meta, optimizer=memory, window=state.window + losses, step=state.step + 1)
        return state, number + 1, remaining - 1, finite

    def several(carry: Carry) -> Carry:
        """Draws the tasks of a few steps at once, which costs a small network less, and takes them."""
        state, data, remaining, _ = carry
        each_seed = jax.vmap(draw_step, (0, None, None))
        of_steps = jax.vmap(each_seed, (None, 0, None))(state.key, state.step + jnp.arange(ahead), data)
        go_on = lambda carry: (carry[1] < ahead) & (carry[2] > 0) & carry[3]
        state, _, remaining, finite = jax.lax.while_loop(
            go_on, partial(one, of_steps), (state, jnp.asarray(0), remaining, jnp.asarray(True))
        )
        return state, data, remaining, finite

    def segment(state: TrainState, data: PyTree, steps: Step) -> tuple[TrainState, Array]:
        state, _, _, finite = jax.lax.while_loop(
            lambda carry: (carry[2] > 0) & carry[3], several, (state, data, steps, jnp.asarray(True))
        )
        return state, finite

    return jax.jit(segment, donate_argnums=0, compiler_options=light() if small else None)


def _ahead(draw: Callable[..., Drawn], data: PyTree) -> int:
    """For how many steps tasks are drawn at once: as many as fit into a small part of a cache."""
    shapes = jax.eval_shape(draw, data, jax.eval_shape(lambda: jax.random.key(0)))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes.episodes))
    return min(max(_TASKS_BYTES // size, 1), _MAX_AHEAD)


def step_key(key: Key[Array, ""], number: Array) -> Key[Array, ""]:
    """The key of the tasks of a step, counted from 0."""
    return jax.random.fold_in(jax.random.fold_in(key, TRAINING), number)


def one_seed(tree: PyTree) -> PyTree:
    """The first of the seeds of meta-parameters trained together."""
    return jax.tree.map(lambda leaf: leaf[0], tree)
