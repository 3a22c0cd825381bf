"""fewstep, measured as the others are: `python -m fewstep_studies.bench._ours PROBLEM`.

Tasks are drawn inside each step."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec

from fewstep import rules
from fewstep._episode import Batch, Episode
from fewstep._errors import FewstepError
from fewstep._learner import Learner, gradient_learner
from fewstep._network import flatten, unflatten
from fewstep._rule import Meta
from fewstep.experiments import Experiment
from fewstep.files import JSON
from fewstep.machine.layout import lay_out, make_mesh
from fewstep.outers import unrolled
from fewstep.training import first_state, make_segment
from fewstep_studies.bench._problem import FAMILIES
from fewstep_studies.bench._workloads import Workload
from fewstep_studies.bench.wire import Problem, System, speak


def make(problem: Problem) -> System:
    """fewstep on a problem."""
    work = workload_of(problem.spec)
    places = lay_out(experiment_of(work))
    mesh = make_mesh(places.devices)
    everywhere = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    learner, tasks = learner_of(work), FAMILIES[work.kind].tasks(work, Path(problem.spec["folder"]))
    optimizer = optax.adam(work.outer_lr)
    segment = make_segment(learner, tasks, optimizer, meta_batch=work.tasks, mesh=mesh, chunk=places.chunk)
    first = first_state(learner, optimizer, [0])
    state = jax.device_put(first._replace(meta=_with_weights(first.meta, problem.weights)), everywhere)
    arrays = jax.device_put(tasks.data, everywhere)

    def take(steps: int) -> None:
        nonlocal state
        state, finite = jax.block_until_ready(segment(state, arrays, steps))
        if not finite:  # the segment ended there: its time would be that of fewer steps
            raise FewstepError("The training diverged, so that its steps cannot be timed.")

    meta = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf[0])), state.meta)
    about = f"jax {jax.__version__}, {places.devices} devices, {places.chunk or 'all'} tasks at once"
    return System(lambda: _check(learner, meta, problem), take, _adapter(learner, meta, work, problem), about)


def workload_of(spec: Mapping[str, JSON]) -> Workload:
    """The workload of a problem's spec."""
    fields = {field.name: spec[field.name] for field in dataclasses.fields(Workload)}
    return Workload(**fields | {"hidden": tuple(spec["hidden"])})


def experiment_of(work: Workload) -> Experiment:
    """The experiment that `fewstep train` would lay out in the same way."""
    return Experiment(
        work.method, meta_batch=work.tasks, shots=work.shots, queries=work.queries, inner_steps=work.inner_steps,
        devices=work.devices, chunk=work.chunk, **FAMILIES[work.kind].options(work),
    )  # fmt: skip


def learner_of(work: Workload) -> Learner:
    """The learner of a workload."""
    rule, family = rules.RULES[work.method](work.inner_lr), FAMILIES[work.kind]
    return gradient_learner(family.network(work), rule, family.loss, steps=work.inner_steps, remat=work.remat)


def _with_weights(meta: Meta, weights: dict[str, np.ndarray]) -> Meta:
    """Meta-parameters of one seed that begin at the given weights."""
    leaves = {name: jnp.asarray(array)[None] for name, array in weights.items()}
    return meta | {"weights": unflatten(meta["weights"], leaves)}


def _check(learner: Learner, meta: Meta, problem: Problem) -> tuple[float, dict[str, np.ndarray]]:
    """Mean query loss and gradient on the problem's own tasks, all at once."""
    tasks = len(problem.support_x)
    episodes = Episode(_batch(problem.support_x, problem.support_y), _batch(problem.query_x, problem.query_y))
    keys = jax.random.split(jax.random.key(0), tasks)
    losses, gradient = jax.jit(unrolled(learner))(meta, keys, episodes, jnp.full(tasks, 1 / tasks))
    return float(losses.mean()), {name: np.asarray(leaf) for name, leaf in flatten(gradient["weights"]).items()}


def _batch(x: np.ndarray, y: np.ndarray) -> Batch:
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(y.shape[:2]))


def _adapter(learner: Learner, meta: Meta, work: Workload, problem: Problem) -> Callable[[], np.ndarray]:
    """Learns the first task and predicts its query, from arrays to arrays, as a service does."""

    @jax.jit
    def predict(meta: Meta, key: jax.Array, x: jax.Array, y: jax.Array, query: jax.Array) -> jax.Array:
        return learner.predict(meta, learner.adapt(meta, key, Batch(x, y, jnp.ones(len(y))), work.inner_steps), query)

    key, x, y, query = jax.random.key(0), problem.support_x[0], problem.support_y[0], problem.query_x[0]
    return lambda: np.asarray(predict(meta, key, x, y, query))


if __name__ == "__main__":
    speak(make)
