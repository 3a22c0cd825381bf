"""Trainings that differ in their numbers only, such as step sizes and seeds, in one compiled program."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from fewstep._contract import AFTER_TRAINING, Learner, Step, accepting
from fewstep._episode import Episode, Tasks
from fewstep._errors import FewstepError
from fewstep._outer import Gradient, Outer, loss_gradient
from fewstep._rule import Meta
from fewstep._streams import START
from fewstep.training import state_of, train

Make = Callable[..., tuple[Learner, optax.GradientTransformation]]


class Trial(NamedTuple):
    """One training of a sweep: its values and seed, its meta-parameters, and its losses, one per row of the log."""

    values: dict[str, float]
    seed: int
    meta: Meta
    losses: np.ndarray


def sweep(
    make: Make,
    tasks: Tasks,
    values: Mapping[str, Sequence[float]],
    *,
    steps: int,
    seeds: Sequence[int] = (0,),
    meta_batch: int = 4,
    outer: Outer = loss_gradient,
    chunk: int | None = None,
    log_every: int = 100,
) -> list[Trial]:
    """Meta-trains a learner for every combination of values and seeds, all side by side in one compiled program.

    **Arguments:** `make(**values)` makes learner and outer optimizer from one number for each name; the numbers are
    traced, so they may be step sizes, temperatures and the like, but not sizes of arrays or numbers of steps; `values`
    the numbers to try, by name; the rest as in `train`.

    **Returns:** a `Trial` for each combination, the seeds of a combination next to each other. One that diverges does
    not stop the others: its losses are not finite.

    Example::

        make = lambda inner_lr, outer_lr: (gradient_learner(mlp(), maml(inner_lr), loss), optax.adam(outer_lr))
        trials = sweep(make, tasks, {"inner_lr": [0.01, 0.1], "outer_lr": [1e-3, 1e-2]}, steps=1000, seeds=(0, 1))
        best = min(trials, key=lambda trial: trial.losses[-1])
    """
    if not seeds or not all(len(some) for some in values.values()):
        raise FewstepError(f"seeds={seeds!r}, values={values!r}: give at least one seed, and one number for each name.")
    grid = [dict(zip(values, some, strict=True)) for some in itertools.product(*values.values())]
    rows = [(chosen, seed) for chosen in grid for seed in seeds]
    numbers = {name: jnp.asarray([float(chosen[name]) for chosen, _ in rows]) for name in values}

    def init(seed: Array, chosen: dict[str, Array]) -> Meta:
        start = jax.random.fold_in(jax.random.key(seed), START)
        return {"meta": make(**chosen)[0].init(start), "values": chosen}

    of_seeds = jnp.asarray([seed for _, seed in rows])
    state = jax.jit(lambda: state_of(jax.vmap(init)(of_seeds, numbers), _optimizer(make), of_seeds))()
    learner, _ = make(**grid[0])
    trained = train(
        learner, tasks, steps=steps, optimizer=_optimizer(make), meta_batch=meta_batch,
        outer=lambda _: _gradient(make, outer), chunk=chunk, log_every=log_every, state=state,
    )  # fmt: skip
    metas, losses = trained.state.meta["meta"], np.reshape([row.loss for row in trained.log], (-1, len(rows)))
    each = [jax.tree.map(lambda leaf, n=number: leaf[n], metas) for number in range(len(rows))]
    return [Trial(*row, meta, losses[:, n]) for n, (row, meta) in enumerate(zip(rows, each, strict=True))]


def _gradient(make: Make, outer: Outer) -> Gradient:
    """The outer gradient of the learner that the values beside its meta-parameters make; they have none."""

    def gradient(
        meta: Meta, keys: Key[Array, " tasks"], episodes: Episode, weights: Array, *, outer_step: Step = AFTER_TRAINING
    ) -> tuple[Float[Array, " tasks"], Meta]:
        own = accepting(outer(make(**meta["values"])[0]), "outer_step")
        losses, grads = own(meta["meta"], keys, episodes, weights, outer_step=outer_step)
        return losses, {"meta": grads, "values": jax.tree.map(jnp.zeros_like, meta["values"])}

    return gradient


def _optimizer(make: Make) -> optax.GradientTransformation:
    """The outer optimizer that the values beside the meta-parameters make; it leaves them alone."""

    def update(grads: Meta, memory: optax.OptState, meta: Meta) -> tuple[Meta, optax.OptState]:
        updates, memory = make(**meta["values"])[1].update(grads["meta"], memory, meta["meta"])
        return {"meta": updates, "values": grads["values"]}, memory

    return optax.GradientTransformation(lambda meta: make(**meta["values"])[1].init(meta["meta"]), update)
