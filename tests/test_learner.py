"""The inner loop: optimizers inside, other losses, memory, state, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import RULES, episode, learner, tanh_mlp

import fewstep
from fewstep import learners, losses, networks, rules

KEY = jax.random.key(0)


def flat_task():
    """A task whose gradients are exactly 0: the network fits it already."""
    x = jnp.linspace(-1, 1, 5)[:, None]
    each = fewstep.Batch(x, jnp.zeros_like(x), jnp.ones(5))
    return fewstep.Episode(each, each._replace(y=each.y + 1.0))


@pytest.mark.parametrize("inner", [optax.adam(0.01), pytest.param(optax.rmsprop(0.01), marks=pytest.mark.slow)])
@pytest.mark.parametrize("factory", [rules.maml, rules.mtnet], ids=["maml", "mtnet"])
def test_adam_inside_gives_finite_meta_gradients_also_for_zero_gradients(inner, factory):
    network = networks.mlp(hidden=(4,), std=0.0)  # all zeros: every gradient of the hidden layer is exactly 0
    each = learner(factory(inner), network, steps=3)
    meta, slopes = jax.jit(each.init)(KEY), jax.jit(jax.grad(each.loss))
    for task in (flat_task(), episode(shots=5, queries=5)):
        gradient = slopes(meta, KEY, task)
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_without_the_guard_adam_would_give_nan():
    """The reason for the guard: optax alone, on the same task."""
    network = networks.mlp(hidden=(4,), std=0.0)
    bare = fewstep.link("bare", fewstep.Stage.OPTIMIZE, update=lambda layers, meta, key: optax.adam(0.01))
    gradient = jax.grad(learner(bare, network).loss)(learner(bare, network).init(KEY), KEY, episode())
    assert not all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.slow
def test_momentum_keeps_the_slope_where_gradients_are_zero():
    """The guard must not touch optimizers that have a derivative there."""
    x64 = jax.enable_x64(True)
    with x64:
        network = networks.mlp(hidden=(4,), std=0.0)
        guarded, bare = (
            learner(rule, network, steps=2)
            for rule in (
                rules.maml(optax.sgd(0.1, momentum=0.9)),
                fewstep.link("bare", fewstep.Stage.OPTIMIZE, update=lambda *_: optax.sgd(0.1, momentum=0.9)),
            )
        )
        meta = guarded.init(KEY)
        ours, theirs = (jax.grad(each.loss)(meta, KEY, episode()) for each in (guarded, bare))
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)


def test_inner_loss_may_differ_and_may_see_the_meta_parameters():
    """A learned weight on the inner loss: its meta-gradient is that of a learned step size."""

    def link_init(layers, key, fast):
        return {"pull": jnp.asarray(1.0)}

    rule = fewstep.chain(rules.sgd(0.1), fewstep.link("pull", fewstep.Stage.SHAPE, init=link_init))
    inner = lambda meta, prediction, batch: meta["pull"] * losses.squared_error(prediction, batch)
    each = learner(rule, inner_loss=inner)
    meta = {**each.init(KEY), "pull": jnp.asarray(0.5)}
    halved = learner(rules.maml(0.05))
    ours = each.adapt(meta, KEY, episode().support, 2).fast
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        ours,
        halved.adapt({"weights": meta["weights"]}, KEY, episode().support, 2).fast,
    )
    assert jax.grad(each.loss)(meta, KEY, episode())["pull"] != 0


@pytest.mark.slow
def test_rematerialization_bounds_what_inner_steps_cost():
    """With many points and few weights the activations are what memory goes to; remat stops their growth."""

    def megabytes(steps, remat):
        each = learner(rules.maml(0.001), tanh_mlp((16, 16)), steps=steps, remat=remat)
        task = episode(shots=2000, queries=4)
        meta = jax.eval_shape(each.init, KEY)
        compiled = jax.jit(jax.grad(each.loss)).lower(meta, KEY, task).compile()
        return compiled.memory_analysis().temp_size_in_bytes / 1e6

    plain, rematerialized = (megabytes(40, remat) - megabytes(10, remat) for remat in (False, True))
    assert rematerialized < 0.1 * plain


def test_state_carries_the_statistics_of_the_support_to_the_query():
    """A network that centers by its support: the query's own rows must not change each other's prediction."""
    inner = tanh_mlp()

    def apply(params, state, x, weight):
        center = (x * weight[:, None]).sum(axis=0) / weight.sum() if isinstance(state, tuple) else state
        return inner.apply(params, (), x - center[None], weight)[0], center

    each = learner(rules.maml(0.1), inner._replace(apply=apply))
    meta, task = each.init(KEY), episode()
    adapted = each.adapt(meta, KEY, task.support, 2)
    np.testing.assert_allclose(adapted.state, task.support.x.mean(axis=0), rtol=1e-6)
    whole = each.predict(meta, adapted, task.query.x)
    alone = each.predict(meta, adapted, task.query.x[:1])
    np.testing.assert_allclose(whole[:1], alone, rtol=1e-5)


def test_frozen_arrays_are_left_alone_but_meta_learned():
    network = tanh_mlp()._replace(frozen=("dense_0/bias",))
    each = learner(rules.maml(0.1), network)
    meta = each.init(KEY)
    assert "dense_0/bias" not in each.adapt(meta, KEY, episode().support, 1).fast
    assert jnp.abs(jax.grad(each.loss)(meta, KEY, episode())["weights"]["dense_0"]["bias"]).max() > 0


def test_layers_can_be_chosen():
    each = learner(rules.mtnet(0.1, layers=("dense_1",)))
    meta = each.init(KEY)
    assert list(meta["metric"]) == list(meta["mask"]) == ["dense_1"]
    assert set(learner(rules.tnet(0.1, layers=(0,))).init(KEY)["metric"]) == {"dense_0"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rules.maml(-0.1), "lr is -0.1"),
        (lambda: rules.meta_sgd(float("nan")), "rates is nan"),
        (lambda: rules.step_rates(0.1, -1), "inner_steps is -1. Give the number"),
        (lambda: rules.learned_optimizer(width=0), "width is 0. A network needs at least 1"),
        (lambda: rules.meta_lstm(2.0), "start is 2.0. The step size of meta_lstm is a gate"),
        (lambda: fewstep.outers.annealed(-1), "first_order_steps is -1. Give 0 or more"),
        (lambda: learner(fewstep.chain(rules.maml(), rules.step_norm())).init(KEY), "this network adapts none"),
        (lambda: rules.mask(temperature=0.0), "temperature is 0.0"),
        (lambda: rules.mask(draw="exact"), "Unknown way to draw a mask 'exact'. Did you mean 'expected'?"),
        (lambda: fewstep.chain(rules.mtnet(), rules.mask()), "holds mask twice"),
        (lambda: learner(rules.metric()).loss(learner(rules.metric()).init(KEY), KEY, episode()), "no step size"),
        (lambda: learner(rules.tnet(layers=("dense_9",))).init(KEY), "no layer 'dense_9'"),
        (lambda: learner(rules.anil(head=5)).init(KEY), "no layer 5"),
        (lambda: learner(fewstep.chain(rules.anil(), rules.maml())).init(KEY), "sgd twice"),
        (lambda: networks.mlp(hidden=(0,)), "at least 1"),
        (lambda: link(updates=lambda *_: optax.sgd(0.1)), "hole of the link 'mine': 'updates'. Did you mean 'update'?"),
        (lambda: own(lambda *_: {"weights": {}}).init(KEY), "meta-parameters named 'weights', as the network has"),
        (lambda: own(lambda *_: {"rates": 1.0}).init(KEY), "named 'rates', as a link of the rule has"),
        (lambda: learner(fewstep.chain(link(start=lambda *_: {}), rules.sgd(0.1))).init(KEY), "link 'mine' leaves out"),
        (lambda: learner(rules.maml(), learners.nothing_but_x(1)).init(KEY), "no array that a task may move"),
        (lambda: learner(rules.maml()).adapt({}, KEY, episode().support, 1.5), "inner steps is 1.5. Give a whole"),
        (lambda: fewstep.batch([], []), "no rows"),
        (lambda: fewstep.batch([1.0, 2.0], [1.0]), "x has 2 rows and y has 1"),
        (lambda: fewstep.batch([1.0, np.nan], [1.0, 2.0]), "x holds nan at row 2"),
        (lambda: fewstep.batch(["a"], [1.0]), "not a table of numbers"),
        (lambda: fewstep.batch([1.0], [1.0], [0.0]), "above 0 somewhere"),
        (lambda: fewstep.batch([1.0], [1.0], [1.0, 2.0]), "one number per row"),
    ],
)  # fmt: skip
def test_mistakes_are_named(make, words):
    with pytest.raises(fewstep.FewstepError, match=words.replace("(", r"\(").replace("?", r"\?")):
        make()


def link(**holes):
    return fewstep.link("mine", fewstep.Stage.SHAPE, **holes)


def own(init):
    """The learner of a rule with a link whose meta-parameters are those."""
    return learner(fewstep.chain(link(init=init), rules.rates(0.1)))


COUNTS = {"numpy": np.int64(2), "numpy, no axis": np.asarray(2), "several": [np.int64(0), 2], "array": np.array([0, 2])}


@pytest.mark.parametrize("name", COUNTS)
def test_any_whole_numbers_are_numbers_of_steps(name):
    given, several = COUNTS[name], "numpy" not in name
    for each in (learner(rules.maml(0.1)), learners.ridge(networks.mlp(1, 3, hidden=(4,)), 3)):
        meta, support = each.init(KEY), episode().support
        expected = each.adapt(meta, KEY, support, (0, 2) if several else 2)
        jax.tree.map(np.testing.assert_array_equal, each.adapt(meta, KEY, support, given), expected)
    assert learner(rules.maml(), steps=np.int64(2)).loss(learner(rules.maml()).init(KEY), KEY, episode()) > 0


@pytest.mark.parametrize("steps", [(), (-1,), (2, 1), (1, 1)])
def test_numbers_of_steps_must_rise(steps):
    each = learner(rules.maml())
    with pytest.raises(fewstep.FewstepError, match="rising numbers"):
        each.adapt(each.init(KEY), KEY, episode().support, steps)


def test_shapes_that_do_not_fit_are_named():
    each = learner(rules.maml())
    meta = each.init(KEY)
    with pytest.raises(fewstep.FewstepError, match=r"x has shape \(3, 2\); this network takes rows of 1"):
        each.adapt(meta, KEY, fewstep.batch(np.ones((3, 2)), np.ones((3, 1))), 1)
    with pytest.raises(fewstep.FewstepError, match=r"y has shape \(3, 2\)"):
        each.adapt(meta, KEY, fewstep.batch(np.ones((3, 1)), np.ones((3, 2))), 1)
    with pytest.raises(fewstep.FewstepError, match=r"y\[:, None\]"):
        each.adapt(meta, KEY, fewstep.batch([1, 2, 3], [1, 2, 3]), 1)


@pytest.mark.parametrize(
    "name", ["meta_sgd", "anil", "boil", "tnet", "mnet", "mtnet", "mtnet_full", "metric+mask+rates"]
)
def test_reptile_refuses_what_it_would_not_train(name):
    each = learner(RULES[name](0.1))
    with pytest.raises(fewstep.FewstepError, match="Reptile cannot train this rule"):
        fewstep.train(each, fewstep.tasks.sinusoid(), steps=1, outer=fewstep.reptile())


def test_reptile_refuses_a_learner_without_weights_of_a_network():
    alone = fewstep.Learner(
        lambda key: {"level": jnp.zeros(1)},
        lambda meta, key, episode, first_order=False: jnp.mean((episode.query.y - meta["level"][None]) ** 2),
        lambda meta, key, support, steps, **options: fewstep.Adapted({"level": meta["level"]}, ()),
        lambda meta, adapted, x, weight=None: jnp.broadcast_to(adapted.fast["level"], (len(x), 1)),
    )
    batch = fewstep.Batch(jnp.ones((2, 1)), jnp.arange(2), jnp.ones(2))
    tasks = fewstep.Tasks({}, lambda data, key: fewstep.Episode(batch, batch))
    for each, what in ((alone, "the level"), (learners.prototypes(tanh_mlp(), 2), "4 of the network's arrays")):
        with pytest.raises(fewstep.FewstepError, match=f"Reptile cannot train this.*so {what}"):
            fewstep.train(each, tasks, steps=1, outer=fewstep.reptile())


NARROW = ("bfloat16", pytest.param("float16", marks=pytest.mark.slow))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("name", ["mtnet_full", pytest.param("mnet", marks=pytest.mark.slow)])
def test_masks_beside_weights_of_16_bits(name, dtype):
    """Logits keep the digits that a step of the outer optimizer needs; steps and adapted weights keep their type."""
    wide, cast = tanh_mlp(), lambda tree: jax.tree.map(lambda leaf: leaf.astype(dtype), tree)
    network, rule = wide._replace(init=lambda key: cast(wide.init(key))), RULES[name](0.1)
    each = learner(rule, network)
    meta = each.init(KEY)
    logits = meta["mask"] if "mask" in meta else meta["full_mask"]
    assert {leaf.dtype for leaf in logits.values()} == {jnp.dtype("float32")}
    flat = fewstep._network.flatten(meta["weights"])
    optimizer = rule.update(network.layers, meta, KEY)
    updates, _ = optimizer.update(flat, optimizer.init(flat), flat)
    adapted = jax.eval_shape(lambda: each.adapt(meta, KEY, cast(episode().support), 2).fast)
    assert {leaf.dtype for leaf in (*updates.values(), *adapted.values())} == {jnp.dtype(dtype)}
    trained = fewstep.train(each, fewstep.tasks.sinusoid(), steps=3, optimizer=optax.sgd(1e-3))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(trained.meta))


def test_logits_have_no_more_digits_than_their_weights():
    with jax.enable_x64(True):
        wide = tanh_mlp()
        single = wide._replace(init=lambda key: jax.tree.map(lambda leaf: leaf.astype("float32"), wide.init(key)))
        meta = learner(fewstep.chain(rules.mnet(), rules.full_mask()), single).init(KEY)
        assert {leaf.dtype for leaf in jax.tree.leaves(meta)} == {jnp.dtype("float32")}


def test_classification_losses_weigh_their_rows():
    logits = jnp.array([[2.0, 0.0], [0.0, 1.0], [9.0, -9.0]])
    batch = fewstep.Batch(jnp.ones((3, 1)), jnp.array([0, 0, 1]), jnp.array([1.0, 1.0, 0.0]))
    expected = -(2 - np.log(np.exp(2) + 1) + 0 - np.log(np.e + 1)) / 2
    np.testing.assert_allclose(losses.cross_entropy(logits, batch), expected, rtol=1e-6)
    assert losses.accuracy(logits, batch) == 0.5


def plain_maml(steps):
    """MAML of a perceptron, written without the library: the query loss after some inner steps."""

    def error(weights, batch):
        x, paths = batch.x, sorted(weights)
        for path in paths:
            x = x @ weights[path]["kernel"] + weights[path]["bias"][None]
            x = x if path == paths[-1] else jax.nn.relu(x)
        return jnp.mean((x - batch.y) ** 2)

    def loss(weights, task):
        descend = lambda weight, slope: weight - 0.01 * slope
        take = lambda fast, _: (jax.tree.map(descend, fast, jax.grad(error)(fast, task.support)), None)
        fast, _ = jax.lax.scan(take, weights, None, length=steps, unroll=steps == 1)
        return error(fast, task.query)

    return loss


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_a_plain_maml_costs_what_one_without_the_library_does(steps):
    """Operations and memory traffic of the compiled outer gradient, as XLA counts them: what a rule may be made of
    costs a rule without it nothing."""
    ours = fewstep.gradient_learner(networks.mlp(), rules.maml(0.01), losses.squared_error, steps=steps)
    meta, task = ours.init(jax.random.key(0)), episode(shots=10, queries=10)
    given = {"ours": (ours.loss, meta, jax.random.key(0), task), "plain": (plain_maml(steps), meta["weights"], task)}
    cost = {name: jax.jit(jax.grad(of)).lower(*a).compile().cost_analysis() for name, (of, *a) in given.items()}
    assert cost["ours"]["flops"] <= 1.01 * cost["plain"]["flops"]
    assert cost["ours"]["bytes accessed"] <= 1.02 * cost["plain"]["bytes accessed"]
