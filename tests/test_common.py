"""Every rule through every check."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    NETWORKS,
    RULES,
    SMOOTH,
    TASKS,
    VARIANTS,
    assert_close,
    assert_equal,
    dot,
    episode,
    learner,
    shaken,
    slope,
    tanh_mlp,
)  # fmt: skip
from jax.sharding import Mesh

import fewstep
from fewstep import losses, rules, tasks
from fewstep._outer import over_tasks

# Rules whose links other rules here have too.
COMPOSED = ("boil", "tnet", "mnet", "mnet_full", "mtnet_full", "metric+mask+rates")
some_slow = [pytest.param(name, marks=pytest.mark.slow) if name in COMPOSED else name for name in RULES]
every_rule = pytest.mark.parametrize("name", some_slow)


FEW = ("maml", "mtnet", "maml adam")  # for checks that hardly depend on the rule


def made(name, lr=0.1, **options):
    each = learner(VARIANTS[name](lr), **options)
    return each, jax.jit(lambda: shaken(each.init(jax.random.key(1)), size=0.1))()


@every_rule
def test_init_and_adapt_under_jit_vmap_and_scan(name):
    each, _ = made(name)
    keys = jax.random.split(jax.random.key(0), 3)
    metas = jax.jit(jax.vmap(each.init))(keys)
    support = episode().support
    adapt = lambda meta, key: each.adapt(meta, key, support, (1, 3)).fast
    mapped = jax.jit(jax.vmap(adapt))(metas, keys)
    alone = jax.jit(adapt)
    plain = [alone(jax.tree.map(lambda leaf, n=n: leaf[n], metas), key) for n, key in enumerate(keys)]
    assert_close(mapped, jax.tree.map(lambda *leaves: jnp.stack(leaves), *plain))
    if name in FEW:
        _, scanned = jax.jit(lambda m, k: jax.lax.scan(lambda c, mk: (c, adapt(*mk)), 0, (m, k)))(metas, keys)
        assert_close(mapped, scanned)


@every_rule
def test_zero_steps_is_the_start(name):
    each, meta = made(name)
    flat = fewstep._network.flatten(meta["weights"])
    adapted = each.adapt(meta, jax.random.key(0), episode().support, 0)
    assert adapted.fast
    assert_equal(adapted.fast, {path: flat[path] for path in adapted.fast})


@every_rule
def test_rate_zero_does_not_move(name):
    each = learner(RULES[name](0.0))
    meta = each.init(jax.random.key(1))
    start, end = (each.adapt(meta, jax.random.key(0), episode().support, n).fast for n in (0, 3))
    assert_close(start, end, 0)


@every_rule
def test_it_moves_and_several_numbers_come_from_one_trajectory(name):
    each, meta = made(name)
    key, support = jax.random.key(3), episode().support
    several = jax.jit(lambda: each.adapt(meta, key, support, (0, 2, 3)).fast)()
    for row, count in enumerate((0, 2, 3)):
        single = jax.jit(lambda count=count: each.adapt(meta, key, support, count).fast)()
        assert_close(jax.tree.map(lambda leaf, row=row: leaf[row], several), single)
    assert any(np.abs(leaf[0] - leaf[2]).max() > 1e-6 for leaf in several.values())


@every_rule
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_dtype_is_kept(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        each = learner(RULES[name](0.1))

        def fast():
            meta = each.init(jax.random.key(1))
            meta["weights"] = jax.tree.map(lambda leaf: leaf.astype(dtype), meta["weights"])
            support = jax.tree.map(lambda leaf: leaf.astype(dtype), episode().support)
            return each.adapt(meta, jax.random.key(0), support, 2).fast

        fast = jax.eval_shape(fast)
        assert {str(leaf.dtype) for leaf in fast.values()} == {dtype}


@every_rule
def test_the_second_call_does_not_recompile(name):
    each, meta = made(name)
    traced = []

    @jax.jit
    def loss(meta, key, task):
        traced.append(1)
        return each.loss(meta, key, task)

    loss(meta, jax.random.key(0), episode(0))
    loss(shaken(meta), jax.random.key(1), episode(1))
    assert len(traced) == 1


@pytest.mark.parametrize(
    ("name", "steps"),
    [pytest.param(n, 3, marks=pytest.mark.slow if n in COMPOSED or " " in n else ()) for n in VARIANTS]
    + [("mtnet", 1)],
)
def test_meta_gradient_against_finite_differences(name, steps):
    """Masks are held: their draw is by key, and only for the smooth rules are their logits moved too."""
    with jax.enable_x64(True):
        each, meta = made(name, steps=steps)
        both = jax.jit(jax.value_and_grad(lambda m: each.loss(m, jax.random.key(5), episode(2))))
        loss, gradient = lambda m: both(m)[0], both(meta)[1]
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
        direction = shaken(jax.tree.map(jnp.zeros_like, meta), seed=9, size=1.0)
        if name not in SMOOTH:
            hard = {part: jax.tree.map(jnp.zeros_like, meta[part]) for part in ("mask", "full_mask") if part in meta}
            direction |= hard
        np.testing.assert_allclose(slope(loss, meta, direction), dot(gradient, direction), rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("name", FEW)
def test_permuting_tasks_permutes_results(name):
    each, meta = made(name)
    order = jnp.array([2, 0, 3, 1])
    some = tasks.sinusoid(5, 4)
    keys = jax.random.split(jax.random.key(0), 4)
    episodes = jax.vmap(lambda key: some.sample(some.data, key))(keys)
    losses_of = jax.jit(jax.vmap(each.loss, (None, 0, 0)))
    straight = losses_of(meta, keys, episodes)
    permuted = losses_of(meta, keys[order], jax.tree.map(lambda leaf: leaf[order], episodes))
    np.testing.assert_allclose(permuted, straight[order], rtol=1e-6)
    assert len(set(np.asarray(straight).tolist())) == 4


@pytest.mark.parametrize(
    ("name", "devices", "chunk"),
    [
        pytest.param("mtnet_full", 2, 2, marks=pytest.mark.slow),
        pytest.param("maml adam", 2, 2, marks=pytest.mark.slow),
        ("mtnet", 1, 2),
        pytest.param("maml", 3, None, marks=pytest.mark.slow),
    ],
)
def test_chunked_and_sharded_gradients_equal_the_plain_ones(name, devices, chunk):
    """Five tasks divide by none of these."""
    each, meta = made(name)
    some, gradient = tasks.sinusoid(5, 4), fewstep.unrolled(each)
    mesh = Mesh(np.asarray(jax.devices()[:devices]), ("tasks",)) if devices > 1 else None

    def of(*places):
        draw, mean = over_tasks(gradient, some, 5, *places)
        return jax.jit(lambda meta, data, key: mean(meta, draw(data, key)))(meta, some.data, jax.random.key(4))

    assert_close(of(), of(mesh, chunk))


@every_rule
def test_rows_of_weight_zero_change_nothing(name):
    each, meta = made(name)
    task = episode()

    def padded(batch):
        more = lambda array, value: jnp.concatenate([array, jnp.full((3, *array.shape[1:]), value)])
        return fewstep.Batch(more(batch.x, 50.0), more(batch.y, -70.0), more(batch.weight, 0.0))

    wide = fewstep.Episode(padded(task.support), padded(task.query))
    key = jax.random.key(0)
    both = jax.jit(lambda e: (each.loss(meta, key, e), each.adapt(meta, key, e.support, 2).fast))
    assert_close(both(task), both(wide))


@pytest.mark.parametrize("name", ["mtnet_full", pytest.param("maml adam", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_rematerialisation_changes_no_gradient(name):
    gradients = []
    for remat in (False, True):
        each, meta = made(name, steps=3, remat=remat)
        gradients.append(jax.jit(jax.grad(each.loss))(meta, jax.random.key(0), episode()))
    assert_close(*gradients)


@pytest.mark.parametrize("name", ["mtnet_full", "maml adam"])
def test_first_order_is_finite_and_differs(name):
    with jax.enable_x64(True):
        each, meta = made(name)
        gradient = lambda on: jax.jit(jax.grad(partial(each.loss, first_order=on)))(meta, jax.random.key(0), episode())
        first, second = jax.tree.leaves(gradient(True)), jax.tree.leaves(gradient(False))
    assert all(np.isfinite(leaf).all() for leaf in first)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("rule", [pytest.param("maml", marks=pytest.mark.slow), "boil", "mtnet"])
def test_every_network_takes_every_rule(network, rule):
    each = learner(RULES[rule](0.05), NETWORKS[network]())
    meta = jax.jit(each.init)(jax.random.key(0))
    before, after = losses_after(each, meta)
    assert np.isfinite(after)
    assert after < before


def losses_after(each, meta):
    task = episode(3, shots=20)

    def both(meta):
        adapted = each.adapt(meta, jax.random.key(1), task.support, (0, 3))
        return jax.vmap(lambda a: losses.squared_error(each.predict(meta, a, task.support.x), task.support))(adapted)

    return jax.jit(both)(meta)


@pytest.mark.parametrize("name", ["sinusoid", pytest.param("polynomial", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_training_lowers_the_error_on_every_task_distribution(name):
    each = learner(rules.mtnet(0.02), tanh_mlp((20,)))
    some = TASKS[name]()
    untrained = fewstep.evaluate(
        each, each.init(jax.random.key(0)), some, losses.squared_error, steps=(1,), n_tasks=100
    )
    trained = fewstep.train(each, some, steps=1000, meta_batch=8)
    judged = fewstep.evaluate(each, trained.meta, some, losses.squared_error, steps=(1,), n_tasks=100)
    assert judged[0].mean < 0.8 * untrained[0].mean


def test_rules_are_all_listed():
    assert set(rules.RULES) <= set(RULES)
