"""The outer loop: the only one. It runs the compiled step in segments of about a second."""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from fewstep._contract import Learner
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._outer import Outer, loss_gradient
from fewstep._rule import Meta
from fewstep.compute import everywhere
from fewstep.training._average import average_of, averaging
from fewstep.training._finite import NotFinite, why_not_finite
from fewstep.training._segment import Segment, TrainState, first_state, keys_of, make_segment, one_seed, step_key


class Row(NamedTuple):
    """One row of the log; loss, gradient norm and validation score are lists with one entry per seed."""

    step: int
    loss: list[float]
    gradient_norm: list[float]
    validation: list[float] | None


class Trained(NamedTuple):
    """The outcome of `train`: the last meta-parameters (with an axis of seeds if several were asked for), the state to
    go on from, the log, and the moving average of the meta-parameters, if `ema` asked for one."""

    meta: Meta
    state: TrainState
    log: list[Row]
    average: Meta | None = None


@runtime_checkable
class Recorder(Protocol):
    """What keeps a training, such as `fewstep.runs.RunFolder`: it is asked where to resume, gets every segment's state
    and rows, and says whether to stop; at the end it gets the last state."""

    def resume(self, first: TrainState) -> TrainState: ...

    def record(self, state: TrainState, rows: list[Row]) -> bool: ...

    def finish(self, state: TrainState) -> None: ...


def train(
    learner: Learner,
    tasks: Tasks,
    *,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    meta_batch: int = 4,
    outer: Outer = loss_gradient,
    ema: float | None = None,
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
    run: Recorder | None = None,
    agree: Callable[[int], int] = int,
    small: bool = False,
    segment: Segment | None = None,
) -> Trained:
    """Meta-trains a learner on tasks.

    **Arguments:** `steps` in all, counted from the start also when `state` continues an earlier training;
    `optimizer` the outer one, `optax.adam(1e-3)` by default; `meta_batch` tasks per step; `outer` how the outer
    gradient is taken: `unrolled`, the default, or another of `fewstep.outers`; `ema` the decay of a moving average of
    the meta-parameters, such as 0.999, which is kept beside the last ones; `seed` or several seeds, trained together
    (default: 0, or those of `state`); `mesh` and `chunk` spread the tasks over devices and scan them in chunks;
    `validate` from `make_validate` every `validate_every` steps, and `patience` stops after that many validations
    without a better score; `on_segment(state, new_rows)` is called after each segment of about a second, and ends
    training when it returns True; `run` keeps the training, such as `fewstep.runs.RunFolder("runs/x")`, and resumes it;
    `agree` gives all processes of a mesh the same number, one of theirs; `small` compiles faster, for networks that run
    no slower for it, such as perceptrons of some ten thousand weights on tables; `segment` is what `make_segment` made
    of all this for an earlier training on tasks of the same shapes, which is not compiled again.

    **Returns:** `Trained`. The same seed gives the same numbers, whether or not training was interrupted.

    Example::

        meta = train(learner, sinusoid(), steps=1000).meta
    """
    alone = state is None or len(state.key) == 1 if seed is None else isinstance(seed, int)
    seeds = [seed or 0] if seed is None or isinstance(seed, int) else list(seed)
    if state is not None and seed is not None:
        _check_seeds(seed, state)
    optimizer = optax.adam(1e-3) if optimizer is None else optimizer
    optimizer = optimizer if ema is None else averaging(optimizer, ema)
    _check(steps, meta_batch, seeds)
    segment = segment or make_segment(
        learner, tasks, optimizer, meta_batch=meta_batch, outer=outer, mesh=mesh, chunk=chunk, small=small
    )
    data, validation_data = everywhere((tasks.data, validation_data), mesh)
    # A copy of the caller's state, because each segment is handed the buffers of the one before.
    state = first_state(learner, optimizer, seeds) if state is None else jax.tree.map(jnp.copy, state)
    state = everywhere(state if run is None else run.resume(state), mesh)
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
        stop = on_segment is not None and on_segment(state, rows)
        if (run is not None and run.record(state, rows)) or stop:
            break
    if run is not None:
        run.finish(state)
    plain = lambda meta: one_seed(meta) if alone else jax.tree.map(jnp.copy, meta)
    average = average_of(state)
    return Trained(plain(state.meta), state, log, None if average is None else plain(average))


def _check_seeds(seed: int | Sequence[int], state: TrainState) -> None:
    """Raises where a state was made with other seeds than those asked for: its random numbers would go on."""
    wanted = jax.random.key_data(keys_of(jnp.asarray([seed] if isinstance(seed, int) else seed)))
    own = jax.random.key_data(state.key)
    if wanted.shape != own.shape or bool((wanted != own).any()):
        raise FewstepError(
            f"seed is {seed}, and the state was made with {'another' if len(own) == 1 else 'other seeds'}: its random "
            "numbers go on from where they were. Leave seed out to continue the state, or state to start anew."
        )


def _not_finite(tasks: Tasks, state: TrainState, meta_batch: int) -> NotFinite:
    step = int(state.step)
    keys = jax.vmap(step_key, (0, None))(state.key, state.step - 1)
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
            f"steps={steps}, meta_batch={meta_batch}, {len(seeds)} seeds: give 0 steps or more, at least one task per "
            "step, and at least one seed."
        )
