"""How many steps fit into a time: measured on this machine, before a training that is given a budget."""

import time

import jax
import jax.numpy as jnp

from fewstep.runs.experiment import Experiment
from fewstep.runs.steps import make_steps
from fewstep.runs.train import validation

_LOOK = 8.0  # seconds of training that are measured
_VALIDATIONS = 40


def steps_within(experiment: Experiment, seconds: float) -> int:
    """The steps that training takes in that time on this machine, compiling and validating included; at least 1."""
    begin = time.perf_counter()
    built, run = make_steps(experiment)
    validate, held_out = validation(built)
    state = jax.tree.map(jnp.copy, run(1))  # a validation takes its state's place in memory
    state, _ = jax.block_until_ready(validate(state, held_out))
    compiling = time.perf_counter() - begin
    begin = time.perf_counter()
    jax.block_until_ready(validate(state, held_out))
    validating = time.perf_counter() - begin
    count, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < min(_LOOK, seconds / 10) or not count:
        run(5)
        count += 5
    return max(1, int((seconds - compiling - _VALIDATIONS * validating) * count / spent))
