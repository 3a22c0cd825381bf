"""Defaults with which every method trains, with any number of inner steps; and protocols of papers without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close

import fewstep
from fewstep import Experiment, FewstepError, rules, tasks
from fewstep.experiments import build
from fewstep.training import NotFinite
from fewstep_studies.reproduce import STUDIES

CLIPS = [
    ("maml", {}, 0.0, 1.0),
    ("mtnet", {"inner_steps": 5}, 20.0, 1.0),
    ("mtnet", {"inner_steps": 2}, 50.0, 1.0),
    ("mamlpp", {}, 20.0, 1.0),
    ("mnet", {"inner_steps": 0}, 0.0, 1.0),
    ("meta_lstm", {}, 0.0, 0.25),
    ("maml", {"clip_value": 1.0}, 0.0, 0.0),
    ("maml", {"inner_optimizer": "adam"}, 0.0, 1.0),
    ("maml", {"inner_clip": 3.0, "clip_norm": 0.0}, 3.0, 0.0),
    ("reptile", {}, 0.0, 0.0),
]


@pytest.mark.parametrize(("method", "options", "inner", "outer"), CLIPS)
def test_clips_of_the_inner_gradients_fall_with_their_number(method, options, inner, outer):
    experiment = Experiment(method, "sinusoid", **options)
    assert (experiment.inner_clip, experiment.clip_norm) == (inner, outer)


def test_learners_without_inner_steps_and_tables_have_clips_of_their_own():
    assert Experiment("snail", "sinusoid").clip_norm == 0
    assert (Experiment("maml", "table:").inner_clip, Experiment("maml", "table:").clip_norm) == (5.0, 10.0)


@pytest.mark.parametrize("name", ["sinusoid", "step-size", "polynomial", "depth", "more-steps", "out-of-range",
                                  "omniglot", "random-start", "cifar-fs", "miniimagenet"])  # fmt: skip
def test_the_papers_clip_nothing(name):
    study = STUDIES[name]
    found = [cell.plan.experiment for cell in study.cells(study.full) if not (name == "step-size" and cell.ours)]
    assert {(it.inner_clip, it.clip_norm) for it in found if it.has("inner_clip")} == {(0.0, 0.0)}


@jax.jit
def clipped_step(gradient):
    step = rules.sgd(0.5, clip=0.1).update((), {}, jax.random.key(0))
    return step.update({"w": gradient}, step.init({"w": gradient}))[0]["w"]


def test_a_clipped_step_is_no_longer_than_said_and_has_its_derivative_where_it_is_zero():
    assert_close(clipped_step(jnp.asarray([3.0, -4.0])), [-0.03, 0.04])
    assert_close(clipped_step(jnp.asarray([0.03, -0.04])), [-0.015, 0.02])
    assert_close(jax.jacrev(clipped_step)(jnp.zeros(2)), -0.5 * np.eye(2))


@pytest.mark.slow
def test_clips_leave_a_point_of_rest_to_implicit_gradients():
    build(Experiment("proximal", "sinusoid", hidden=(3,), outer="implicit", inner_steps=5)).check_data()


def test_supports_of_several_sizes():
    some = tasks.fewer_shots(tasks.sinusoid(6, 3), 4)
    keys = jax.random.split(jax.random.key(0), 300)
    drawn = jax.jit(jax.vmap(some.sample, (None, 0)))(some.data, keys)
    sizes, counts = np.unique(np.asarray(drawn.support.weight.sum(1)), return_counts=True)
    assert list(sizes) == [4, 5, 6]
    assert counts.min() > 75
    assert (np.diff(drawn.support.weight, axis=1) <= 0).all()  # what is left out comes last


def test_training_draws_sizes_and_tests_do_not():
    problem = build(Experiment("maml", "sinusoid", shots=6, min_shots=2)).problem
    keys = jax.random.split(jax.random.key(0), 40)

    def weight(*how):
        some = problem.tasks(*how)
        return np.asarray(jax.jit(jax.vmap(lambda key: some.sample(some.data, key).support.weight.sum()))(keys))

    assert len(set(weight(6, 3))) > 1
    assert set(weight(6, 3, "validation")) == {6}
    assert set(weight(5, 3)) == {5}
    with pytest.raises(FewstepError, match="`min_shots` is 5 and `shots` is 4"):
        build(Experiment("maml", "sinusoid", shots=4, min_shots=5))


@pytest.mark.slow
def test_meta_sgd_diverges_from_a_he_start_without_clips_and_trains_with_them():
    options = {"inner_steps": 20, "init": "he", "steps": 60, "inner_lr": 0.1, "log_every": 20}

    def trained(**more):
        built = build(Experiment("meta_sgd", "sinusoid", **options, **more))
        return fewstep.train(built.learner, built.training, steps=60, optimizer=built.optimizer, log_every=20)

    assert np.isfinite(trained().log[-1].loss).all()
    with pytest.raises(NotFinite):
        trained(inner_clip=0.0, clip_norm=0.0)
