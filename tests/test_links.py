"""Links beside metric, mask and rates: what each equals in special cases, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import NETWORKS, assert_close, assert_equal, dot, episode, learner, shaken, slope, tanh_mlp

import fewstep
from fewstep import FewstepError, losses, networks, rules
from fewstep._network import flatten
from fewstep.experiments import Experiment
from fewstep.rules._gap import rescale

KEY = jax.random.key(7)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def chained(link, lr=0.1):
    return fewstep.chain(link, rules.sgd(lr))


def weights():
    return shaken(learner(rules.maml()).init(KEY)["weights"])


def fast_after(rule, steps=3, change=lambda meta: meta):
    each = learner(rule)
    meta = change({**each.init(KEY), "weights": weights()})
    return jax.jit(lambda meta: each.adapt(meta, KEY, episode().support, steps).fast)(meta)


def nonnegative(meta):
    return meta | {"sparse": jax.tree.map(jnp.abs, meta["sparse"])}


@pytest.mark.parametrize(
    ("link", "change"),
    [
        (rules.curvature(), lambda meta: meta),
        (rules.gap(), lambda meta: meta),
        (rules.gap(detach=True), lambda meta: meta),
        (rules.proximal(0.0), lambda meta: meta),
        (rules.sparse(), nonnegative),
    ],
    ids=["curvature", "gap", "gap detached", "proximal", "sparse"],
)
def test_it_is_maml_where_it_changes_nothing(link, change):
    assert_close(fast_after(chained(link), change=change), fast_after(rules.maml(0.1)), 1e-12)


def test_curvature_is_a_matrix_on_each_side_of_the_gradient():
    each, plain = learner(chained(rules.curvature())), learner(rules.maml(0.1))
    meta, support = shaken(each.init(KEY)), episode().support
    ours, before = (each.adapt(meta, KEY, support, count).fast for count in (1, 0))
    gradient = {p: (before[p] - after) / 0.1 for p, after in plain.adapt(meta, KEY, support, 1).fast.items()}
    own = meta["curvature"]
    kernel = own["dense_1/kernel"]["inputs"].T @ gradient["dense_1/kernel"] @ own["dense_1/kernel"]["outputs"]
    np.testing.assert_allclose(ours["dense_1/kernel"], before["dense_1/kernel"] - 0.1 * kernel, rtol=1e-9)
    bias = own["dense_0/bias"]["entries"] * gradient["dense_0/bias"]
    np.testing.assert_allclose(ours["dense_0/bias"], before["dense_0/bias"] - 0.1 * bias, rtol=1e-9)


@pytest.mark.parametrize(
    ("network", "inputs", "filter"),
    [(networks.conv4((8, 8, 2), 3, filters=4, blocks=2), 4, 9), (NETWORKS["equinox conv"](), 1, 3)],
    ids=["height, width, inputs, outputs", "outputs, inputs, width"],
)
def test_the_modes_of_a_convolution(network, inputs, filter):
    meta = fewstep.gradient_learner(network, chained(rules.curvature()), losses.squared_error).init(KEY)
    kernels = [own for own in meta["curvature"].values() if "filter" in own]
    assert {name: len(matrix) for name, matrix in kernels[-1].items()} == {
        "outputs": 4, "inputs": inputs, "filter": filter
    }  # fmt: skip


def test_cavia_is_a_context_beside_the_input():
    """`bias_inputs` of the perceptron are such a context: the rows of its first kernel that they meet are C."""
    each = learner(chained(rules.cavia(contexts=3)))
    meta = shaken(each.init(KEY))
    beside = fewstep.gradient_learner(
        networks.mlp(hidden=(4,), activation=jnp.tanh, bias_inputs=3),
        fewstep.chain(rules.adapt_only("beside"), rules.sgd(0.1)), losses.squared_error,
    )  # fmt: skip
    first = meta["weights"]["dense_0"]
    wide = first | {"kernel": jnp.concatenate([first["kernel"], meta["cavia"]])}
    other = {"weights": meta["weights"] | {"dense_0": wide, "beside": {"x": jnp.zeros(3)}}}
    task = episode()
    predict = lambda one, meta: one.predict(meta, one.adapt(meta, KEY, task.support, 3), task.query.x)
    assert_close(predict(each, meta), predict(beside, other), 1e-12)
    assert_close(each.adapt(meta, KEY, task.support, 3).fast["cavia/context"],
                 beside.adapt(other, KEY, task.support, 3).fast["beside/x"], 1e-12)  # fmt: skip


@pytest.mark.parametrize("method", ["cavia", "cavia+rates"])
def test_the_command_line_begins_a_context_where_it_learns(method):
    experiment = Experiment(method, "sinusoid")
    assert (experiment.inner_lr, experiment.init, experiment.contexts) == (0.1, "he", 4)
    assert Experiment(method, "sinusoid", inner_lr=1.0).inner_lr == 1.0


@pytest.mark.parametrize("links", [[rules.adapt_only(-1), rules.cavia()], [rules.cavia(), rules.adapt_only(-1)]])
def test_cavia_refuses_a_choice_of_other_arrays(links):
    with pytest.raises(FewstepError, match="leave"):
        learner(fewstep.chain(*links, rules.sgd(0.1))).init(KEY)


@pytest.mark.parametrize("link", [rules.mask, rules.full_mask, rules.curvature, rules.gap])
def test_links_of_layers_refuse_a_context(link):
    with pytest.raises(FewstepError, match=r"for dense_0, dense_1: it would do nothing"):
        learner(fewstep.chain(rules.cavia(), link(), rules.sgd(0.1))).init(KEY)


def test_covariant_without_a_and_decay_is_maml_from_d_sigmoid_b():
    each, plain = learner(chained(rules.covariant(decay=0.0))), learner(rules.maml(0.1))
    meta = shaken(each.init(KEY))
    own = meta["covariant"]
    meta["covariant"] = own | {"in": jax.tree.map(jnp.zeros_like, own["in"])}
    active = jax.nn.sigmoid(own["bias"])
    columns = {p: w[None] / len(active) + own["out"][p] for p, w in flatten(meta["weights"]).items()}  # of D
    start = {p: jnp.tensordot(active, d, 1) for p, d in columns.items()}
    other = {"weights": {name: {part: start[f"{name}/{part}"] for part in layer}
                         for name, layer in meta["weights"].items()}}  # fmt: skip
    task = episode()
    predict = lambda one, meta: one.predict(meta, one.adapt(meta, KEY, task.support, 3), task.query.x)
    assert_close(predict(each, meta), predict(plain, other), 1e-12)


def test_decay_of_covariant_is_a_pull_to_its_start():
    both = fewstep.chain(rules.covariant(decay=0.0), rules.proximal(0.3), rules.sgd(0.1))
    assert_close(fast_after(both), fast_after(chained(rules.covariant(decay=0.3))), 1e-12)


def test_negative_numbers_of_sparse_hold_the_weights_and_can_be_let_go():
    each = learner(chained(rules.sparse()))
    meta, task = each.init(KEY) | {"weights": weights()}, episode()
    meta["sparse"] = jax.tree.map(lambda leaf: -jnp.abs(leaf), meta["sparse"])
    assert_equal(each.adapt(meta, KEY, task.support, 2).fast, each.adapt(meta, KEY, task.support, 0).fast)
    slopes = jax.jit(jax.grad(each.loss))(meta, KEY, task)
    moved = learner(rules.maml(0.1)).adapt(meta, KEY, task.support, 1).fast
    of_start = flatten(slopes["weights"])  # nothing moves, so it is the query's slope there
    fast = flatten(meta["weights"])
    assert_close(slopes["sparse"], {p: (moved[p] - fast[p]) * of_start[p] for p in fast}, 1e-10)


@pytest.mark.parametrize(("shape", "rank"), [((5, 3), 5), ((3, 5), 5), ((4, 4), 2)])
def test_the_derivative_of_scaled_singular_values(shape, rank):
    """Of full rank, and along matrices of the same rank, as the gradients of few examples are."""
    random = np.random.default_rng(0)
    draw = lambda: tuple(jnp.asarray(random.normal(size=(n, rank))) for n in shape)
    into, scales = random.normal(size=shape), jnp.asarray(random.uniform(1, 2, min(shape)))
    total = lambda parts: jnp.sum(into * rescale(parts[0] @ parts[1].T, parts[2]))
    both = jax.jit(jax.value_and_grad(total))
    point, direction = (*draw(), scales), (*draw(), jnp.asarray(random.normal(size=min(shape))))
    np.testing.assert_allclose(
        slope(lambda at: both(at)[0], point, direction), dot(both(point)[1], direction), rtol=1e-6
    )


def test_the_share_of_weights_that_sparse_lets_move():
    rule, network = chained(rules.sparse()), tanh_mlp()
    meta = learner(rule, network).init(KEY)
    bits = {path: np.asarray(numbers) >= 0 for path, numbers in meta["sparse"].items()}
    first = np.concatenate([bits["dense_0/kernel"], bits["dense_0/bias"][None]])
    np.testing.assert_allclose(rule.units(network.layers, meta, KEY)["dense_0"], first.mean(0))
    assert fewstep.inspect(network.layers, meta).layers[0].updated == first.mean()
    assert 0 < first.mean() < 1


def test_detached_singular_vectors_give_the_same_steps_and_another_gradient():
    exact, detached = (learner(chained(rules.gap(detach=on)), steps=3) for on in (False, True))
    meta = shaken(exact.init(KEY))
    both = [jax.jit(jax.value_and_grad(one.loss))(meta, KEY, episode()) for one in (exact, detached)]
    np.testing.assert_allclose(both[0][0], both[1][0], rtol=1e-12)
    apart = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), both[0][1], both[1][1])
    assert max(jax.tree.leaves(apart)) > 1e-4


def test_a_pull_ends_in_the_closed_form_of_linear_regression():
    """The minimum of |x w - y|^2 / n + strength / 2 * F (w - w_0)^2."""
    random, strength = np.random.default_rng(0), 0.5
    x, y = jnp.asarray(random.normal(size=(6, 3))), jnp.asarray(random.normal(size=(6, 1)))
    start = jnp.asarray([[1.0], [-2.0], [0.5]])
    network = fewstep.network(lambda key: {"w": start}, lambda params, x: x @ params["w"], x)
    kept = fewstep.rules.fisher_diagonal(network, {"w": start}, losses.squared_error, fewstep.batch(x, y))
    np.testing.assert_allclose(kept["w"], jnp.mean(jnp.square(2 * (x @ start - y) * x), 0)[:, None], rtol=1e-12)
    for fisher in (None, kept):
        each = fewstep.gradient_learner(
            network, chained(rules.proximal(strength, fisher=fisher), 0.02), losses.squared_error
        )
        fast = each.adapt({"weights": {"w": start}}, KEY, fewstep.batch(x, y), 5000).fast["w"]
        pull = strength / 2 * (np.eye(3) if fisher is None else np.diag(kept["w"][:, 0]))
        expected = np.linalg.solve(np.asarray(x.T @ x) / 6 + pull, np.asarray(x.T @ y) / 6 + pull @ start)
        np.testing.assert_allclose(fast, expected, rtol=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [lambda: rules.cavia(contexts=0), lambda: rules.covariant(hidden_units=0), lambda: rules.covariant(decay=-1.0),
     lambda: rules.proximal(-1.0)],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(FewstepError, match=r"(must be|needs) "):
        wrong()
