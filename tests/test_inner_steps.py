"""The inner step as a public part of a learner; what losses, inner optimizers and outer gradients may see; masks."""

import inspect
import typing

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import (
    CASES,
    LEARNERS,
    OUTERS,
    RULES,
    assert_close,
    assert_equal,
    dot,
    episode,
    learner,
    shaken,
    slope,
    tanh_mlp,
)

import fewstep
from fewstep import losses, networks, outers, rules, tasks
from fewstep._contract import AFTER_TRAINING

KEY = jax.random.key(0)
SINE = tasks.sinusoid(5, 5)


@pytest.mark.parametrize(
    "name", ["mtnet_full", *(pytest.param(n, marks=pytest.mark.slow) for n in ("mtnet", "maml adam"))]
)
def test_steps_taken_by_hand_are_those_of_adapt(name):
    each = learner(RULES[name](0.1))
    meta, support = shaken(each.init(KEY), size=0.1), episode().support

    def by_hand(**options):
        carry, take = each.step(meta, KEY, support, **options)
        for number in range(3):
            carry = take(carry, number)
        return carry.fast

    for options in ({}, {"minibatch": 3}, {"step_scale": 0.5}, {"first_order": True}):
        alike = jax.jit(lambda o=options: (by_hand(**o), each.adapt(meta, KEY, support, 3, **o).fast))
        assert_close(*alike())


def test_a_fixed_point_can_be_looked_for_from_any_weights():
    """What an implicit gradient needs: a step from weights of one's own, with its derivatives."""
    each = learner(rules.maml(0.1))
    meta, support = each.init(KEY), episode().support
    fast = jax.tree.map(lambda leaf: leaf + 0.1, each.adapt(meta, KEY, support, 0).fast)

    def moved(fast):
        start, take = each.step(meta, KEY, support)
        return take(start._replace(fast=fast), 0).fast

    expected = jax.tree.map(lambda leaf, g: leaf - 0.1 * g, fast, jax.grad(
        lambda f: losses.squared_error(each.predict(meta, fewstep.Adapted(f, ()), support.x), support)
    )(fast))  # fmt: skip
    assert_close(moved(fast), expected)
    slopes = jax.eval_shape(jax.jacrev(moved), fast)
    assert set(slopes["dense_0/bias"]) == set(fast)


def test_steps_do_not_see_padding():
    each, support = learner(rules.maml(0.1)), episode().support
    meta = each.init(KEY)
    spoilt = support._replace(x=support.x.at[2].set(jnp.nan), weight=support.weight.at[2].set(0.0))
    start, take = each.step(meta, KEY, spoilt)
    assert all(jnp.isfinite(leaf).all() for leaf in take(start, 0).fast.values())


@pytest.mark.parametrize("name", CASES)
def test_only_learners_by_gradient_steps_have_steps(name):
    by_rule = name not in LEARNERS
    assert (CASES[name].make().step is not None) == by_rule


def test_losses_see_steps_and_fast_weights_only_if_they_ask():
    seen = []

    def inner(meta, prediction, batch, context):
        seen.append(("inner", context))
        pull = sum(jnp.sum(jnp.square(leaf - start)) for leaf, start in _beside(meta, context.fast))
        return losses.squared_error(prediction, batch) + context.inner_step * pull

    def outer(prediction, batch, *, context):
        seen.append(("outer", context))
        return losses.squared_error(prediction, batch) * jnp.where(context.outer_step < 3, 0.0, 1.0)

    each = fewstep.gradient_learner(tanh_mlp(), rules.maml(0.05), outer, inner_loss=inner, steps=2)
    meta = each.init(KEY)
    assert each.loss(meta, KEY, episode(), outer_step=2) == 0
    assert each.loss(meta, KEY, episode(), outer_step=3) > 0
    assert each.loss(meta, KEY, episode()) > 0
    assert {kind for kind, _ in seen} == {"inner", "outer"}
    assert all(set(context.fast) == set(fewstep.flatten(meta["weights"])) for _, context in seen)
    assert [context.inner_step for kind, context in seen if kind == "outer"] == [2, 2, 2]
    plain = learner(rules.maml(0.05)).adapt(meta, KEY, episode().support, (1, 2)).fast
    ours = each.adapt(meta, KEY, episode().support, (1, 2)).fast
    assert_close({p: leaf[0] for p, leaf in ours.items()}, {p: leaf[0] for p, leaf in plain.items()})  # no pull yet
    assert any(np.abs(ours[path][1] - plain[path][1]).max() > 1e-6 for path in plain)


def _beside(meta, fast):
    weights = fewstep.flatten(meta["weights"])
    return [(fast[path], weights[path]) for path in fast]


def test_training_counts_the_outer_step():
    """A loss that is nothing but the outer step: the log has its mean over the steps of each row."""
    loss = lambda prediction, batch, context: context.outer_step + 0.0 * jnp.sum(prediction)
    each = fewstep.gradient_learner(networks.mlp(hidden=(2,)), rules.maml(0.01), loss, inner_loss=_plain)
    trained = fewstep.train(each, SINE, steps=10, log_every=5, seed=[0, 1], meta_batch=3, chunk=2)
    assert [row.loss for row in trained.log] == [[2.0, 2.0], [7.0, 7.0]]
    assert each.loss(each.init(KEY), KEY, episode()) == AFTER_TRAINING


def _plain(meta, prediction, batch):
    return losses.squared_error(prediction, batch)


def test_an_outer_gradient_of_ones_own_may_see_the_outer_step():
    """The exact gradient, but for its first two steps nothing moves."""

    def late(each):
        exact = fewstep.unrolled(each)

        def gradient(meta, keys, episodes, weights, outer_step):
            loss, grads = exact(meta, keys, episodes, weights)
            return loss, jax.tree.map(lambda leaf: jnp.where(outer_step < 2, 0.0, leaf), grads)

        return gradient

    each = learner(rules.maml(0.01))
    train = lambda steps: fewstep.train(each, SINE, steps=steps, outer=late, optimizer=optax.sgd(0.1)).meta
    start, two, three = train(0), train(2), train(3)
    assert_equal(start, two)
    assert any(np.abs(a - b).max() > 0 for a, b in zip(jax.tree.leaves(two), jax.tree.leaves(three), strict=True))


def test_a_learned_inner_loss_against_finite_differences():
    """A loss with two meta-parameters that sees the inner step: in double precision, all meta-parameters moved."""

    def inner(meta, prediction, batch, context):
        weight, power = meta["loss"]["weight"], meta["loss"]["power"]
        error = (jnp.square(prediction - batch.y) + 0.1) ** power
        return jnp.exp(weight[context.inner_step]) * losses.weighted_mean(error[:, 0], batch.weight)

    init = lambda key: {"loss": {"weight": jax.random.normal(key, (3,)), "power": jnp.asarray(1.0)}}
    with jax.enable_x64(True):
        each = learner(rules.tnet(0.05), inner_loss=fewstep.LearnedLoss(init, inner), steps=3)
        meta = shaken(each.init(KEY), size=0.1)
        assert set(meta) == {"weights", "metric", "loss"}
        both = jax.jit(jax.value_and_grad(lambda m: each.loss(m, KEY, episode(2))))
        gradient, direction = both(meta)[1], shaken(jax.tree.map(jnp.zeros_like, meta), seed=9, size=1.0)
        assert all(jnp.abs(leaf).min() > 0 for leaf in jax.tree.leaves(gradient["loss"]))
        np.testing.assert_allclose(slope(lambda m: both(m)[0], meta, direction), dot(gradient, direction), rtol=2e-6)


def test_a_learned_loss_leaves_the_start_of_the_rest_as_it_is_and_needs_a_name_of_its_own():
    learned = lambda name: fewstep.LearnedLoss(lambda key: {name: jnp.ones(())}, _plain)
    plain, ours = (learner(rules.mtnet(0.1), **more).init(KEY) for more in ({}, {"inner_loss": learned("own")}))
    assert_equal(plain, {name: ours[name] for name in plain})
    with pytest.raises(fewstep.FewstepError, match="inner loss makes meta-parameters named 'mask', as a link"):
        learner(rules.mtnet(0.1), inner_loss=learned("mask")).init(KEY)


def test_an_inner_optimizer_may_see_the_support_loss():
    """Polyak's step size is the loss over the squared size of the gradient, at most 1."""
    each = learner(rules.maml(optax.polyak_sgd(max_learning_rate=1.0)))
    meta, support = each.init(KEY), episode().support
    wrong = lambda fast: losses.squared_error(each.predict(meta, fewstep.Adapted(fast, ()), support.x), support)
    fast = each.adapt(meta, KEY, support, 0).fast
    value, gradient = jax.value_and_grad(wrong)(fast)
    rate = jnp.minimum(1.0, value / optax.tree.norm(gradient, squared=True))
    moved = each.adapt(meta, KEY, support, 1).fast
    assert_close(moved, jax.tree.map(lambda leaf, g: leaf - rate * g, fast, gradient))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.grad(each.loss)(meta, KEY, episode())))


def test_a_link_of_ones_own_may_see_the_support_loss():
    def update(layers, meta, key):
        scaled = lambda steps, state, params=None, *, value, **more: ({p: value * s for p, s in steps.items()}, state)
        return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), scaled)

    by_loss = fewstep.chain(rules.sgd(0.1), fewstep.link("by_loss", fewstep.Stage.SCALE, update=update))
    each, plain = learner(by_loss), learner(rules.maml(0.1))
    meta, support = each.init(KEY), episode().support
    value = losses.squared_error(plain.predict(meta, plain.adapt(meta, KEY, support, 0), support.x), support)
    assert_close(each.adapt(meta, KEY, support, 1).fast, plain.adapt(meta, KEY, support, 1, step_scale=value).fast)


FIELDS = {  # sets_step_size, fixed_step, draws, units
    "maml": (False, True, False, False),
    "meta_sgd": (True, False, False, False),
    "mnet": (False, True, True, True),
    "mtnet_full": (False, True, True, True),
    "metric+mask+rates": (True, False, True, True),
    "maml adam": (False, False, False, False),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_rule_says_what_its_links_do(name):
    rule = RULES[name](0.1)
    assert (rule.sets_step_size, rule.fixed_step, rule.draws, rule.units is not None) == FIELDS[name]
    assert not rules.mnet(draw="expected").draws


@pytest.mark.parametrize("name", ["mnet", "metric+mask+rates"])
def test_units_are_the_bits_that_adapting_draws(name):
    rule, network = RULES[name](0.1), tanh_mlp()
    each = learner(rule, network)
    meta, support, key = each.init(KEY), episode().support, jax.random.key(7)
    start, end = (each.adapt(meta, key, support, steps).fast for steps in (0, 2))
    bits = rule.units(network.layers, meta, key)
    assert set(bits) == {layer.path for layer in network.layers}
    moved = jnp.abs(end["dense_0/bias"] - start["dense_0/bias"]) > 0
    assert 0 < moved.sum() < len(moved)
    assert_equal(moved, bits["dense_0"] == 1)


def test_units_of_a_full_mask_are_mean_probabilities():
    rule, network = rules.mnet_full(0.1), tanh_mlp()
    meta = shaken(learner(rule, network).init(KEY))
    units = rule.units(network.layers, meta, KEY)["dense_1"]
    kernel, bias = (meta["full_mask"][f"dense_1/{name}"] for name in ("kernel", "bias"))
    assert_close(units, jax.nn.sigmoid(jnp.concatenate([kernel, bias[None]])).mean(0))


def test_every_outer_can_be_made_by_name():
    others = {"robust"}  # which has an option of its own
    assert {name.partition(",")[0] for name in OUTERS} - others == set(outers.OUTERS)
    for name, factory in outers.OUTERS.items():
        own = factory()
        assert getattr(outers, name) in (own, factory)
        assert isinstance(own, fewstep.Outer)


@pytest.mark.parametrize("factory", [*rules.RULES.values(), *rules.LINKS.values(), *outers.OUTERS.values()])
def test_keyword_options_say_what_they_are_for(factory):
    """The command line is made from the signatures; the inner steps and their optimizer are options of every method."""
    hints = typing.get_type_hints(factory, include_extras=True)
    options = [name for name in inspect.signature(factory).parameters if name not in ("inner", "inner_steps")]
    for name in options:
        assert typing.get_origin(hints[name]) is typing.Annotated
        assert isinstance(hints[name].__metadata__[0], str)
