"""Looking inside, and the paper's two propositions as constructions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import learner, shaken, tanh_mlp
from hypothesis import given, settings
from hypothesis import strategies as st

import fewstep
from fewstep import losses, networks, rules
from fewstep.inspection import subspace_cell

KEY = jax.random.key(0)


def test_numbers_of_a_known_metric_and_mask():
    network = tanh_mlp((3,))
    meta = learner(rules.mtnet(), network).init(KEY)
    meta["metric"]["dense_0"] = jnp.diag(jnp.array([4.0, 2.0, 1.0]))
    meta["mask"]["dense_0"] = jnp.array([0.0, 10.0, -10.0])
    report = fewstep.inspect(network.layers, meta)
    first, second = report.layers
    np.testing.assert_allclose(first.singular_values, [4, 2, 1])
    assert (first.condition, first.rank, first.parameters) == (4.0, 2, 6)
    assert first.expected_rank == pytest.approx(1.5)
    assert first.updated == pytest.approx(0.5, abs=1e-6)
    np.testing.assert_allclose(first.metric, np.diag([16.0, 4.0, 0.0]), atol=1e-12)
    assert (second.updated, second.rank) == (0.5, 1)
    assert report.updated_by_layer == pytest.approx(0.5)
    meta["mask"]["dense_1"] = jnp.array([20.0])
    report = fewstep.inspect(network.layers, meta)
    assert report.updated_by_logit == pytest.approx((1.5 + 1) / 4, abs=1e-6)
    assert report.updated_by_layer == pytest.approx(0.75, abs=1e-6)
    assert report.updated_by_parameter == pytest.approx((6 * 0.5 + 4 * 1) / 10, abs=1e-6)


def test_the_metric_is_in_the_papers_convention():
    network = networks.mlp(2, 3, hidden=())
    meta = shaken(learner(rules.mtnet(), network).init(KEY))
    meta["mask"]["dense_0"] = jnp.array([9.0, -9.0, 9.0])
    columns = np.asarray(meta["metric"]["dense_0"], float).T
    (layer,) = fewstep.inspect(network.layers, meta).layers
    np.testing.assert_allclose(layer.metric, columns @ np.diag([1, 0, 1]) @ columns.T, rtol=1e-6)
    assert layer.rank == 2


def test_rules_without_metric_or_mask_say_so():
    network = tanh_mlp()
    for rule, has_values, has_mask in (
        (rules.maml(), False, False),
        (rules.tnet(), True, False),
        (rules.mnet_full(), False, True),
    ):
        report = fewstep.inspect(network.layers, learner(rule, network).init(KEY))
        assert all((layer.singular_values is not None) == has_values for layer in report.layers)
        assert all((layer.probabilities is not None) == has_mask for layer in report.layers)
    assert len(report.layers[0].probabilities) == report.layers[0].parameters


def moved(cell, x, y, lr=0.1):
    """How a task step of the MT-net rule moves the cell's output on one example, and the loss's gradient there."""
    network = networks.mlp(len(x), len(y), hidden=())
    each = fewstep.gradient_learner(network, rules.mtnet(lr), losses.squared_error)
    meta = {
        "weights": {"dense_0": {"kernel": jnp.asarray(cell.kernel), "bias": jnp.asarray(cell.bias)}},
        "metric": {"dense_0": jnp.asarray(cell.metric)},
        "mask": {"dense_0": jnp.asarray(cell.logits)},
    }
    point = fewstep.batch([x], [y])
    before, after = (each.predict(meta, each.adapt(meta, KEY, point, n), point.x)[0] for n in (0, 1))
    return np.asarray(before), np.asarray(after - before), np.asarray(2 * (before - point.y[0]) / len(y))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), width=st.integers(1, 5), data=st.data())
@pytest.mark.slow
def test_propositions_1_and_2(seed, width, data):
    """The step stays in the subspace, spans it, and is the steepest way down in the metric; the function is kept."""
    size = data.draw(st.integers(1, width))
    rng = np.random.default_rng(seed)
    kernel, bias, rows = rng.normal(size=(3, width)), rng.normal(size=width), rng.normal(size=(size, width))
    root = rng.normal(size=(size, size))
    gram = root @ root.T + 0.5 * np.eye(size)
    with jax.enable_x64(True):
        cell = subspace_cell(kernel, bias, rows, gram)
        x = rng.normal(size=3)
        ways = []
        for _ in range(size):
            before, way, gradient = moved(cell, x, rng.normal(size=width))
            np.testing.assert_allclose(before, x @ kernel + bias, atol=1e-9)
            # steepest in the metric: in coordinates c of the subspace, c = -gram^-1 rows gradient, up to its length
            expected = -0.1 * (x @ x + 1) * np.linalg.solve(gram, rows @ gradient) @ rows
            np.testing.assert_allclose(way, expected, rtol=1e-7, atol=1e-9)
            ways.append(way)
    coordinates = np.linalg.lstsq(rows.T, np.asarray(ways).T, rcond=None)[0]
    np.testing.assert_allclose(rows.T @ coordinates, np.asarray(ways).T, atol=1e-7)
    assert np.linalg.matrix_rank(np.asarray(ways), tol=1e-10) == size


def test_no_other_step_of_equal_length_goes_down_steeper():
    """Proposition 2 without its formula: among steps of the metric's unit length, ours lowers the loss most."""
    rng = np.random.default_rng(1)
    kernel, bias, rows = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(2, 4))
    gram = np.array([[2.0, 0.7], [0.7, 1.0]])
    with jax.enable_x64(True):
        _, way, gradient = moved(subspace_cell(kernel, bias, rows, gram), rng.normal(size=3), rng.normal(size=4))
    length = lambda c: np.sqrt(c @ gram @ c)
    ours = np.linalg.lstsq(rows.T, way, rcond=None)[0]
    best = gradient @ rows.T @ (ours / length(ours))
    others = rng.normal(size=(500, 2))
    assert all(gradient @ rows.T @ (c / length(c)) >= best - 1e-12 for c in others)


@pytest.mark.parametrize(
    ("rows", "gram", "words"),
    [
        (np.ones((2, 3)), None, "depend on each other"),
        (np.eye(2, 3), np.diag([1.0, -1.0]), "positive definite"),
        (np.eye(2, 3), np.eye(3), "positive definite 2 x 2"),
    ],
)
def test_impossible_subspaces_are_refused(rows, gram, words):
    with pytest.raises(fewstep.FewstepError, match=words):
        subspace_cell(np.ones((2, 3)), np.ones(3), rows, gram)
