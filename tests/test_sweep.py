"""A sweep: many trainings in one program, each as it would be alone."""

import jax
import numpy as np
import optax
import pytest
from helpers import assert_close

import fewstep
from fewstep import losses, networks, rules, tasks

SINE = tasks.sinusoid(5, 5)


def make(inner_lr, outer_lr):
    network = networks.mlp(hidden=(6,))
    return fewstep.gradient_learner(network, rules.mtnet(inner_lr), losses.squared_error), optax.adam(outer_lr)


def test_each_training_of_a_sweep_is_that_training_alone():
    values = {"inner_lr": [0.01, 0.1], "outer_lr": [1e-3, 1e-2]}
    trials = fewstep.sweep(make, SINE, values, steps=12, seeds=(3, 4), log_every=6)
    assert len(trials) == 8
    assert [trial.seed for trial in trials] == [3, 4] * 4
    for trial in (trials[3], trials[6]):
        each, optimizer = make(**trial.values)
        alone = fewstep.train(each, SINE, steps=12, optimizer=optimizer, seed=trial.seed, log_every=6)
        assert_close(trial.meta, alone.meta, 2e-4)
        np.testing.assert_allclose(trial.losses, [row.loss[0] for row in alone.log], rtol=1e-4)
    assert not np.allclose(trials[0].losses, trials[6].losses)


@pytest.mark.parametrize("outer", [fewstep.first_order, pytest.param(fewstep.reptile(2, 4), marks=pytest.mark.slow)])
def test_a_sweep_takes_any_outer_gradient_and_rates_to_start_with(outer):
    def own(lr):
        rule = rules.meta_sgd(lr) if outer is fewstep.first_order else rules.maml(lr)
        return fewstep.gradient_learner(networks.mlp(hidden=(4,)), rule, losses.squared_error), optax.sgd(0.01)

    trials = fewstep.sweep(own, SINE, {"lr": [0.01, 0.05]}, steps=5, outer=outer, meta_batch=3, chunk=2)
    each, optimizer = own(0.05)
    alone = fewstep.train(each, SINE, steps=5, optimizer=optimizer, outer=outer, meta_batch=3, chunk=2)
    assert_close(trials[1].meta, alone.meta, 1e-4)


def test_one_that_diverges_does_not_stop_the_others():
    wild = lambda lr: (make(lr, 1e-3)[0], optax.sgd(lr))
    good, bad = fewstep.sweep(wild, SINE, {"lr": [1e-3, 1e9]}, steps=30, log_every=10)
    assert np.isfinite(good.losses).all()
    assert not np.isfinite(bad.losses[-1])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(good.meta))


@pytest.mark.parametrize(("values", "seeds"), [({"lr": []}, (0,)), ({"lr": [0.1]}, ())])
def test_a_sweep_of_nothing_is_refused(values, seeds):
    with pytest.raises(fewstep.FewstepError, match="at least one seed, and one number for each name"):
        fewstep.sweep(lambda lr: make(lr, 0.1), SINE, values, steps=1, seeds=seeds)
