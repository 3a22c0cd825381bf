"""A base to stand on: fitted out of fold by task, kept without pickle, and seen by every learner."""

import contextlib
import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from fewstep import Batch, Episode, FewstepError, learners, losses, networks
from fewstep.cli import main
from fewstep.problems._base import Target, fit_base, out_of_fold, read_base
from fewstep.runs import load, open_run
from fewstep.tables import Rows

OWN = "from sklearn.linear_model import {0}\ndef make():\n    return {0}()\n"
NUMBERS, CLASSES = Target(1, False), Target(3, True)


def run_json(*args):
    """What a command prints under --json."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*args]) == 0
    return json.loads(out.getvalue())


def rows(tasks=6, each=20, seed=0, classes=False):
    """Tasks with offsets of their own on one curve."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(tasks * each, 2)).astype(np.float32)
    y = np.sin(2 * x[:, :1]) + 0.3 * np.repeat(rng.normal(size=tasks), each)[:, None]
    y = np.digitize(y[:, 0], [-0.5, 0.5]) if classes else y.astype(np.float32)
    starts = np.arange(tasks, dtype=np.int32) * each
    return Rows(x, y, starts, np.full(tasks, each, np.int32), tuple(f"t{n}" for n in range(tasks)))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(OWN.format("LinearRegression"))
    return f"{path}:make"


@pytest.mark.parametrize("target", [NUMBERS, CLASSES])
def test_trees_are_kept_as_text_and_say_the_same_under_a_map(target):
    train, other = rows(classes=target.classes), rows(seed=1, classes=target.classes)
    kept = fit_base("trees", train, other, target, seed=0)
    base = read_base(kept, target, networks.mlp)
    said = np.asarray(base.predict(jnp.asarray(other.x)))
    assert said.shape == (120, target.outputs)
    mapped = jax.jit(jax.vmap(base.predict))(other.x.reshape(6, 20, 2)).reshape(120, -1)
    np.testing.assert_allclose(mapped, said, atol=1e-6)
    if not target.classes:
        assert np.square(said - np.sin(2 * other.x[:, :1])).mean() < 0.5 * np.sin(2 * other.x[:, 0]).var()


def test_an_estimator_of_ones_own_is_fitted_without_the_task(own):
    train = rows()
    kept = fit_base(own, train, rows(seed=1), NUMBERS, seed=0)
    base = read_base(kept, NUMBERS, networks.mlp)
    whole = LinearRegression().fit(train.x, train.y[:, 0])
    x = jnp.asarray(train.x).reshape(2, 3, 20, 2)
    said = jax.jit(jax.vmap(jax.vmap(base.predict)))(x)  # as over seeds and tasks
    np.testing.assert_allclose(said.reshape(-1), whole.predict(train.x), atol=1e-5)
    apart = out_of_fold(own, kept, train, NUMBERS, seed=0)
    fold = np.random.default_rng(0).permutation(6) % 5
    others = np.repeat(fold != fold[2], 20)
    expected = LinearRegression().fit(train.x[others], train.y[others, 0]).predict(train.x[40:60])
    np.testing.assert_allclose(apart[40:60, 0], expected, atol=1e-5)


def test_a_perfect_base_leaves_nothing_to_learn():
    """Its residual is 0, so a learner that predicts 0 predicts the base; rows that have it already are taken as is."""
    truth = lambda x: x[:, :1] * 3
    learner = learners.residual(learners.ridge(networks.mlp(3, 8), 8), truth, 2)
    meta = learner.init(jax.random.key(0))
    x = jnp.asarray(rows().x[:8])
    batch = Batch(x, truth(x), jnp.ones(8))
    adapted = learner.adapt(meta, jax.random.key(1), batch, 0)
    np.testing.assert_allclose(learner.predict(meta, adapted, x), truth(x), atol=1e-5)
    behind = batch._replace(x=jnp.concatenate([x, truth(x)], axis=1))
    losses_of = [learner.loss(meta, jax.random.key(1), Episode(some, some)) for some in (batch, behind)]
    np.testing.assert_allclose(losses_of, 0, atol=1e-8)
    again = learner.predict(meta, learner.adapt(meta, jax.random.key(1), behind, 0), behind.x)
    np.testing.assert_allclose(again, truth(x), atol=1e-5)
    gradient = jax.grad(lambda m: learner.loss(m, jax.random.key(1), Episode(batch, batch._replace(y=batch.y + 1))))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient(meta)))
    assert losses.squared_error(again, batch) < 1e-8


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Sensors on one steep curve, each with an offset: trees find the curve, the learner the offset."""
    path, rng, lines = tmp_path_factory.mktemp("table") / "sensors.csv", np.random.default_rng(1), ["sensor,hour,level"]
    for sensor in range(24):
        offset = 4 * rng.normal()
        lines += [f"s{sensor},{h:.2f},{offset + 10 * (h % 4 > 2):.3f}" for h in rng.uniform(0, 24, size=14)]
    path.write_text("\n".join(lines) + "\n")
    return path


def words(table, method, run, *more):
    roles = ("--task", "sensor", "--x", "hour", "--y", "level")
    small = ("--steps", "80", "--hidden", "8", "--seeds", "1", "--shots", "3", "--no-report")
    return ["train", method, f"table:{table}", *roles, *small, "--run", str(run), *more]


def error_of(run):
    (row,) = run_json("eval", str(run), "--shots", "3", "--no-baselines", "--json")["rows"]
    return row["mean"]


def answer_of(run, folder):
    (folder / "new.csv").write_text("hour,level\n1.0,7.1\n3.0,17.0\n9.0,7.0\n")
    (folder / "query.csv").write_text("hour\n3.5\n5.0\n")
    task = ("--support", str(folder / "new.csv"), "--query", str(folder / "query.csv"))
    return np.asarray(run_json("adapt", str(run), *task, "--json")["prediction"])


def test_a_run_on_an_estimator_of_ones_own(table, tmp_path, own, capsys):
    run_json(*words(table, "ridge", tmp_path / "own", "--base", own, "--steps", "10", "--json"))
    assert (tmp_path / "own" / "code" / "mine.py").is_file()
    assert load(tmp_path / "own").built.network.layers  # the network of rows with the base behind them
    assert np.isfinite(answer_of(tmp_path / "own", tmp_path)).all()
    assert main(["export", str(tmp_path / "own"), "--out", str(tmp_path / "out")]) == 2
    assert "cannot be compiled" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_on_trees_is_better_and_is_exported(table, tmp_path):
    run_json(*words(table, "ridge", tmp_path / "plain", "--json"))
    run_json(*words(table, "ridge", tmp_path / "trees", "--base", "trees", "--json"))
    assert error_of(tmp_path / "trees") < 0.7 * error_of(tmp_path / "plain")
    assert np.ptp(answer_of(tmp_path / "trees", tmp_path)) > 5
    assert main(["export", str(tmp_path / "trees"), "--out", str(tmp_path / "out")]) == 0
    assert main(["export", str(tmp_path / "trees"), "--out", str(tmp_path / "npz"), "--format", "npz"]) == 2


def test_what_does_not_fit_is_refused(table, tmp_path, capsys):
    (tmp_path / "bad.py").write_text("def make():\n    return 3\n")
    for method, base, message in (
        ("trees", "trees", "does not apply to trees"), ("ridge", "forest", "Known: trees"),
        ("ridge", f"{tmp_path / 'bad.py'}:make", "Let it return an estimator"),
    ):  # fmt: skip
        more = () if method == "trees" else ("--steps", "3")
        roles = ("--task", "sensor", "--x", "hour", "--y", "level", "--run", str(tmp_path / "x"), "--base", base)
        assert main(["train", method, f"table:{table}", *roles, *more]) == 2
        assert message in capsys.readouterr().err
    one = rows(tasks=1)
    with pytest.raises(FewstepError, match="one training task"):
        fit_base("trees", one, one, NUMBERS, seed=0)
    assert not (tmp_path / "x").exists()


def test_an_estimator_that_is_not_scikit_learns_is_neither_kept_nor_loaded(tmp_path):
    (tmp_path / "odd.py").write_text(
        "from sklearn.base import BaseEstimator\nclass Odd(BaseEstimator):\n    def fit(self, x, y):\n"
        "        return self\n    def predict(self, x):\n        return x[:, 0]\ndef make():\n    return Odd()\n"
    )
    with pytest.raises(FewstepError, match="cannot be kept with a run"):
        fit_base(f"{tmp_path / 'odd.py'}:make", rows(), rows(), NUMBERS, seed=0)


@pytest.mark.slow
def test_a_resumed_run_keeps_its_base(table, tmp_path):
    run = tmp_path / "run"
    plain = ("--base", "trees", "--schedule", "constant")
    run_json(*words(table, "ridge", run, *plain, "--validate-every", "4", "--log-every", "4", "--json"))
    before = open_run(run).experiment.fitted_base
    run_json(
        *words(table, "ridge", run, *plain, "--validate-every", "4", "--log-every", "4", "--steps", "84", "--json")
    )
    assert open_run(run).experiment.fitted_base == before
    assert load(run).built.problem.base is not None
