"""Learners that read a task: SNAIL, meta networks and the LSTM, on curves and on classes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fewstep import Batch, Episode, FewstepError, Learner, learners, losses, tasks
from fewstep.experiments import Experiment
from fewstep.experiments.build import build
from fewstep.learners import Sizes, nothing_but_x
from tests.helpers import assert_close, dot, output, slope

KEY = jax.random.key(0)


def _of_curves(name: str) -> Learner:
    return getattr(learners, name)(nothing_but_x(1), Sizes(1, 1, classes=False), losses.squared_error)


def _of_classes(name: str) -> Learner:
    return getattr(learners, name)(nothing_but_x(4), Sizes(4, 3, classes=True), losses.cross_entropy)


def _answers(learner: Learner) -> Callable[..., Any]:
    return jax.jit(lambda meta, support, x: learner.predict(meta, learner.adapt(meta, KEY, support, 0), x))


def _episode(rows: int = 6, seed: int = 0) -> Episode:
    keys = jax.random.split(jax.random.key(seed), 4)
    labels = jnp.arange(rows) % 3
    x = jax.random.normal(keys[0], (rows, 4)) + 2 * jax.nn.one_hot(labels, 4)
    support = Batch(x, labels, jnp.ones(rows))
    return Episode(support, Batch(x[:3] + 0.1, labels[:3], jnp.ones(3)))


CHEAP = [pytest.param(name, marks=() if name == "recurrent" else pytest.mark.slow) for name in learners.READERS]


class TestReaders:
    @pytest.mark.parametrize("name", CHEAP)
    def test_the_support_matters(self, name: str) -> None:
        learner, episode = _of_curves(name), tasks.sinusoid(5).sample(tasks.sinusoid(5).data, jax.random.key(0))
        meta = jax.tree.map(lambda leaf: leaf + 0.1, learner.init(jax.random.key(1)))
        other = episode.support._replace(y=-episode.support.y)
        one, two = (_answers(learner)(meta, support, episode.query.x) for support in (episode.support, other))
        assert one.shape == (10, 1)
        assert jnp.abs(one - two).max() > 1e-4

    @pytest.mark.parametrize("name", ["recurrent", pytest.param("snail", marks=pytest.mark.slow)])
    def test_the_gradient_is_that_of_finite_differences(self, name: str) -> None:
        """Meta networks take their examples' gradients as given, so that theirs is another."""
        with jax.enable_x64(True):
            learner, episode = _of_classes(name), jax.tree.map(lambda a: a, _episode())
            meta = learner.init(jax.random.key(1))
            loss = lambda m: learner.loss(m, jax.random.key(0), episode)
            direction = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=float)).reshape(leaf.shape), meta)
            loss = jax.jit(loss)
            assert_close(dot(jax.grad(loss)(meta), direction), slope(loss, meta, direction), 1e-6)

    @pytest.mark.parametrize("name", CHEAP)
    def test_it_learns(self, name: str) -> None:
        """A few hundred steps on constants: reading y off the support is all there is to learn."""
        learner, flat = _of_curves(name), tasks.polynomial(3, 5, order=0)
        optimizer = optax.adam(3e-3)

        def step(carry: Any, key: Any) -> Any:
            meta, memory = carry
            each = lambda m, k: learner.loss(m, k, flat.sample(flat.data, k))
            value, slopes = jax.value_and_grad(
                lambda m: jnp.mean(jax.vmap(each, (None, 0))(m, jax.random.split(key, 8)))
            )(meta)
            updates, memory = optimizer.update(slopes, memory, meta)
            return (optax.apply_updates(meta, updates), memory), value

        meta = learner.init(jax.random.key(0))
        keys = jax.random.split(jax.random.key(2), 400)
        _, values = jax.jit(lambda m: jax.lax.scan(step, (m, optimizer.init(m)), keys))(meta)
        share = {"metanet": 0.7}.get(name, 0.2)  # it sees sizes through logarithms of gradients, and is slow to begin
        assert float(values[-20:].mean()) < share * float(values[:20].mean())

    @pytest.mark.parametrize("name", CHEAP)
    @pytest.mark.slow
    def test_train_and_eval(self, name: str, tmp_path: Path, capsys: Any) -> None:
        run = str(tmp_path / "run")
        code, _, error = output(
            capsys, "train", name, "sinusoid", "--steps", "4", "--shots", "3", "--meta-batch", "2", "--validate-every",
            "2", "--validation-tasks", "3", "--run", run,
        )  # fmt: skip
        assert code == 0, error
        code, shown, _ = output(
            capsys, "eval", run, "--shots", "3", "5", "--n-tasks", "5", "--amplitude", "5", "10", "--json"
        )
        rows = json.loads(shown)["rows"]
        assert [(row["shots"], row["inner_steps"]) for row in rows] == [(3, 0), (5, 0)]
        assert np.isfinite([row["mean"] for row in rows]).all()
        code, _, error = output(capsys, "train", name, "sinusoid", "--inner-lr", "0.1", "--run", run + "2")
        assert (code, "--inner-lr does not apply" in error) == (2, True)

    @pytest.mark.parametrize("name", CHEAP)
    def test_images_are_read_by_their_features(self, name: str) -> None:
        built = build(Experiment(name, "omniglot", filters=4, blocks=2, ways=3))
        meta = jax.jit(built.learner.init)(KEY)
        support = Batch(jnp.ones((3, 28, 28, 1)), jnp.arange(3), jnp.ones(3))
        made = _answers(built.learner)(meta, support, support.x[:2])
        assert made.shape == (2, 3)


def test_other_ways_and_idle_options_are_refused() -> None:
    built = build(Experiment("recurrent", "omniglot", filters=4, blocks=2, ways=3))
    with pytest.raises(FewstepError, match="trained with 3 classes per task and takes no other number"):
        built.learner_for(5)
    for options in ({"hidden": (4,)}, {"bias_inputs": 2}, {"init": "he"}):
        with pytest.raises(FewstepError, match="does not apply to recurrent on sinusoid"):
            build(Experiment("recurrent", "sinusoid", **options))


def test_an_order_of_0_is_an_order() -> None:
    """0 is equal to False, and must not be taken for an option that was not given."""
    made = build(Experiment("maml", "polynomial", order=0)).problem.tasks(4, 4)
    y = made.sample(made.data, jax.random.key(0)).support.y
    assert_close(y, jnp.full_like(y, y[0, 0]))


@pytest.mark.slow
def test_snail_is_causal_in_its_examples() -> None:
    """The answer to a query does not change when another query is asked beside it."""
    learner, episode = _of_classes("snail"), _episode()
    meta = learner.init(jax.random.key(0))
    adapted = learner.adapt(meta, jax.random.key(0), episode.support, 0)
    assert_close(
        learner.predict(meta, adapted, episode.query.x)[:1], learner.predict(meta, adapted, episode.query.x[:1]), 1e-6
    )
