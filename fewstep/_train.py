"""The outer loop: the only one. A pure step, compiled once for any number of steps, run in segments."""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, PyTree

from fewstep._contract import Learner, Step
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._finite import NotFinite as NotFinite
from fewstep._finite import why_not_finite
from fewstep._outer import Drawn, Outer, loss_gradient, over_tasks
from fewstep._rule import Meta
from fewstep._streams import START, TRAINING
from fewstep.compute import everywhere, light, written_out

_TASKS_BYTES, _MOST_AHEAD = 2**18, 32  # of the tasks that are drawn ahead


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


class Row(NamedTuple):
    """One row of the log; loss, gradient norm and validation score are lists with one entry a seed."""

    step: int
    loss: list[float]
    gradient_norm: list[float]
    validation: list[float] | None


class Trained(NamedTuple):
    """The outcome of `train`: the last meta-parameters (with an axis of seeds if several were asked for), the state to
    go on from, and the log."""

    meta: Meta
    state: TrainState
    log: list[Row]


def _keys(seeds: Int[Array, " seeds"]) -> Key[Array, " seeds"]:
    return jax.vmap(jax.random.key)(seeds)


def first_state(learner: Learner, optimizer: optax.GradientTransformation, seeds: Sequence[int]) -> TrainState:
    """The state before the first step, for each seed."""
    init = jax.vmap(lambda key: learner.init(jax.random.fold_in(key, START)))
    begin = jax.jit(lambda seeds: state_of(init(_keys(seeds)), optimizer, seeds), compiler_options=light())
    # Copies, because the state's buffers are handed over to each segment and none may be there twice.
    return jax.tree.map(jnp.copy, begin(jnp.asarray(seeds)))


def state_of(meta: Meta, optimizer: optax.GradientTransformation, seeds: Int[Array, " seeds"]) -> TrainState:
    """The state before the first step, of meta-parameters with an axis of seeds in front."""
    none = jnp.zeros_like(seeds)
    # The type is given, because a weak one would be another after a validation and all would compile again.
    best = Best(meta, jnp.full(len(seeds), jnp.inf, jnp.result_type(float)), none, none)
    window = jnp.zeros((2, len(seeds)))
    return TrainState(meta, jax.vmap(optimizer.init)(meta), _keys(seeds), window, best, jnp.asarray(0))


def make_segment(
    learner: Learner,
    tasks: Tasks,
    optimizer: optax.GradientTransformation,
    *,
    meta_batch: int,
    outer: Outer = loss_gradient,
    mesh: Mesh | None = None,
    chunk: int | None = None,
) -> Callable[[TrainState, PyTree, Step], tuple[TrainState, Array]]:
    """The compiled `(state, data, steps) -> (state, finite)`, the same program whatever the number of steps.

    It stops after a step in which no seed had a finite loss and gradient; as long as one has, all go on.
    """
    draw, gradient = over_tasks(outer(learner), tasks, meta_batch, mesh, chunk)
    ahead = _ahead(draw, tasks.data)

    def drawn(key: Key[Array, ""], number: Array, data: PyTree) -> Drawn:
        return draw(data, _step_key(written_out(key), number))

    def step(meta: Meta, memory: PyTree, tasks: Drawn, number: Array) -> tuple[Meta, PyTree, Array]:
        loss, grads = gradient(meta, tasks, number)
        updates, memory = optimizer.update(grads, memory, meta)
        return optax.apply_updates(meta, updates), memory, jnp.stack([loss, optax.tree.norm(grads)])

    def one(of_steps: Drawn, carry: Any) -> Any:
        state, number, left, _ = carry
        now = jax.tree.map(lambda array: jax.lax.dynamic_index_in_dim(array, number, keepdims=False), of_steps)
        meta, memory, seen = jax.vmap(step, (0, 0, 0, None), (0, 0, 1))(state.meta, state.optimizer, now, state.step)
        finite = jnp.isfinite(seen).all(0).any()
        state = state._replace(meta=meta, optimizer=memory, window=state.window + seen, step=state.step + 1)
        return state, number + 1, left - 1, finite

    def several(carry: Any) -> Any:
        """Draws the tasks of a few steps at once, which costs a small network less, and takes them."""
        state, data, left, _ = carry
        each_seed = jax.vmap(drawn, (0, None, None))
        of_steps = jax.vmap(each_seed, (None, 0, None))(state.key, state.step + jnp.arange(ahead), data)
        go_on = lambda carry: (carry[1] < ahead) & (carry[2] > 0) & carry[3]
        state, _, left, finite = jax.lax.while_loop(
            go_on, partial(one, of_steps), (state, jnp.asarray(0), left, jnp.asarray(True))
        )
        return state, data, left, finite

    def segment(state: TrainState, data: PyTree, steps: Step) -> tuple[TrainState, Array]:
        state, _, _, finite = jax.lax.while_loop(
            lambda carry: (carry[2] > 0) & carry[3], several, (state, data, steps, jnp.asarray(True))
        )
        return state, finite

    return jax.jit(segment, donate_argnums=0)


def _ahead(draw: Callable[..., Drawn], data: PyTree) -> int:
    """For how many steps tasks are drawn at once: as many as fit into a small part of a cache."""
    made = jax.eval_shape(draw, data, jax.eval_shape(lambda: jax.random.key(0)))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(made.episodes))
    return min(max(_TASKS_BYTES // size, 1), _MOST_AHEAD)


def train(
    learner: Learner,
    tasks: Tasks,
    *,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    meta_batch: int = 4,
    outer: Outer = loss_gradient,
    seed: int | Sequence[int] | None = None,
    mesh: Mesh | None = None,
    chunk: int | None = None,
    log_every: int = 100,
    validate: Callable[[TrainState, PyTree], tuple[TrainState, Array]] | None = None,
    validation_data: PyTree = None,
    validate_every: int = 1000,
    patience: int | None = None,
    state: TrainState | None = None,
    on_segment: Callable[[TrainState, list[Row]], bool | None] | None = None,
    agree: Callable[[int], int] = int,
) -> Trained:
    """Meta-trains a learner on tasks.

    **Arguments:** `steps` in all, counted from the start also when `state` continues an earlier training;
    `optimizer` the outer one, `optax.adam(1e-3)` by default; `meta_batch` tasks per step; `outer` how the outer
    gradient is taken: `unrolled`, the default, `first_order` or `reptile()`; `seed` or several seeds, trained together
    (default: 0, or those of `state`); `mesh` and `chunk` spread the tasks over devices and scan them in chunks;
    `validate` from `make_validate` every `validate_every` steps, and `patience` stops after that many validations
    without a better score; `on_segment(state, new_rows)` is called after each segment of about a second, and ends
    training when it returns True; `agree` gives all processes of a mesh the same number, one of theirs.

    **Returns:** `Trained`. The same seed gives the same numbers, whether or not training was interrupted.

    Example::

        meta = train(learner, sinusoid(), steps=1000).meta
    """
    alone = state is None or len(state.key) == 1 if seed is None else isinstance(seed, int)
    seeds = [seed or 0] if seed is None or isinstance(seed, int) else list(seed)
    if state is not None and seed is not None:
        _check_seeds(seed, state)
    optimizer = optax.adam(1e-3) if optimizer is None else optimizer
    _check(steps, meta_batch, seeds)
    segment = make_segment(learner, tasks, optimizer, meta_batch=meta_batch, outer=outer, mesh=mesh, chunk=chunk)
    data, validation_data = everywhere((tasks.data, validation_data), mesh)
    # A copy of the caller's state, because each segment is handed the buffers of the one before.
    state = first_state(learner, optimizer, seeds) if state is None else jax.tree.map(jnp.copy, state)
    state = everywhere(state, mesh)
    number, log, limit = int(state.step), [], 1  # the first call compiles
    while number < steps and not _stale(state, patience):
        count = min(limit, log_every - number % log_every, steps - number)
        if validate:
            count = min(count, validate_every - number % validate_every)
        begin = time.perf_counter()
        state, finite = segment(state, data, count)
        jax.block_until_ready(state)  # one execution in flight: more of them starve each other's threads
        if not finite:
            raise _not_finite(tasks, state, meta_batch)
        limit = agree(min(10 * count, max(1, math.ceil(count / (time.perf_counter() - begin)))))
        number, scores = number + count, None
        if validate and number % validate_every == 0:
            state, scores = validate(state, validation_data)
        state, rows = _log(state, number, log_every, scores)
        log += rows
        if on_segment and on_segment(state, rows):
            break
    meta = one_seed(state.meta) if alone else jax.tree.map(jnp.copy, state.meta)
    return Trained(meta, state, log)


def _check_seeds(seed: int | Sequence[int], state: TrainState) -> None:
    """Raises where a state was made with other seeds than those asked for: its random numbers would go on."""
    asked = jax.random.key_data(_keys(jnp.asarray([seed] if isinstance(seed, int) else seed)))
    own = jax.random.key_data(state.key)
    if asked.shape != own.shape or bool((asked != own).any()):
        raise FewstepError(
            f"seed is {seed}, and the state was made with {'another' if len(own) == 1 else 'other seeds'}: its random "
            "numbers go on from where they were. Leave seed out to continue the state, or state to start anew."
        )


def one_seed(tree: PyTree) -> PyTree:
    """The first of the seeds of meta-parameters trained together."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _step_key(key: Key[Array, ""], number: Array) -> Key[Array, ""]:
    """The key of the tasks of a step, counted from 0."""
    return jax.random.fold_in(jax.random.fold_in(key, TRAINING), number)


def _not_finite(tasks: Tasks, state: TrainState, meta_batch: int) -> NotFinite:
    step = int(state.step)
    keys = jax.vmap(_step_key, (0, None))(state.key, state.step - 1)
    return NotFinite(step, why_not_finite(tasks, keys, meta_batch, step))


def _stale(state: TrainState, patience: int | None) -> bool:
    return patience is not None and bool((state.best.stale >= patience).all())


def _log(state: TrainState, number: int, every: int, scores: Array | None) -> tuple[TrainState, list[Row]]:
    """The row that is due, if one is, and the state with its window emptied."""
    if number % every and scores is None:
        return state, []
    size = number % every or every
    loss, norm = (state.window / size).tolist()
    row = Row(number, loss, norm, None if scores is None else scores.tolist())
    # Emptied by a product, which keeps the array where it is: a new one, elsewhere, would compile the segment again.
    empty = jnp.nan_to_num(state.window, posinf=0.0, neginf=0.0) * 0
    return (state if number % every else state._replace(window=empty)), [row]


def _check(steps: int, meta_batch: int, seeds: list[int]) -> None:
    if steps < 0 or meta_batch < 1 or not seeds:
        raise FewstepError(
            f"steps={steps}, meta_batch={meta_batch}, {len(seeds)} seeds: give 0 steps or more, at least one task a "
            "step, and at least one seed."
        )
