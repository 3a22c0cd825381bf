"""The learners `gaussian` and `mixed` and the baselines of the same models: fitted alike, they answer alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from helpers import output

import fewstep
from fewstep import FewstepError, learners, networks
from fewstep.experiments import Experiment, build
from fewstep.problems import answer_tasks, compare, draws_of
from fewstep.problems._baselines import _TRAIN_STEPS, MIXED, PRIOR
from fewstep.runs import load


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Lines of a height and slope for each task."""
    random = np.random.default_rng(0)
    who, x = np.repeat(np.arange(10), 14), random.uniform(0, 5, 140)
    y = 20 + random.normal(0, 3, 10)[who] + random.normal(2, 1, 10)[who] * x + random.normal(0, 0.3, 140)
    path = tmp_path_factory.mktemp("solvers") / "t.csv"
    pandas.DataFrame({"who": who, "x": x, "y": y}).to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name"), [("mixed", MIXED), ("gaussian", PRIOR)])
def test_a_run_answers_as_the_baseline_does(method, name, table, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 12)
    words = ("--task", "who", "--x", "x", "--y", "y", "--shots", 3, "--steps", 12, "--seeds", 1, "--validation-tasks",
             2, "--keep", "last", "--patience", 0, "--no-report", "--run", tmp_path / "run")  # fmt: skip
    assert output(capsys, "train", method, f"table:{table}", *words)[0] == 0
    model = load(tmp_path / "run")
    (baseline,) = compare(model.problem.details.read(), (3,), names=[name])
    rows, metas = model.problem.held_out("test"), list(model.metas.values())
    ours = answer_tasks(model.learner(), metas, rows, shots=3, steps=(0,), draws=draws_of(rows), within=3)
    np.testing.assert_allclose(ours.mean, baseline.answers.mean, rtol=1e-3, atol=1e-3)
    assert np.abs(ours.mean - ours.mean.mean()).max() > 0.1


@pytest.mark.parametrize("method", learners.PROCESSES)
def test_a_run_is_fitted_as_the_baseline_is_by_default(method, table):
    made = Experiment(method, f"table:{table}", task="who", x=("x",), y="y")
    assert (made.steps, made.meta_batch) == (_TRAIN_STEPS, learners.FITTING.meta_batch)
    assert Experiment("ridge", f"table:{table}").steps == 3000
    with pytest.raises(FewstepError, match=f"`min_shots` does not apply to {method}"):
        build(Experiment(method, f"table:{table}", task="who", x=("x",), y="y", min_shots=2))


def test_the_process_is_as_sure_as_that_of_scikit_learn():
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels

    learner = learners.gaussian(networks.mlp(1, 1, hidden=(), std=None), 1)
    meta = learner.init(jax.random.key(0))
    meta["weights"] = jax.tree.map(jnp.zeros_like, meta["weights"])
    x, query = np.random.default_rng(0).normal(size=(6, 1)), np.linspace(-2, 2, 5)[:, None]
    padded = [jnp.asarray(np.concatenate([part, np.full((2, 1), np.nan)]), jnp.float32) for part in (x, np.sin(x))]
    support = fewstep.Batch(*padded, jnp.asarray([1.0] * 6 + [0.0] * 2))
    adapted = learner.adapt(meta, jax.random.key(0), support, 0)
    fixed = lambda logarithm: kernels.ConstantKernel(np.exp(logarithm), "fixed")
    kernel = fixed(-1) + fixed(-2) * kernels.DotProduct(0, "fixed") + fixed(-1) * kernels.RBF(1.0, "fixed")
    noisy = kernel + kernels.WhiteKernel(np.exp(-2) + 1e-4, "fixed")
    oracle = GaussianProcessRegressor(noisy, alpha=0, optimizer=None).fit(x, np.sin(x)[:, 0])
    mean, deviation = oracle.predict(query, return_std=True)
    np.testing.assert_allclose(learner.predict(meta, adapted, query)[:, 0], mean, atol=1e-5)
    np.testing.assert_allclose(learner.spread(meta, adapted, query)[:, 0], deviation, atol=1e-5)
