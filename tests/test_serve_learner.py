"""The inner loop with a traced number of steps and a pace: one program for every request of the service."""

import jax
import jax.numpy as jnp
import pytest
from helpers import RULES, assert_close, assert_equal, episode, learner, shaken

from fewstep import rules

KEY = jax.random.key(3)


@pytest.mark.parametrize("name", ["maml", "mtnet", "mnet_full", "maml adam"])
def test_traced_steps_equal_static_steps(name):
    each, task = learner(RULES[name](0.05)), episode().support
    meta = shaken(each.init(KEY))
    traced = jax.jit(lambda steps: each.adapt(meta, KEY, task, steps))
    for steps in (0, 1, 4):
        assert_close(traced(jnp.asarray(steps)), each.adapt(meta, KEY, task, steps), 1e-6)


def test_one_program_adapts_tasks_of_different_steps_and_paces():
    each, tasks = learner(rules.maml(0.05)), [episode(seed).support for seed in range(3)]
    meta = shaken(each.init(KEY))
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    steps, paces = jnp.asarray([0, 3, 1]), jnp.asarray([1.0, 0.5, 2.0])
    made = jax.jit(jax.vmap(lambda task, n, pace: each.adapt(meta, KEY, task, n, step_scale=pace)))(stack, steps, paces)
    for number, task in enumerate(tasks):
        alone = each.adapt(meta, KEY, task, int(steps[number]), step_scale=float(paces[number]))
        assert_close(jax.tree.map(lambda leaf, n=number: leaf[n], made), alone, 1e-6)


def test_a_pace_of_one_changes_nothing_and_of_a_half_halves_the_first_step():
    each, task = learner(rules.maml(0.05)), episode().support
    meta = shaken(each.init(KEY))
    start, whole = (each.adapt(meta, KEY, task, steps).fast for steps in (0, 1))
    assert_equal(each.adapt(meta, KEY, task, 1, step_scale=1.0).fast, whole)
    half = each.adapt(meta, KEY, task, 1, step_scale=0.5).fast
    assert_close(half, jax.tree.map(lambda a, b: (a + b) / 2, start, whole), 1e-6)
