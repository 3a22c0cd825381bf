"""How much of the machine a step uses: its operations over its time, against what a large matrix product reaches."""

import time
from statistics import median

import jax
import jax.numpy as jnp

from fewstep_studies.bench._ours import learner_of
from fewstep_studies.bench._problem import FAMILIES
from fewstep_studies.bench._workloads import Workload

_SIDE = 2048


def matmul_gflops(repeats: int = 7) -> float:
    """Giga-operations per second of a product of two large matrices in single precision, on all cores."""
    a = jnp.ones((_SIDE, _SIDE), jnp.float32)
    product = jax.jit(jnp.dot)
    product(a, a).block_until_ready()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        product(a, a).block_until_ready()
        seconds.append(time.perf_counter() - begin)
    return 2 * _SIDE**3 / median(seconds) / 1e9


def step_gflop(work: Workload) -> float | None:
    """Giga-operations of a meta-step: those of one task's compiled program, times the tasks. `None` for several inner
    steps: the compiler counts the body of a loop once only."""
    if work.inner_steps != 1:
        return None
    learner, tasks = learner_of(work.replace(remat=False)), FAMILIES[work.kind].tasks(work, None)
    key = jax.eval_shape(lambda: jax.random.key(0))
    episode = jax.eval_shape(tasks.sample, tasks.data, key)
    meta = jax.eval_shape(learner.init, key)
    analysis = jax.jit(jax.value_and_grad(learner.loss)).lower(meta, key, episode).compile().cost_analysis()
    return work.tasks * analysis["flops"] / 1e9 if analysis else None
