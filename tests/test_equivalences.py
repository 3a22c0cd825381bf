"""Known equalities between methods, and between a method and its mathematics."""

from functools import partial

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import assert_close, assert_equal, episode, fused, image_episode, learner, shaken, tanh_mlp, tiny

import fewstep
from fewstep import losses, networks, rules
from fewstep.outers import annealed as annealed_outer

KEY = jax.random.key(7)
CERTAIN = 1e4


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def with_masks(meta, logit):
    return {**meta, "mask": jax.tree.map(lambda leaf: jnp.full_like(leaf, logit), meta["mask"])}


def weights():
    return shaken(learner(rules.maml()).init(KEY)["weights"])


def fast_after(rule, steps=3, **meta):
    each = learner(rule)
    started = {**each.init(KEY), "weights": weights()} | meta
    return each.adapt(started, KEY, episode().support, steps).fast


def test_identity_metric_and_full_mask_is_maml_step_for_step():
    each = learner(rules.mtnet(0.1))
    meta = with_masks({**each.init(KEY), "weights": weights()}, CERTAIN)
    plain = learner(rules.maml(0.1))
    steps = (0, 1, 2, 5)
    ours = each.adapt(meta, KEY, episode().support, steps).fast
    assert_close(ours, plain.adapt({"weights": weights()}, KEY, episode().support, steps).fast, 1e-13)
    gradient = jax.grad(each.loss)(meta, KEY, episode())["weights"]
    assert_close(gradient, jax.grad(plain.loss)({"weights": weights()}, KEY, episode())["weights"], 1e-13)


@pytest.mark.parametrize("rule", [rules.mnet(0.1), rules.mtnet(0.1)], ids=["mnet", "mtnet"])
def test_logits_of_minus_infinity_are_no_adaptation(rule):
    each = learner(rule)
    meta = with_masks({**each.init(KEY), "weights": weights()}, -jnp.inf)
    start, end = (each.adapt(meta, KEY, episode().support, n).fast for n in (0, 4))
    assert_equal(start, end)


def test_logits_of_plus_infinity_are_maml():
    assert_close(
        fast_after(rules.mnet(0.1), mask=with_masks(learner(rules.mnet()).init(KEY), jnp.inf)["mask"]),
        fast_after(rules.maml(0.1)),
        1e-14,
    )


def test_rates_equal_to_the_step_size_are_maml():
    assert_close(fast_after(rules.meta_sgd(0.1)), fast_after(rules.maml(0.1)), 1e-14)


def test_rates_replace_the_step_size_in_a_chain():
    chained = fewstep.chain(rules.mtnet(123.0, draw="threshold"), rules.rates(0.1))
    assert_close(fast_after(chained), fast_after(rules.mtnet(0.1, draw="threshold")), 1e-14)


def rates_by_array(values):
    """A rate for each array, the same at all of so many inner steps."""
    link_init = lambda layers, key, fast: {"of_array": {p: jnp.asarray(values[p]) for p in fast}}
    update = lambda layers, meta, key: optax.stateless(
        lambda steps, params: {p: s * meta["of_array"][p] for p, s in steps.items()}
    )
    return fewstep.chain(
        fewstep.link("of_array", fewstep.Stage.SCALE, sets_step_size=True, init=link_init, update=update)
    )


def test_equal_step_rates_are_one_rate_per_array():
    paths = fewstep.flatten(weights()).keys()
    values = {path: 0.02 * (number + 1) for number, path in enumerate(paths)}
    table = {path: jnp.full(3, value) for path, value in values.items()}
    ours = fast_after(rules.mamlpp(0.1, 3), 5, step_rates=table)
    assert_close(ours, fast_after(rates_by_array(values), 5), 1e-14)


@pytest.mark.parametrize(
    "rule",
    [
        rules.mamlpp(0.1, 2),
        rules.alfa(0.1, 2),
        rules.learned_optimizer(0.1),
        fewstep.chain(rules.maml(0.1), rules.learned_loss(2)),
        fewstep.chain(rules.meta_sgd(0.1), rules.learned_loss(2)),
    ],
    ids=["mamlpp", "alfa", "learned_optimizer", "maml+learned_loss", "meta_sgd+learned_loss"],
)
def test_what_starts_as_maml_takes_its_steps_also_after_those_in_training(rule):
    assert_close(fast_after(rule, 4), fast_after(rules.maml(0.1), 4), 1e-11)


def test_alfa_with_a_constant_generator_scales_rates_and_decays():
    rule = rules.alfa(0.1, 1, decay=0.5)
    own = learner(rule).init(KEY)["alfa"]
    shift = jnp.repeat(jnp.array([0.5, 2.0]), len(own["rates"]))  # a of each array, then b
    own["generator"]["shift"] = shift
    plain, start = fast_after(rules.maml(0.15), 1), fewstep.flatten(weights())
    expected = {path: leaf - 0.05 * 2 * start[path] for path, leaf in plain.items()}
    assert_close(fast_after(rule, 1, alfa=own), expected, 1e-14)


def test_a_meta_lstm_without_weights_descends_and_decays():
    rule = rules.meta_lstm(0.1)
    own = learner(rule).init(KEY)["meta_lstm"]
    own |= {name: jnp.zeros_like(own[name]) for name in ("forget", "let")}
    plain, start = fast_after(rules.maml(0.1), 1), fewstep.flatten(weights())
    expected = {path: leaf - 0.1 * start[path] for path, leaf in plain.items()}
    assert_close(fast_after(rule, 1, meta_lstm=own), expected, 1e-13)


def test_step_norm_moves_a_normalization_by_its_changes_and_nothing_else():
    """Without changes it is a frozen normalization; the changes add up over the steps in training, then stop."""
    of = lambda rule, adapt: fewstep.gradient_learner(tiny(adapt_norm=adapt), rule, losses.cross_entropy)
    support, path = image_episode().support, "norm_0/shift"
    each = of(fewstep.chain(rules.step_norm(2), rules.meta_sgd(0.1)), True)
    meta = jax.jit(each.init)(KEY)
    still, frozen = of(rules.maml(0.1), False), jax.jit(of(rules.maml(0.1), False).init)(KEY)
    expected = jax.jit(lambda: still.adapt(frozen, KEY, support, 3).fast)()
    ours = jax.jit(lambda meta: each.adapt(meta, KEY, support, (1, 2, 3)).fast)
    fast = ours({**meta, "weights": frozen["weights"]})
    assert_close({p: fast[p][-1] for p in expected}, expected, 1e-12)
    assert set(fast) - set(expected) == set(meta["step_norm"])
    changed = {**meta["step_norm"], path: jnp.array([[0.1] * 3, [0.2] * 3])}
    np.testing.assert_allclose(ours({**meta, "step_norm": changed})[path][:, 0], [0.1, 0.3, 0.3], rtol=1e-12)


def test_each_inner_step_has_its_own_rates_and_later_ones_the_last():
    each, task = learner(rules.mamlpp(0.1, 2)), episode()
    table = {path: jnp.array([0.1, 0.03]) for path in fewstep.flatten(weights())}
    meta = {"weights": weights(), "step_rates": table}
    one, two, four = (each.adapt(meta, KEY, task.support, count).fast for count in (1, 2, 4))
    go_on = lambda fast, lr, count: (
        learner(rules.maml(lr)).adapt({"weights": unflattened(fast)}, KEY, task.support, count).fast
    )
    assert_close(one, go_on(fewstep.flatten(weights()), 0.1, 1), 1e-14)
    assert_close(two, go_on(one, 0.03, 1), 1e-14)
    assert_close(four, go_on(one, 0.03, 3), 1e-14)


def unflattened(fast):
    return fewstep._network.unflatten(weights(), fast)


def test_a_multi_step_loss_is_the_mean_at_first_and_the_last_in_the_end():
    """The query loss after each inner step, as one by one; after the annealing, value and slopes of the last alone."""
    each, plain = learner(rules.maml(0.1), steps=3, multi_step=8), learner(rules.maml(0.1), steps=3)
    meta, task = {"weights": weights()}, episode()
    every = each.adapt(meta, KEY, task.support, (1, 2, 3))
    of_step = lambda adapted: losses.squared_error(each.predict(meta, adapted, task.query.x), task.query)
    one, two, three = jax.vmap(of_step)(every)
    at = jax.jit(lambda step: each.loss(meta, KEY, task, outer_step=step))
    np.testing.assert_allclose(at(0), (one + two + three) / 3, rtol=1e-13)
    np.testing.assert_allclose(at(4), (one + two) / 6 + three * (1 / 6 + 1 / 2), rtol=1e-13)
    np.testing.assert_allclose(at(8), three, rtol=1e-13)
    both = jax.jit(lambda: (jax.grad(each.loss)(meta, KEY, task), jax.grad(plain.loss)(meta, KEY, task)))
    assert_close(*both(), 1e-13)


def test_annealed_gradients_are_of_first_order_and_then_exact():
    each = learner(rules.mamlpp(0.1, 2), steps=2)
    given = {**each.init(KEY), "weights": weights()}, KEY[None], jax.tree.map(lambda leaf: leaf[None], episode())
    of = lambda outer, **step: outer(each)(*given, jnp.ones(1), **step)
    annealed = jax.jit(lambda step: of(annealed_outer(10), outer_step=step))
    first, exact = jax.jit(lambda: (of(fewstep.first_order), of(fewstep.unrolled)))()
    assert_close(annealed(9), first, 1e-13)
    assert_close(annealed(10), exact, 1e-13)


def test_links_work_in_any_order():
    links = [
        rules.metric(), rules.mask(draw="expected"), rules.rates(0.1), rules.step_rates(0.3), rules.adapt_only(-1),
    ]  # fmt: skip
    assert_equal(fast_after(fewstep.chain(*links)), fast_after(fewstep.chain(*links[::-1])))


def test_anil_and_boil_together_move_what_maml_moves():
    body, head = fast_after(rules.boil(0.1), 1), fast_after(rules.anil(0.1), 1)
    assert not body.keys() & head.keys()
    assert_close(body | head, fast_after(rules.maml(0.1), 1), 1e-14)


@pytest.mark.slow
def test_fused_metric_equals_a_literal_one():
    """For a support larger and smaller than a layer, so that both forms of the literal one are met."""
    network = tanh_mlp((6, 4))
    for shots in (3, 9):
        gradients = []
        for each in (learner(rules.tnet(0.1), network), learner(rules.tnet(0.1), fused(network))):
            meta = shaken(each.init(KEY))
            gradients.append(jax.value_and_grad(each.loss)(meta, KEY, episode(shots=shots)))
        assert_close(*gradients, 1e-12)


def test_t_net_equals_a_network_with_a_literal_layer_of_t():
    """A T-net written by hand: two matrices a layer, of which only the first is adapted."""
    network = tanh_mlp()
    each = learner(rules.tnet(0.1), network, steps=3)
    meta = shaken(each.init(KEY))

    def apply(params, x):
        hidden = jnp.tanh((x @ params["w1"] + params["b1"][None]) @ params["t1"])
        return (hidden @ params["w2"] + params["b2"][None]) @ params["t2"]

    first, second = (meta["weights"][name] for name in ("dense_0", "dense_1"))
    params = {
        "w1": first["kernel"], "b1": first["bias"], "t1": meta["metric"]["dense_0"],
        "w2": second["kernel"], "b2": second["bias"], "t2": meta["metric"]["dense_1"],
    }  # fmt: skip
    by_hand = fewstep.network(lambda key: params, apply, jnp.ones((2, 1)), frozen=("t1", "t2"))
    plain = learner(rules.maml(0.1), by_hand, steps=3)
    ours, theirs = each.loss(meta, KEY, episode()), plain.loss({"weights": params}, KEY, episode())
    np.testing.assert_allclose(ours, theirs, rtol=1e-13)


def test_t_net_equals_its_metric_form_after_five_steps():
    """With A = W T the T-net's step is A - lr grad_A T' T: a preconditioned gradient, nothing else."""
    network, lr = tanh_mlp(), 0.05
    each = learner(rules.tnet(lr), network)
    meta = shaken(each.init(KEY))
    metrics, task = meta["metric"], episode()
    effective = {
        name: {part: leaf @ metrics[name] for part, leaf in layer.items()} for name, layer in meta["weights"].items()
    }

    def loss(params):
        return losses.squared_error(network.apply(params, (), task.support.x, task.support.weight)[0], task.support)

    for _ in range(5):
        gradient = jax.grad(loss)(effective)
        effective = {
            name: {
                part: leaf - lr * gradient[name][part] @ (metrics[name].T @ metrics[name])
                for part, leaf in layer.items()
            }
            for name, layer in effective.items()
        }
    adapted = each.adapt(meta, KEY, task.support, 5)
    expected = network.apply(effective, (), task.query.x, task.query.weight)[0]
    np.testing.assert_allclose(each.predict(meta, adapted, task.query.x), expected, rtol=1e-12, atol=1e-12)


def test_before_adaptation_only_the_product_of_weight_and_metric_counts():
    each = learner(rules.tnet(0.1))
    meta = shaken(each.init(KEY))
    turn = {
        name: jnp.linalg.qr(jax.random.normal(KEY, matrix.shape))[0] * 1.7 for name, matrix in meta["metric"].items()
    }
    other = {
        "weights": {n: {p: leaf @ turn[n] for p, leaf in layer.items()} for n, layer in meta["weights"].items()},
        "metric": {name: jnp.linalg.inv(turn[name]) @ matrix for name, matrix in meta["metric"].items()},
    }
    task = episode()
    before, after = (
        [each.predict(m, each.adapt(m, KEY, task.support, n), task.query.x) for m in (meta, other)] for n in (0, 1)
    )
    assert_close(*before, 1e-12)
    assert np.abs(after[0] - after[1]).max() > 1e-3


@pytest.mark.parametrize("chosen", [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0]])
def test_one_cell_moves_by_the_metric_of_the_paper(chosen):
    """y_new - y = -lr (|x|^2 + 1) T diag(m) T' dL/dy for one example, in columns; T' diag(m) T in our rows."""
    lr, width = 0.03, 4
    cell = networks.mlp(3, width, hidden=())
    each = fewstep.gradient_learner(cell, rules.mtnet(lr), losses.squared_error)
    meta = shaken(each.init(KEY))
    meta["mask"] = {"dense_0": jnp.where(jnp.array(chosen) == 1, CERTAIN, -CERTAIN)}
    point = fewstep.batch([[0.3, -1.2, 0.8]], [[1.0, 2.0, -1.0, 0.5]])
    before, after = (each.predict(meta, each.adapt(meta, KEY, point, n), point.x) for n in (0, 1))
    slope = jax.grad(lambda y: losses.squared_error(y, point))(before)
    matrix = meta["metric"]["dense_0"]
    metric = matrix.T @ jnp.diag(jnp.array(chosen, float)) @ matrix
    np.testing.assert_allclose(after - before, -lr * (jnp.sum(point.x**2) + 1) * slope @ metric, rtol=1e-12, atol=1e-14)
    assert np.linalg.matrix_rank(metric) == sum(chosen)


def test_an_orthogonal_metric_is_plain_descent_on_the_product():
    cell = networks.mlp(3, 4, hidden=())
    each, plain = (
        fewstep.gradient_learner(cell, rule, losses.squared_error) for rule in (rules.tnet(0.1), rules.maml(0.1))
    )
    meta = shaken(each.init(KEY))
    turn = jnp.linalg.qr(jax.random.normal(KEY, (4, 4)))[0]
    meta["metric"] = {"dense_0": turn}
    product = {"weights": jax.tree.map(lambda leaf: leaf @ turn, meta["weights"])}
    point = fewstep.batch(np.ones((2, 3)) * [[1.0], [2.0]], np.arange(8.0).reshape(2, 4))
    assert_close(
        each.predict(meta, each.adapt(meta, KEY, point, 3), point.x),
        plain.predict(product, plain.adapt(product, KEY, point, 3), point.x),
        1e-12,
    )


@pytest.mark.slow
def test_expansions_of_maml_first_order_and_reptile():
    """For two gradients g1, g2 and Hessians H1, H2 at the start, to first order in the step size a:
    MAML g2 - a H2 g1 - a H1 g2, first order g2 - a H2 g1, Reptile (g1 + g2 - a H2 g1)."""
    network = tanh_mlp()
    flat, back = jax.flatten_util.ravel_pytree(weights())
    task = episode(shots=4, queries=4)

    def loss(batch, vector):
        return losses.squared_error(network.apply(back(vector), (), batch.x, batch.weight)[0], batch)

    one, two = (partial(loss, batch) for batch in task)
    g1, g2 = jax.grad(one)(flat), jax.grad(two)(flat)
    h1, h2 = jax.hessian(one)(flat), jax.hessian(two)(flat)
    errors = {"maml": [], "first order": [], "reptile": []}
    for a in (1e-3, 5e-4):
        each = learner(rules.maml(a), network)
        raveled = lambda tree: jax.flatten_util.ravel_pytree(tree["weights"])[0]
        maml, first = (
            raveled(jax.grad(each.loss)({"weights": weights()}, KEY, task, first_order=on)) for on in (False, True)
        )
        step = optax.apply_updates
        middle = step(flat, -a * g1)
        way = (flat - step(middle, -a * jax.grad(two)(middle))) / a
        errors["maml"].append(np.abs(maml - (g2 - a * h2 @ g1 - a * h1 @ g2)).max())
        errors["first order"].append(np.abs(first - (g2 - a * h2 @ g1)).max())
        errors["reptile"].append(np.abs(way - (g1 + g2 - a * h2 @ g1)).max())
    for name, (large, small) in errors.items():
        assert 3.5 < large / small < 4.5, name  # what is left is of second order: a quarter at half the step


@pytest.mark.slow
def test_reptile_goes_the_way_the_task_went():
    """The outer gradient is start minus adapted, and with one whole batch a step this is the inner loop's own way."""
    each = learner(rules.maml(0.05))
    meta, task = {"weights": weights()}, episode(shots=4, queries=4)
    every = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *task)
    one = jax.tree.map(lambda leaf: leaf[None], task)
    _, gradient = fewstep.reptile(3, minibatch=8)(each)(meta, KEY[None], one, jnp.ones(1))
    end = each.adapt(meta, KEY, every, 3).fast
    start = each.adapt(meta, KEY, every, 0).fast
    assert_close(fewstep._network.flatten(gradient["weights"]), jax.tree.map(jnp.subtract, start, end), 1e-12)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_straight_through_masks(temperature):
    """Going forward 0 or 1; going back the slope s (1 - s) / temperature of the soft draw s; the right probability."""
    logits = {"a": jnp.linspace(-2.0, 2.0, 5), "b": jnp.zeros(3)}
    draw = partial(fewstep.rules._mask.draw_bits, temperature=temperature)
    bits = draw(logits, KEY)
    assert all(set(np.asarray(bit).tolist()) <= {0.0, 1.0} for bit in bits.values())
    slopes = jax.grad(lambda some: sum(bit.sum() for bit in draw(some, KEY).values()))(logits)
    noise = jax.random.logistic(KEY, (8,))
    soft = jax.nn.sigmoid((jnp.concatenate(list(logits.values())) + noise) / temperature)
    np.testing.assert_allclose(jnp.concatenate(list(slopes.values())), soft * (1 - soft) / temperature, rtol=1e-10)
    many = jax.vmap(lambda key: draw(logits, key)["a"])(jax.random.split(KEY, 20_000))
    np.testing.assert_allclose(many.mean(axis=0), jax.nn.sigmoid(logits["a"]), atol=0.015)


def test_certain_masks_have_finite_slopes():
    logits = {"a": jnp.asarray([-1e4, -40.0, 40.0, 1e4])}
    keys = jax.random.split(KEY, 100)
    draw = lambda some, key: fewstep.rules._mask.draw_bits(some, key)["a"]
    np.testing.assert_array_equal(jax.vmap(lambda key: draw(logits, key))(keys), [[0.0, 0.0, 1.0, 1.0]] * 100)
    slopes = jax.vmap(jax.grad(lambda some, key: draw(some, key).sum()), (None, 0))(logits, keys)["a"]
    np.testing.assert_allclose(slopes, 0, atol=1e-12)


def test_masks_are_held_through_a_task_and_differ_between_tasks():
    each = learner(rules.mnet(0.1), tanh_mlp((30,)))
    meta, support = {**each.init(KEY)}, episode().support
    moved = lambda key, n: np.abs(each.adapt(meta, key, support, n).fast["dense_0/bias"]) > 0
    first, second = jax.random.split(KEY)
    assert moved(first, 1).any()
    assert not moved(first, 1).all()
    np.testing.assert_array_equal(moved(first, 1), moved(first, 6))
    assert (moved(first, 1) != moved(second, 1)).any()
    np.testing.assert_array_equal(
        moved(first, 1),
        np.abs(each.adapt(meta, first, support, 1).fast["dense_0/kernel"][0] - meta["weights"]["dense_0"]["kernel"][0])
        > 0,
    )


def test_full_masks_are_drawn_at_every_step():
    each = learner(rules.mnet_full(0.1), tanh_mlp((30,)))
    meta, support = each.init(KEY), episode().support
    fast = each.adapt(meta, KEY, support, (0, 1, 2, 3)).fast["dense_0/kernel"]
    moved = np.diff(fast, axis=0) != 0
    assert (moved[0] != moved[1]).any()
    assert (moved[1] != moved[2]).any()
    assert 0.2 < moved.mean() < 0.8
