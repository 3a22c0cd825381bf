"""Every rule through the checks that only rules have; `test_contract` has what they share with other learners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import (
    ALONE,
    CONTAINED,
    NETWORKS,
    OUTERS,
    RULES,
    SMOOTH,
    TASKS,
    VARIANTS,
    assert_close,
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

HARD = ("mask", "full_mask", "sparse")
every_rule = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in {*CONTAINED} & {*ALONE} else ()) for name in RULES]
)


def made(name, lr=0.1, **options):
    each = learner(VARIANTS[name](lr), **options)
    return each, shaken(jax.jit(each.init)(jax.random.key(1)), size=0.1)


@every_rule
def test_rate_zero_does_not_move(name):
    each = learner(RULES[name](0.0))
    meta = jax.jit(each.init)(jax.random.key(1))
    fast = jax.jit(lambda: each.adapt(meta, jax.random.key(0), episode().support, (0, 3)).fast)()
    for leaf in fast.values():
        np.testing.assert_array_equal(leaf[0], leaf[1])


@every_rule
def test_half_precision_is_kept(name):
    each = learner(RULES[name](0.1))

    def fast():
        meta = each.init(jax.random.key(1))
        meta["weights"] = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), meta["weights"])
        support = jax.tree.map(lambda leaf: leaf.astype("bfloat16"), episode().support)
        return each.adapt(meta, jax.random.key(0), support, 2).fast

    assert {str(leaf.dtype) for leaf in jax.eval_shape(fast).values()} == {"bfloat16"}


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        pytest.param(
            n, 3, marks=pytest.mark.slow if n in CONTAINED or n == "all links" or (" " in n and n not in RULES) else ()
        )
        for n in VARIANTS
    ]
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
            hard = {part: jax.tree.map(jnp.zeros_like, meta[part]) for part in HARD if part in meta}
            direction |= hard
        np.testing.assert_allclose(slope(loss, meta, direction), dot(gradient, direction), rtol=2e-6, atol=1e-8)


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


KNOWN = ("unrolled", "first_order", "reptile")  # `test_contract` has them with every learner


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in KNOWN else ()) for n in OUTERS])
def test_an_outer_gradient_keeps_to_its_contract(name):
    """One program for any tasks; finite slopes of all that is learned, and none from a task of weight 0."""
    outer, each = OUTERS[name].outer, OUTERS[name].make()
    meta = shaken(jax.jit(each.init)(jax.random.key(1)), size=0.1)
    run, keys = jax.jit(outer(each)), jax.random.split(jax.random.key(2), 2)
    pair = lambda other: jax.tree.map(lambda *leaves: jnp.stack(leaves), episode(0), episode(other))
    (losses_of, slopes), (_, others) = (run(meta, keys, pair(other), jnp.array([1.0, 0.0])) for other in (1, 2))
    assert run._cache_size() == 1
    assert losses_of.shape == (2,)
    assert jax.tree.map(jnp.shape, slopes) == jax.tree.map(jnp.shape, meta)
    assert all(jnp.isfinite(leaf).all() and jnp.abs(leaf).max() > 0 for leaf in jax.tree.leaves(slopes))
    assert_close(slopes, others)


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTERS)
def test_an_outer_gradient_is_the_same_in_chunks_and_on_devices(name):
    outer, each = OUTERS[name].outer, OUTERS[name].make()
    meta, some = shaken(jax.jit(each.init)(jax.random.key(1)), size=0.1), tasks.sinusoid(5, 4)
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("tasks",))

    def of(*places):
        draw, mean = over_tasks(outer(each), some, 5, *places)
        return jax.jit(lambda meta, data, key: mean(meta, draw(data, key)))(meta, some.data, jax.random.key(4))

    assert_close(of(), of(mesh, 2), 1e-4)  # conjugate gradients make more of rounding


@pytest.mark.parametrize("name", ["mtnet_full", pytest.param("maml adam", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_rematerialization_changes_no_gradient(name):
    gradients = []
    for remat in (False, True):
        each, meta = made(name, steps=3, remat=remat)
        gradients.append(jax.jit(jax.grad(each.loss))(meta, jax.random.key(0), episode()))
    assert_close(*gradients)


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
