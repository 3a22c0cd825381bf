"""The outer loop: segments, seeds, validation, devices; and what stops it."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import assert_close, assert_equal, learner, tanh_mlp
from jax.sharding import Mesh

import fewstep
from fewstep import learners, losses, networks, rules, tasks
from fewstep.training import NotFinite, first_state, make_segment, one_seed

SINE = tasks.sinusoid(5, 5)


def small(rule=None, **options):
    return learner(rule or rules.mtnet(0.01), networks.mlp(hidden=(8,)), **options)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    first, again, other = (fewstep.train(small(), SINE, steps=20, seed=seed).meta for seed in (3, 3, 4))
    assert_equal(first, again)
    assert any(not np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True))


def test_interrupted_and_whole_trainings_agree_bit_for_bit():
    whole = fewstep.train(small(), SINE, steps=37, log_every=10)
    parts = fewstep.train(small(), SINE, steps=13, log_every=10)
    middle = fewstep.train(small(), SINE, steps=29, log_every=10, state=parts.state)
    parts = fewstep.train(small(), SINE, steps=29, log_every=10, state=parts.state)  # a state can be gone on from twice
    assert_equal(middle.state, parts.state)
    parts = fewstep.train(small(), SINE, steps=37, log_every=10, state=parts.state)
    assert_equal(whole.state, parts.state)
    assert parts.log == whole.log[2:]


@pytest.mark.slow
def test_several_seeds_together_are_each_alone():
    together = fewstep.train(small(), SINE, steps=25, seed=[5, 6]).meta
    for number, seed in enumerate((5, 6)):
        alone = fewstep.train(small(), SINE, steps=25, seed=seed).meta
        assert_close(jax.tree.map(lambda leaf, n=number: leaf[n], together), alone, 1e-4)


@pytest.mark.parametrize("chunk", [None, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_devices_do_not_change_what_is_learned(chunk):
    """Five tasks on three devices: the last is filled up with a task of weight 0."""
    each, optimizer = small(), optax.sgd(0.01)
    mesh = Mesh(np.asarray(jax.devices()[:3]), ("tasks",))
    options = {"steps": 10, "meta_batch": 5, "optimizer": optimizer}
    spread = fewstep.train(each, SINE, mesh=mesh, chunk=chunk, **options)
    plain = fewstep.train(each, SINE, **options)
    assert_close(plain.meta, jax.device_get(one_seed(spread.state.meta)), 1e-4)


@pytest.mark.slow
def test_thousands_of_steps_on_several_devices():
    """Steps dispatched one by one starve the devices' threads; a segment at a time does not."""
    each = learner(rules.maml(0.01), networks.mlp(hidden=(2,)))
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("tasks",))
    trained = fewstep.train(each, tasks.sinusoid(2, 2), steps=3000, meta_batch=2, mesh=mesh)
    assert int(trained.state.step) == 3000
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(trained.meta))


def test_one_program_serves_every_number_of_steps():
    each, optimizer = small(), optax.adam(1e-3)
    segment = make_segment(each, SINE, optimizer, meta_batch=2)
    state = first_state(each, optimizer, [0])
    for count in (1, 5, 17):
        state, _ = segment(state, SINE.data, count)
    assert segment._cache_size() == 1
    assert int(state.step) == 23


def test_numbers_of_python_among_meta_parameters_are_of_the_type_that_steps_leave():
    """A weak type would be another one after a step, and all would compile again."""
    state = first_state(learners.gaussian(networks.mlp(hidden=(4,)), 1), optax.adam(1e-3), [0])
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state.meta, state.optimizer, state.best.meta)))


def test_a_validation_changes_no_type_that_would_compile_again():
    made, types = small(), lambda tree: [jax.typeof(leaf) for leaf in jax.tree.leaves(tree)]
    before = first_state(made, optax.adam(1e-3), [0, 1])
    judge = fewstep.make_validate(made, SINE, losses.squared_error, n_tasks=4, inner_steps=1, seed=0)
    wanted = types(before)
    assert types(judge(before, SINE.data)[0]) == wanted


@pytest.mark.slow
def test_log_rows_are_means_over_their_steps():
    trained = fewstep.train(small(), SINE, steps=20, log_every=5, seed=[0, 1])
    assert [row.step for row in trained.log] == [5, 10, 15, 20]
    fine = fewstep.train(small(), SINE, steps=20, log_every=1, seed=[0, 1])
    means = np.mean([row.loss for row in fine.log[5:10]], axis=0)
    np.testing.assert_allclose(trained.log[1].loss, means, rtol=1e-5)


def test_a_loss_that_is_not_finite_stops_with_the_step():
    wild = small(rules.maml(0.01))
    with pytest.raises(NotFinite, match=r"no longer finite at step \d+.*smaller") as caught:
        fewstep.train(wild, SINE, steps=500, optimizer=optax.sgd(1e12))
    assert 0 < caught.value.step < 500


def spoilt(part, name, value, weight=1.0):
    """Sine waves with a value in one row of a set, which has that weight."""

    def sample(data, key):
        episode = SINE.sample(data, key)
        batch = getattr(episode, part)
        rows = {name: getattr(batch, name).at[1].set(value), "weight": batch.weight.at[1].set(weight)}
        return episode._replace(**{part: batch._replace(**rows)})

    return fewstep.Tasks(SINE.data, sample)


@pytest.mark.parametrize(("part", "name", "value"), [("support", "x", np.nan), ("query", "y", np.inf)])
def test_values_in_the_tasks_that_are_not_finite_are_named(part, name, value):
    with pytest.raises(NotFinite, match=f"tasks of step 1 hold NaN or infinite values in the {name} of the {part},"):
        fewstep.train(small(rules.maml(0.01)), spoilt(part, name, value), steps=3, seed=[0, 1])


def test_values_that_are_drawn_now_and_then_are_found_at_their_step():
    """One wave in some hundred is NaN: the tasks of just that step are looked at."""

    def sample(data, key):
        support, query = SINE.sample(data, key)
        rare = jnp.where(jax.random.uniform(jax.random.fold_in(key, 1)) < 0.01, jnp.nan, 0.0)
        return fewstep.Episode(support._replace(y=support.y + rare), query)

    with pytest.raises(NotFinite, match=r"in the y of the support, so") as caught:
        fewstep.train(small(rules.maml(0.01)), fewstep.Tasks(SINE.data, sample), steps=500)
    assert caught.value.step > 1


def test_a_first_loss_that_is_not_finite_is_not_blamed_on_the_steps():
    plain = small(rules.maml(0.01))
    odd = plain._replace(loss=lambda meta, key, episode, first_order=False: jnp.log(-jnp.ones(())))
    with pytest.raises(NotFinite, match="not finite at step 1, before anything was learned") as e:
        fewstep.train(odd, SINE, steps=3)
    assert "grew" not in str(e.value)


def test_validation_keeps_the_best_and_patience_stops():
    each = small(rules.maml(0.01))
    judge = fewstep.make_validate(each, SINE, losses.squared_error, n_tasks=20, inner_steps=1, seed=0)
    growing = optax.sgd(lambda count: jnp.where(count < 30, 0.02, -0.02))  # learns for 30 steps, then unlearns
    options = {"validate": judge, "validation_data": SINE.data, "validate_every": 10, "optimizer": growing}
    trained = fewstep.train(each, SINE, steps=500, patience=3, **options)
    scores = {row.step: row.validation[0] for row in trained.log if row.validation}
    best = trained.state.best
    assert int(best.step[0]) == min(scores, key=scores.get)
    assert float(best.score[0]) == pytest.approx(min(scores.values()))
    assert int(trained.state.step) == int(best.step[0]) + 30
    again = judge(first_state(each, growing, [0])._replace(meta=jax.tree.map(jnp.copy, best.meta)), SINE.data)[1]
    assert float(again[0]) == pytest.approx(min(scores.values()))


def test_validation_tasks_are_fixed():
    each = small()
    judge = fewstep.make_validate(each, SINE, losses.squared_error, n_tasks=10, inner_steps=1, seed=0)
    values = [float(judge(first_state(each, optax.sgd(0.1), [0]), SINE.data)[1][0]) for _ in range(2)]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    "outer",
    [
        pytest.param(fewstep.unrolled, marks=pytest.mark.slow),
        pytest.param(fewstep.first_order, marks=pytest.mark.slow),
        fewstep.reptile(3, 5),
    ],
    ids=["unrolled", "first", "reptile"],
)
@pytest.mark.slow
def test_every_outer_gradient_learns(outer):
    each = learner(rules.maml(0.02), tanh_mlp((20,)))
    optimizer = optax.sgd(0.3) if outer not in (fewstep.unrolled, fewstep.first_order) else optax.adam(3e-3)
    trained = fewstep.train(each, SINE, steps=600, meta_batch=5, outer=outer, optimizer=optimizer)
    before, after = (
        fewstep.evaluate(each, meta, SINE, losses.squared_error, steps=(3,), n_tasks=100)[0].mean
        for meta in (each.init(jax.random.key(0)), trained.meta)
    )
    assert after < 0.9 * before


def test_stopping_from_outside():
    seen = []
    trained = fewstep.train(
        small(), SINE, steps=1000, on_segment=lambda state, rows: seen.append(int(state.step)) or len(seen) == 2
    )
    assert int(trained.state.step) == seen[-1] < 1000


def test_evaluate_reports_means_and_intervals():
    each = small()
    meta = each.init(jax.random.key(0))
    scores = fewstep.evaluate(
        each, meta, {5: tasks.sinusoid(5), 7: tasks.sinusoid(7)}, losses.squared_error, steps=(0, 2), n_tasks=50
    )
    assert [(score.shots, score.inner_steps, score.n_tasks) for score in scores] == [
        (5, 0, 50),
        (5, 2, 50),
        (7, 0, 50),
        (7, 2, 50),
    ]
    first = scores[0]
    assert first.mean == pytest.approx(first.values.mean())
    assert first.interval95 == pytest.approx(1.96 * first.values.std() / 50**0.5)
    more = fewstep.evaluate(each, meta, tasks.sinusoid(5), losses.squared_error, steps=(0,), n_tasks=60)[0]
    assert more.shots == 5
    np.testing.assert_allclose(more.values[:50], first.values, rtol=1e-5)  # a task depends on its number alone


def test_evaluate_takes_one_number_of_steps_and_one_seed():
    each = small()
    meta = each.init(jax.random.key(0))
    judge = lambda meta, steps: fewstep.evaluate(each, meta, SINE, losses.squared_error, steps=steps, n_tasks=4)
    one, same, also = (judge(meta, steps) for steps in (1, (1,), np.array([1])))
    assert one[0].mean == same[0].mean == also[0].mean
    assert one[0].inner_steps == 1
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), meta)
    with pytest.raises(fewstep.FewstepError, match=r"those of 2 seeds.*jax.tree.map\(lambda leaf: leaf\[0\], meta\)"):
        judge(both, 1)


def test_evaluation_meets_tasks_that_training_did_not():
    key = jax.random.key(0)
    streams = [jax.random.key_data(jax.random.fold_in(key, stream)).tolist() for stream in range(3)]
    assert len({tuple(stream) for stream in streams}) == 3


@pytest.mark.parametrize("options", [{"steps": -1}, {"steps": 1, "meta_batch": 0}, {"steps": 1, "seed": []}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(fewstep.FewstepError, match="at least one"):
        fewstep.train(small(), SINE, **options)


def test_a_state_goes_on_with_its_own_seed_and_no_other():
    first = fewstep.train(small(), SINE, steps=3, seed=5)
    whole = fewstep.train(small(), SINE, steps=6, seed=5).meta
    assert_equal(fewstep.train(small(), SINE, steps=6, state=first.state).meta, whole)
    for other in (0, [5, 6]):
        with pytest.raises(fewstep.FewstepError, match="the state was made with another"):
            fewstep.train(small(), SINE, steps=6, state=first.state, seed=other)
