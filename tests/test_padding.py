"""Rows of weight 0 change nothing, whatever they hold: in every learner, every loss and every normalization."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import RULES, assert_close, tanh_mlp

import fewstep
from fewstep import Adapted, learners, losses, networks, rules
from fewstep._outer import over_tasks, task_keys
from fewstep.learners import Sizes, nothing_but_x
from fewstep.problems._baselines import alone, shifted

KEY = jax.random.key(0)
WAYS, WIDTH = 3, 2
NORMS = ("transductive", "support", "layer", "group")


def perceptron():
    return networks.mlp(WIDTH, 1, hidden=(4,), activation=jnp.tanh, std=0.5)


def features():
    return networks.mlp(WIDTH, 4, hidden=(5,), activation=jnp.tanh, std=0.5)


def classifier(outputs=WAYS):
    return networks.mlp(WIDTH, outputs, hidden=(5,), activation=jnp.tanh, std=0.5)


def logarithmic():
    """A network of a user's own that has no value at 0."""
    init = lambda key: {"w": jax.random.normal(key, (WIDTH, 1))}
    return fewstep.network(init, lambda params, x: jnp.log(jnp.abs(x)) @ params["w"], jnp.ones((4, WIDTH)))


def by_gradients(rule, network=None, loss=losses.squared_error):
    return lambda: fewstep.gradient_learner(
        network or networks.mlp(WIDTH, 1, hidden=(4,), std=0.5), rule, loss, steps=2
    )


def reader(name):
    sizes = Sizes(WIDTH, WAYS, classes=True)
    return lambda: getattr(learners, name)(nothing_but_x(WIDTH), sizes, losses.cross_entropy)


def process(name, **sizes):
    some = {"np": {"width": 8, "blocks": 2, "heads": 2, "ff": 8}, "anp": {"width": 8, "heads": 2}}[name]
    return lambda: getattr(learners, name)(Sizes(WIDTH, **sizes), **some)


OF_NUMBERS = {
    **{name: by_gradients(RULES[name](0.1)) for name in ("maml", "mtnet", "mtnet_full", "maml adam")},
    "absolute error": by_gradients(rules.maml(0.1), loss=losses.absolute_error),
    "huber": by_gradients(rules.maml(0.1), loss=losses.huber),
    "logarithm": by_gradients(rules.maml(0.1), logarithmic()),
    "ridge": lambda: learners.ridge(features(), 4),
    "gaussian": lambda: learners.gaussian(perceptron(), WIDTH),
    "mixed": lambda: learners.mixed(WIDTH),
    **{name: process(name, outputs=1, classes=False) for name in learners.NEURAL_PROCESSES},
    "shifted": lambda: shifted(perceptron()),
    "alone": alone,
}
OF_CLASSES = {
    "mtnet classes": by_gradients(rules.mtnet(0.1), classifier(), losses.cross_entropy),
    "ridge classes": lambda: learners.ridge(features(), 4, WAYS, classes=True),
    "prototypes": lambda: learners.prototypes(features(), WAYS),
    "matching": lambda: learners.matching(features(), WAYS),
    "matching, full context": lambda: learners.matching(features(), WAYS, full_context=4),
    "embedding": lambda: learners.embedding(features(), WAYS),
    "spectral": lambda: learners.spectral(features(), WAYS),
    "neighbor": lambda: learners.neighbor(classifier(7), classifier(4), WAYS),
    "finetune": lambda: learners.finetune(deep(7), deep(WAYS), rules.maml(0.5)),
    **{name: reader(name) for name in learners.READERS},
    **{f"{name} classes": process(name, outputs=WAYS, classes=True) for name in learners.NEURAL_PROCESSES},
}
OF_IMAGES = {
    norm: by_gradients(
        rules.maml(0.1), networks.conv4((8, 8, 1), WAYS, filters=3, blocks=2, norm=norm), losses.cross_entropy
    )
    for norm in NORMS
}
LEARNERS = {**OF_NUMBERS, **OF_CLASSES, **OF_IMAGES}
QUICK = ("logarithm", "shifted", "support", "np", "anp classes")  # `test_contract` has the others


def deep(outputs):
    return networks.conv4((8, 8, 1), outputs, filters=3, blocks=2)


def task(name, rows=6, seed=0):
    """A task of that learner's kind, all of whose rows count."""
    image = name in OF_IMAGES or name == "finetune"
    shape = (8, 8, 1) if image else (WIDTH,)
    x = 0.5 + jax.random.uniform(jax.random.key(seed), (2, rows, *shape))
    y = jnp.sin(3 * x[..., :1]) if name in OF_NUMBERS else jnp.tile(jnp.arange(rows) % WAYS, (2, 1))
    return fewstep.Episode(*(fewstep.Batch(x[n], y[n], jnp.ones(rows)) for n in range(2)))


def padded(batch, x, y):
    """The batch with rows of weight 0 before, among and after its own."""

    def among(array, value):
        row = jnp.full((1, *array.shape[1:]), value, array.dtype)
        return jnp.concatenate([row, array[:2], row, array[2:], row, row])

    return fewstep.Batch(among(batch.x, x), among(batch.y, y), among(batch.weight, 0.0))


def padding(name):
    return ((np.nan, -7), (np.inf, 10**6)) if name not in OF_NUMBERS else ((np.nan, np.nan), (1e30, -np.inf))


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in LEARNERS])
def test_padding_changes_neither_loss_nor_slope_nor_answer(name):
    each, plain = LEARNERS[name](), task(name)
    meta = jax.tree.map(lambda leaf: leaf + 0.05, each.init(KEY))

    @jax.jit
    def outcome(episode):
        of_loss = jax.value_and_grad(lambda m: each.loss(m, jax.random.key(1), episode))(meta)
        adapted = each.adapt(meta, jax.random.key(1), episode.support, 2)
        return of_loss, each.predict(meta, adapted, episode.query.x, episode.query.weight)

    of_loss, answers = outcome(plain)
    assert np.isfinite(answers).all()
    for x, y in padding(name):
        wide = fewstep.Episode(padded(plain.support, x, y), padded(plain.query, x, y))
        same, more = outcome(wide)
        assert_close(same, of_loss, 2e-4)
        assert_close(more[wide.query.weight > 0], answers, 2e-4)


@pytest.mark.parametrize(
    "name", ["squared_error", "absolute_error", "huber", "cross_entropy", "accuracy", "error_rate"]
)
def test_padding_changes_no_loss_that_is_called_by_itself(name):
    loss = getattr(losses, name)
    labels = name in ("cross_entropy", "accuracy", "error_rate")
    prediction = jax.random.normal(KEY, (6, WAYS))
    y = jnp.arange(6) % WAYS if labels else 2 * jax.random.normal(jax.random.key(1), (6, WAYS))
    plain = fewstep.Batch(prediction, y, jnp.ones(6))
    for x, other in ((np.nan, 99 if labels else np.nan), (np.inf, -5 if labels else np.inf)):
        wide = padded(plain, x, other)
        expected, value = loss(plain.x, plain), loss(wide.x, wide)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        slopes = jax.grad(loss)(wide.x, wide)
        np.testing.assert_allclose(slopes[wide.weight > 0], jax.grad(loss)(plain.x, plain), rtol=1e-6)
        np.testing.assert_array_equal(slopes[wide.weight == 0], 0)


def test_what_holds_nan_in_its_padding_is_trained_on_and_evaluated():
    """A score of the user's own that knows nothing of rows that are not finite is given none."""

    def sample(data, key):
        x = jax.random.normal(key, (2, 4, 1))
        parts = (fewstep.Batch(x[n], jnp.sin(x[n]), jnp.ones(4)) for n in range(2))
        return fewstep.Episode(*(padded(part, jnp.nan, jnp.nan) for part in parts))

    each, tasks = fewstep.gradient_learner(tanh_mlp(), rules.maml(0.1), losses.squared_error), fewstep.Tasks({}, sample)
    own = lambda prediction, batch: jnp.sum(batch.weight[:, None] * jnp.abs(prediction - batch.y))
    trained = fewstep.train(each, tasks, steps=3, outer=fewstep.reptile(2, 6))
    scores = fewstep.evaluate(each, trained.meta, tasks, own, steps=(0, 2), n_tasks=3)
    assert all(np.isfinite(score.mean) for score in scores)


def test_a_support_that_is_padding_alone_teaches_nothing():
    each = fewstep.gradient_learner(tanh_mlp(), rules.maml(0.1), losses.squared_error)
    meta = each.init(KEY)
    nothing = fewstep.Batch(jnp.full((3, 1), jnp.nan), jnp.full((3, 1), jnp.nan), jnp.zeros(3))
    start, end = (each.adapt(meta, KEY, nothing, count).fast for count in (0, 2))
    jax.tree.map(np.testing.assert_array_equal, start, end)


def test_a_function_that_is_replaced_is_not_given_padding_either():
    each = fewstep.gradient_learner(tanh_mlp(), rules.maml(0.1), losses.squared_error)
    seen = each._replace(adapt=lambda meta, key, support, steps: Adapted(support._asdict(), ()))
    batch = fewstep.Batch(jnp.array([[1.0], [jnp.nan]]), jnp.array([[2.0], [jnp.inf]]), jnp.array([1.0, 0.0]))
    given = seen.adapt({}, KEY, batch, 1).fast
    assert given["x"].tolist() == [[1.0], [1.0]]
    assert given["y"].tolist() == [[2.0], [2.0]]


def test_what_fills_up_a_chunk_of_tasks_cannot_diverge():
    """Three tasks in chunks of two: a fourth, drawn by a key of its own, would hold NaN."""
    plain, (beyond, _) = fewstep.tasks.sinusoid(4, 4), task_keys(KEY, jnp.array([3]))

    def sample(data, key):
        unlucky = (jax.random.key_data(key) == jax.random.key_data(beyond[0])).all()
        return jax.tree.map(lambda leaf: jnp.where(unlucky, jnp.nan, leaf), plain.sample(data, key))

    each = fewstep.gradient_learner(tanh_mlp(), rules.maml(0.1), losses.squared_error)
    meta = each.init(KEY)
    found = []
    for chunk in (None, 2):
        draw, gradient = over_tasks(fewstep.unrolled(each), plain._replace(sample=sample), 3, chunk=chunk)
        found.append(jax.jit(lambda meta, draw=draw, gradient=gradient: gradient(meta, draw(plain.data, KEY)))(meta))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(found))
    assert_close(*found)
