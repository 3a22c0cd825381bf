"""Laplace's approximation around adapted weights: its intervals, and that nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, assert_equal, episode, learner, shaken

import fewstep
from fewstep import FewstepError, learners, losses, rules
from fewstep.experiments import Experiment, build
from fewstep.models import Model, adapt

KEY = jax.random.key(7)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def test_adapted_weights_predictions_loss_and_slopes_are_those_of_the_learner_alone():
    plain = learner(rules.tnet(0.1), steps=2)
    each, task = learners.laplace(plain, 2), episode()
    meta = shaken(each.init(KEY))
    own = {name: part for name, part in meta.items() if name != "laplace"}
    ours, alone = each.adapt(meta, KEY, task.support, 2), plain.adapt(own, KEY, task.support, 2)
    assert_equal(ours.fast, alone.fast)
    assert_equal(each.predict(meta, ours, task.query.x), plain.predict(own, alone, task.query.x))
    loss, slopes = jax.jit(jax.value_and_grad(each.loss))(meta, KEY, task)
    np.testing.assert_allclose(loss, plain.loss(own, KEY, task), rtol=1e-12)
    assert_close({name: slopes[name] for name in own}, jax.jit(jax.grad(plain.loss))(own, KEY, task), 1e-12)
    assert min(abs(float(slope)) for slope in slopes["laplace"].values()) > 0


def test_the_deviation_of_a_linear_model_is_that_of_bayesian_regression():
    """Of several outputs, with rows of weight 0: what lies in them does not count."""
    random = np.random.default_rng(0)
    x, y = (jnp.asarray(random.normal(size=(6, columns))) for columns in (3, 2))
    weights = {"w": jnp.asarray(random.normal(size=(3, 2)))}
    network = fewstep.network(lambda key: weights, lambda params, x: x @ params["w"], x)
    each = learners.laplace(
        fewstep.gradient_learner(network, rules.maml(0.1), losses.squared_error), determinant=0.5
    )  # fmt: skip
    noise, width = 0.3, 0.7
    meta = {"weights": weights, "laplace": {"noise": jnp.log(noise), "width": jnp.log(width)}}
    support = fewstep.Batch(x, y, jnp.asarray([1.0, 1, 1, 1, 0, 0]))
    adapted = each.adapt(meta, KEY, support, 1)
    precision = x[:4].T @ x[:4] / noise**2 + jnp.eye(3) / width**2
    variance = noise**2 + jnp.einsum("ri,ij,rj->r", x, jnp.linalg.inv(precision), x)
    np.testing.assert_allclose(each.spread(meta, adapted, x), jnp.sqrt(variance)[:, None] * np.ones((1, 2)), rtol=1e-10)
    plain = learners.laplace(fewstep.gradient_learner(network, rules.maml(0.1), losses.squared_error))
    task = fewstep.Episode(support, support)
    added = each.loss(meta, KEY, task) - plain.loss(meta, KEY, task)
    logarithm = 2 * jnp.linalg.slogdet(precision)[1] + 6 * np.log(width**2)  # of both outputs, less that of the prior
    np.testing.assert_allclose(added, 0.5 * logarithm, rtol=1e-10)


def test_noise_and_width_follow_the_likelihood_of_the_query():
    each, task = learners.laplace(learner(rules.maml(0.1))), episode()
    meta = shaken(each.init(KEY))
    adapted = each.adapt(meta, KEY, task.support, 1)

    @jax.jit
    def likelihood(own):
        both = meta | {"laplace": own}
        sd, errors = each.spread(both, adapted, task.query.x), each.predict(both, adapted, task.query.x) - task.query.y
        return jnp.mean(jnp.square(errors / sd) / 2 + jnp.log(sd))

    slopes = jax.jit(jax.grad(each.loss))(meta, KEY, task)["laplace"]
    assert_close(slopes, jax.grad(likelihood)(meta["laplace"]), 1e-10)


def test_a_weight_out_of_range_is_refused():
    with pytest.raises(FewstepError, match="must be finite"):
        learners.laplace(learner(rules.maml()), determinant=-1.0)


def test_a_model_of_curves_answers_with_its_interval():
    with jax.enable_x64(False):
        built = build(Experiment("maml+curvature+laplace", "sinusoid", hidden=(4,), init="he"))
        model = Model(built, {0: jax.jit(built.learner.init)(KEY)}, 0)
        learned, x = adapt(model, episode().support), np.linspace(-9, 9, 5)[:, None]
        wide, narrow = (learned.answer(x, level=level) for level in (0.95, 0.5))
    for answer, half in ((wide, 1.96), (narrow, 0.6745)):
        np.testing.assert_allclose(answer.high - answer.mean, half * answer.spread, rtol=1e-3)
        np.testing.assert_allclose(answer.mean - answer.low, half * answer.spread, rtol=1e-3)
    assert wide.spread[0] > wide.spread[2]  # farther from what was learned from
    columns = built.kind.write(model.problem, built.kind.read(model.problem, {"x": x.tolist()}, "query"), wide).columns
    assert list(columns) == ["x", "prediction", "low", "high"]


@pytest.mark.parametrize("method", ["laplace", "ridge+laplace", "maml+laplace+laplace"])
def test_it_goes_behind_a_method_of_gradient_steps(method):
    with pytest.raises(FewstepError, match=r"goes once behind a method of gradient steps, as in maml\+laplace"):
        Experiment(method, "sinusoid")


def test_classes_have_no_intervals():
    with pytest.raises(FewstepError, match="laplace gives intervals of numbers, and omniglot has classes"):
        build(Experiment("maml+laplace", "omniglot"))
