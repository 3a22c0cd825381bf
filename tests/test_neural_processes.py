"""Neural processes: what an answer depends on, and curves from Gaussian processes with their exact posterior."""

import json
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_close, dot, output, shaken, slope
from scipy.special import softmax
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, Matern

from fewstep import Batch, Episode, FewstepError, Learner, learners, tasks
from fewstep.experiments import Experiment, build
from fewstep.learners import Sizes
from fewstep.machine.layout import choose
from fewstep_studies.reproduce import STUDIES
from fewstep_studies.reproduce import neural_processes as study

KEY = jax.random.key(0)
SMALL: dict[str, dict[str, int]] = {
    "np": {"width": 8, "blocks": 2, "heads": 2, "ff": 12},
    "anp": {"width": 8, "heads": 2},
}
EACH = pytest.mark.parametrize("name", SMALL)


@cache
def small(name: str, outputs: int = 2, *, classes: bool = False) -> tuple[Learner, Any]:
    learner = getattr(learners, name)(Sizes(3, outputs, classes=classes), **SMALL[name])
    return learner, shaken(learner.init(KEY))


def some(rows: int, seed: int, outputs: int = 2) -> Batch:
    x, y = (jax.random.normal(jax.random.key(n), (rows, d)) for n, d in ((seed, 3), (seed + 100, outputs)))
    return Batch(x, y, jnp.ones(rows))


@partial(jax.jit, static_argnums=0)
def answers(learner: Learner, meta: Any, support: Batch, x: Any) -> tuple[Any, Any]:
    adapted = learner.adapt(meta, KEY, support, 0)
    assert learner.spread is not None
    return learner.predict(meta, adapted, x), learner.spread(meta, adapted, x)


class TestAnswers:
    @EACH
    def test_they_have_a_mean_and_a_deviation_for_each_output(self, name: str) -> None:
        learner, meta = small(name)
        mean, sd = answers(learner, meta, some(5, 1), some(4, 2).x)
        assert mean.shape == sd.shape == (4, 2)
        assert (sd > 0.01).all()
        assert np.abs(mean[:, 0] - mean[:, 1]).max() > 1e-3

    @EACH
    def test_the_order_of_the_support_does_not_matter(self, name: str) -> None:
        learner, meta = small(name)
        support, x = some(6, 1), some(4, 2).x
        mixed = jax.tree.map(lambda leaf: leaf[jnp.array([3, 0, 5, 1, 4, 2])], support)
        assert_close(answers(learner, meta, mixed, x), answers(learner, meta, support, x))
        other = support._replace(y=support.y[::-1])
        assert np.abs(answers(learner, meta, other, x)[0] - answers(learner, meta, support, x)[0]).max() > 1e-3

    @EACH
    def test_no_answer_depends_on_another_row_of_the_query(self, name: str) -> None:
        learner, meta = small(name)
        support, x = some(6, 1), some(4, 2).x
        together = answers(learner, meta, support, x)
        for row in range(4):
            others = jnp.where((jnp.arange(4) == row)[:, None], x, -3 * x[::-1])
            alone = answers(learner, meta, support, others)
            assert_close([part[row] for part in alone], [part[row] for part in together])

    @EACH
    def test_any_number_of_rows_is_answered_for(self, name: str) -> None:
        """Of padded supports too, and of one of which no row counts."""
        learner, meta = small(name)
        x = some(4, 2).x
        for rows in (1, 12):
            assert np.isfinite(answers(learner, meta, some(rows, 1), x)).all()
        nothing = some(3, 1)._replace(weight=jnp.zeros(3))
        first = answers(learner, meta, nothing, x)
        assert np.isfinite(first).all()
        assert_close(answers(learner, meta, some(3, 5)._replace(weight=jnp.zeros(3)), x), first)

    @EACH
    def test_the_loss_is_the_likelihood_of_the_query(self, name: str) -> None:
        learner, meta = small(name)
        support, query = some(5, 1), some(4, 2)._replace(weight=jnp.array([1.0, 2.0, 0.0, 1.0]))
        mean, sd = map(np.asarray, answers(learner, meta, support, query.x))
        density = -np.square((query.y - mean) / sd) / 2 - np.log(sd * np.sqrt(2 * np.pi))
        expected = -np.average(density.mean(1), weights=query.weight)
        np.testing.assert_allclose(learner.loss(meta, KEY, Episode(support, query)), expected, rtol=1e-5)

    @pytest.mark.parametrize("name", ["np", pytest.param("anp", marks=pytest.mark.slow)])
    @pytest.mark.parametrize("classes", [False, pytest.param(True, marks=pytest.mark.slow)])
    def test_the_gradient_is_that_of_finite_differences(self, name: str, classes: bool) -> None:
        with jax.enable_x64(True):
            learner, meta = small(name, 3, classes=classes)
            episode = Episode(some(5, 1, 3), some(4, 2, 3))
            if classes:
                episode = Episode(*(part._replace(y=jnp.arange(len(part.y)) % 3) for part in episode))
            direction = jax.tree.map(lambda leaf: jax.random.normal(KEY, leaf.shape), meta)
            loss = jax.jit(lambda meta: learner.loss(meta, KEY, episode))
            np.testing.assert_allclose(dot(jax.grad(loss)(meta), direction), slope(loss, meta, direction), rtol=1e-5)
            assert (learner.spread is None) == classes

    def test_adapting_and_predicting_is_one_pass_over_a_masked_sequence(self) -> None:
        """The transformer, written again in numpy over support and query together."""
        learner, meta = small("np")
        support, query = some(5, 1)._replace(weight=jnp.array([1.0, 0, 1, 1, 1])), some(3, 2)
        mean, sd = one_pass(meta["np"], support, query.x)
        assert_close(answers(learner, meta, support, query.x), (mean, sd), 1e-4)

    @pytest.mark.parametrize(("name", "heads"), [("np", 3), ("anp", 0)])
    def test_a_width_that_the_heads_cannot_share_is_refused(self, name: str, heads: int) -> None:
        with pytest.raises(FewstepError, match=f"heads is {heads}"):
            getattr(learners, name)(Sizes(1, 1, classes=False), heads=heads)


def one_pass(net: Any, support: Batch, x: Any, heads: int = 2) -> tuple[Any, Any]:
    net, x = jax.tree.map(np.asarray, (net, x))
    known, asked = np.hstack([support.x, support.y, np.ones((5, 1))]), np.hstack([x, np.zeros((3, 3))])
    dense = lambda layer, rows: rows @ layer["kernel"] + layer["bias"]
    relu = lambda rows: np.maximum(rows, 0)

    def perceptron(layers: Any, rows: Any) -> Any:
        for layer in layers[:-1]:
            rows = relu(dense(layer, rows))
        return dense(layers[-1], rows)

    def normal(norm: Any, rows: Any) -> Any:
        rows = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
        return rows * norm["scale"] + norm["shift"]

    rows = perceptron(net["embedding"], np.vstack([known, asked]))
    mask = np.tile(np.append(np.asarray(support.weight) > 0, [False] * 3), (8, 1))
    mask[5:, 5:] = np.eye(3)
    for block in net["blocks"]:
        q, k, v = np.split(dense(block["qkv"], normal(block["first"], rows)), 3, axis=1)
        parts = []
        for part in np.split(np.arange(q.shape[1]), heads):
            scores = q[:, part] @ k[:, part].T / len(part) ** 0.5
            parts.append(softmax(np.where(mask, scores, -np.inf), axis=1) @ v[:, part])
        rows = rows + dense(block["mix"], np.hstack(parts))
        rows = rows + dense(block["down"], relu(dense(block["up"], normal(block["second"], rows))))
    mean, raw = np.split(perceptron(net["head"], normal(net["last"], rows))[5:], 2, axis=1)
    return mean, 0.01 + np.log1p(np.exp(raw))


def drawn(kernel: str, count: int, *sizes: int, **options: Any) -> tuple[Episode, tasks.Prior]:
    some = tasks.gaussian_process(*sizes, kernel=kernel, **options)  # type: ignore[arg-type]
    one = lambda key: (some.sample(some.data, key), tasks.prior_of(some.data, key))
    return jax.jit(jax.vmap(one))(jax.random.split(KEY, count))


def of_sklearn(kernel: str, prior: tasks.Prior) -> Kernel:
    length, scale, period, _ = map(float, prior)
    own = {"rbf": RBF(length), "matern": Matern(length, nu=2.5), "periodic": ExpSineSquared(length, period)}
    return ConstantKernel(scale**2) * own[kernel]


KERNELS = pytest.mark.parametrize("kernel", tasks.KERNELS)


class TestGaussianProcesses:
    @KERNELS
    def test_the_posterior_is_that_of_scikit_learn(self, kernel: Any) -> None:
        episodes, priors = drawn(kernel, 3, 12, 8)
        exact = jax.jit(partial(tasks.posterior, kernel))
        with jax.enable_x64(True):
            for task in range(3):
                (support, query), prior = jax.tree.map(lambda leaf: jnp.asarray(leaf[task], float), (episodes, priors))  # noqa: B023
                mean, sd = exact(prior, support, query.x)
                there = np.asarray(support.weight > 0)
                other = GaussianProcessRegressor(
                    of_sklearn(kernel, prior), alpha=float(prior.noise) ** 2, optimizer=None
                )
                other.fit(support.x[there], support.y[there, 0])
                expected, spread = other.predict(query.x, return_std=True)
                np.testing.assert_allclose(mean[:, 0], expected, rtol=1e-7, atol=1e-9)
                np.testing.assert_allclose(sd[:, 0] ** 2, spread**2 + prior.noise**2, rtol=1e-6)

    @KERNELS
    def test_curves_have_the_covariance_of_their_kernel(self, kernel: Any) -> None:
        """At two points, over many curves of one kernel: supports and queries belong to one curve."""
        fixed = {"length": (0.6, 0.6), "scale": (0.8, 0.8), "period": (0.5, 0.5), "noise": 0.1}
        (support, query), priors = drawn(kernel, 20_000, 1, 1, x_range=(-0.3, 0.3), **fixed)
        prior = jax.tree.map(lambda leaf: leaf[0], priors)
        covariance = jax.vmap(lambda a, b: tasks.KERNELS[kernel](prior, a, b)[0, 0])(support.x, query.x)
        products = support.y[:, 0, 0] * query.y[:, 0, 0]
        assert abs(float((products - covariance).mean())) < 5 * float(products.std()) / 20_000**0.5
        assert abs(float(products.mean())) > 10 * float(products.std()) / 20_000**0.5
        np.testing.assert_allclose(support.y.var(), 0.8**2 + 0.1**2, rtol=0.05)

    def test_the_numbers_of_points_are_those_of_the_protocol(self) -> None:
        of = tasks.gaussian_process(46, 46)

        def sizes(key: Any) -> Any:  # of no y, which is then not computed
            episode = of.sample(of.data, key)
            return episode.support.weight.sum(), episode.query.weight.sum(), tasks.prior_of(of.data, key)

        support, query, priors = jax.tree.map(np.asarray, jax.jit(jax.vmap(sizes))(jax.random.split(KEY, 4000)))
        assert (support.min(), support.max(), query.min(), (support + query).max()) == (3, 46, 3, 49)
        assert abs(support.mean() - 24.5) < 5 * support.std() / 4000**0.5
        np.testing.assert_allclose(np.bincount(support.astype(int))[3:].mean(), 4000 / 44)
        few = query[support == 20]
        assert (few.min(), few.max()) == (3, 29)
        for name, low, high in (("length", 0.1, 0.6), ("scale", 0.1, 1.0), ("period", 0.1, 0.5)):
            numbers = np.asarray(getattr(priors, name))
            assert low <= numbers.min() < low + 0.01 < high - 0.01 < numbers.max() <= high

    def test_all_of_a_query_counts_without_a_limit(self) -> None:
        episodes, _ = drawn("rbf", 20, 5, 7, max_rows=0)
        assert (episodes.query.weight == 1).all()
        assert set(np.asarray(episodes.support.weight.sum(1))) == {3.0, 4.0, 5.0}

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"min_rows": 0}, "min_rows is 0"),
            ({"shots": 47, "queries": 10}, "max_rows is 49"),
            ({"noise": 0.0}, "noise is 0.0"),
            ({"length": (0.6, 0.1)}, "length is"),
        ],
    )
    def test_mistakes_are_named(self, options: Any, words: str) -> None:
        with pytest.raises(FewstepError, match=words):
            tasks.gaussian_process(**options)


class TestExperiments:
    def test_a_transformer_counts_as_heavy(self) -> None:
        sizes = {"shots": 46, "queries": 46}
        assert choose(Experiment("np", "gaussian-process", **sizes)).chunk == 1
        assert choose(Experiment("np", "gaussian-process", width=8, ff=8, blocks=1, **sizes)).chunk is None

    @EACH
    def test_images_are_refused(self, name: str) -> None:
        with pytest.raises(FewstepError, match=f"{name} reads rows of numbers"):
            build(Experiment(name, "omniglot"))

    def test_training_lowers_the_loss(self) -> None:
        built = build(Experiment("anp", "gaussian-process", width=32, steps=100, log_every=25, validate_every=1000))
        losses = [row.loss[0] for row in built.train().log]
        assert losses[-1] < losses[0] - 0.05


class TestStudy:
    def test_the_exact_posterior_is_near_its_published_value(self) -> None:
        options = STUDIES["neural-processes"].quick
        (cell,) = (cell for cell in study.cells(options) if cell.plan.experiment is None)
        score = study.score("rbf", study.exact("rbf"), options)
        row = study.row(cell, study.Found([score], 1.0), score)
        assert row.verdict == "meets"
        means = [mean for _, mean, _ in score.by_size]
        assert means == sorted(means)

    @pytest.mark.slow
    def test_as_a_command(self, tmp_path: Any, capsys: Any) -> None:
        words = ["reproduce", "neural-processes", "--quick", "--steps", "4", "--n-tasks", "20", "--out", tmp_path / "o"]
        code, printed, _ = output(capsys, *words, "--only", "anp", "exact", "--json")
        assert code == 0
        rows = json.loads(printed)["rows"]
        assert [(row["method"], row["setting"]["kernel"]) for row in rows] == [
            (name, kernel) for name in (study.EXACT, "anp") for kernel in study.KERNELS
        ]
        assert all(np.isfinite(row["mean"]) and row["verdict"] == "quick" for row in rows)
        code, printed, _ = output(capsys, *words, "--only", "anp", "--resume", "--json")
        assert code == 0
        assert [row["mean"] for row in json.loads(printed)["rows"]] == [row["mean"] for row in rows]
