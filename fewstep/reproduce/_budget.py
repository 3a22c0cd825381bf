"""How many steps fit into a time: measured on this machine, before a training that is given a budget."""

import time

import jax
from jax.sharding import NamedSharding, PartitionSpec

from fewstep._train import first_state, make_segment
from fewstep.runs import layout
from fewstep.runs.build import build, inner_steps, make_mesh
from fewstep.runs.experiment import Experiment
from fewstep.runs.train import validation

_LOOK = 8.0  # seconds of training that are measured
_VALIDATIONS = 40


def steps_within(experiment: Experiment, seconds: float) -> int:
    """The steps that training takes in that time on this machine, compiling and validating included; at least 1."""
    begin = time.perf_counter()
    places = layout.choose(experiment, inner_steps(experiment))
    mesh = make_mesh(layout.prepare(places, asked=False))
    built, seeds = build(experiment), list(range(experiment.seeds))
    tasks = built.training
    everywhere = None if mesh is None else NamedSharding(mesh, PartitionSpec())
    segment = make_segment(
        built.learner, tasks, built.optimiser, meta_batch=experiment.meta_batch, outer=built.outer, mesh=mesh,
        chunk=places.chunk,
    )  # fmt: skip
    data = jax.device_put(tasks.data, everywhere)
    state = jax.device_put(first_state(built.learner, built.optimiser, seeds), everywhere)
    state, _ = jax.block_until_ready(segment(state, data, 1))
    validate, held_out = validation(built)
    state, _ = jax.block_until_ready(validate(state, held_out))
    compiling = time.perf_counter() - begin
    begin = time.perf_counter()
    state, _ = jax.block_until_ready(validate(state, held_out))
    validating = time.perf_counter() - begin
    count, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < min(_LOOK, seconds / 10) or not count:
        state, _ = jax.block_until_ready(segment(state, data, 5))
        count += 5
    return max(1, int((seconds - compiling - _VALIDATIONS * validating) * count / spent))
