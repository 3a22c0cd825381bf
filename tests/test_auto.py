"""Boosted trees as arrays, the weights of a portfolio, and `auto` from the command line and in Python."""

import contextlib
import io
import json
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_equal, used
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from fewstep import Batch, FewstepError, learners, losses
from fewstep.cli import main
from fewstep.experiments import Experiment
from fewstep.experiments._weights import combine
from fewstep.learners.forest import Sample, Size, evaluate_forest, fit_forest, usual_engine
from fewstep.learners.portfolio import mixed_moments
from fewstep.models import adapt
from fewstep.problems import Answers, read_frame
from fewstep.reports._practice import mixture
from fewstep.runs import create_run, load, open_run
from fewstep.tables import read

RNG = np.random.default_rng(0)
QUICK = ("--effort", "0.02", "--member-seeds", "1", "--hidden", "8", "--shots", "3", "--min-shots", "1", "--no-report")


def run_json(*args):
    """What a command prints under --json."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*args]) == 0
    return json.loads(out.getvalue()) if "--json" in args else None


def sample(rows=300, classes=0, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + (x[:, 1] > 0)
    y = np.digitize(y, np.linspace(-0.5, 1.5, classes - 1)) if classes else y[:, None]
    return Sample(x, y, np.ones(rows))


LIGHTGBM = pytest.param(
    "lightgbm", marks=pytest.mark.skipif(find_spec("lightgbm") is None, reason="lightgbm is not installed")
)


class TestForest:
    @pytest.mark.skipif(find_spec("lightgbm") is None, reason="lightgbm is not installed")
    @pytest.mark.parametrize("classes", [0, 2, 4])
    def test_is_what_lightgbm_says(self, classes, monkeypatch):
        import lightgbm

        models, fit = [], lightgbm.train
        monkeypatch.setattr(lightgbm, "train", lambda *args, **more: models.append(fit(*args, **more)) or models[-1])
        train, size = sample(classes=classes), Size(40, 8, 4)
        forest, count = fit_forest(train, sample(classes=classes, seed=1), outputs=max(classes, 1),
                                   classes=bool(classes), size=size, engine="lightgbm")  # fmt: skip
        assert usual_engine() == "lightgbm"
        assert count == models[0].best_iteration
        ours, theirs = np.asarray(evaluate_forest(forest, jnp.asarray(train.x), size)), models[0].predict(train.x)
        if classes:
            theirs = np.stack([1 - theirs, theirs], 1) if classes == 2 else theirs
            np.testing.assert_allclose(jax.nn.softmax(ours), theirs, atol=1e-5)
        else:
            np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-5)

    @pytest.mark.parametrize("classes", [0, 2, 4])
    def test_is_what_scikit_learn_says(self, classes):
        train, size = sample(classes=classes), Size(12, 8, 4)
        forest, count = fit_forest(
            train, None, outputs=max(classes, 1), classes=bool(classes), trees=12, size=size, engine="sklearn"
        )
        factory = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
        model = factory(
            max_iter=12, learning_rate=0.08, max_leaf_nodes=8, max_depth=4, min_samples_leaf=6, l2_regularization=1.0,
            early_stopping=False, random_state=0,
        ).fit(train.x, train.y if classes else train.y[:, 0])  # fmt: skip
        ours = np.asarray(evaluate_forest(forest, jnp.asarray(train.x), size))
        assert count == 12
        if classes:
            np.testing.assert_allclose(jax.nn.softmax(ours), model.predict_proba(train.x), atol=1e-5)
        else:
            np.testing.assert_allclose(ours[:, 0], model.predict(train.x), atol=1e-5)

    @pytest.mark.parametrize("engine", ["sklearn", LIGHTGBM])
    def test_stops_where_it_is_best_on_other_rows(self, engine):
        noise = sample()
        noise = noise._replace(y=RNG.normal(size=noise.y.shape))
        other = sample()._replace(y=RNG.normal(size=(300, 1)))
        _, count = fit_forest(noise, other, outputs=1, classes=False, engine=engine)
        assert count < 30
        forest, count = fit_forest(sample(), sample(), outputs=1, classes=False, engine=engine)
        assert count > 30
        other = sample()
        error = np.square(np.asarray(evaluate_forest(forest, jnp.asarray(other.x))) - other.y).mean()
        assert error < 0.1

    def test_several_outputs_are_forests_side_by_side(self):
        train = sample()
        both = train._replace(y=np.concatenate([train.y, -3 * train.y], axis=1))
        size = Size(10, 8, 4)
        pair, _ = fit_forest(both, None, outputs=2, classes=False, trees=10, size=size)
        one, _ = fit_forest(train, None, outputs=1, classes=False, trees=10, size=size)
        x = jnp.asarray(train.x)
        np.testing.assert_allclose(evaluate_forest(pair, x, size)[:, :1], evaluate_forest(one, x, size), atol=1e-5)

    @pytest.mark.parametrize("engine", ["sklearn", LIGHTGBM])
    def test_one_class_alone_and_a_class_that_is_missing(self, engine):
        train = sample(classes=4)
        only = train._replace(y=np.full(300, 2))
        forest, count = fit_forest(only, None, outputs=4, classes=True, engine=engine)
        assert count == 0
        assert (np.asarray(evaluate_forest(forest, jnp.asarray(train.x))).argmax(1) == 2).all()
        few = train.y < 2
        some = Sample(train.x[few], train.y[few], np.ones(few.sum()))
        forest, _ = fit_forest(some, None, outputs=4, classes=True, engine=engine)
        assert np.asarray(evaluate_forest(forest, jnp.asarray(train.x))).argmax(1).max() == 1


def answers(mean, y):
    """What a member answers on some tasks: arrays of shape (tasks, rows), or (tasks, rows, classes)."""
    mean = np.asarray(mean, float)
    mean = (mean[..., None] if mean.ndim == 2 else mean)[:, None, None]
    target = np.asarray(y, float)[:, None]
    y = target if mean.shape[-1] > 1 else target[..., None]
    return Answers(mean, np.zeros_like(mean), mean[None], y, np.ones(target.shape))


class TestWeights:
    truth = RNG.normal(size=(12, 40))

    def test_a_member_that_is_right_has_all_the_weight_that_matters(self):
        good, bad = answers(self.truth, self.truth), answers(self.truth + 5, self.truth)
        noisy = answers(self.truth + RNG.normal(size=self.truth.shape), self.truth)
        together, weights = combine([{3: bad}, {3: noisy}, {3: good}], (3,), classes=False, seed=0)
        assert weights[0, 2] > 0.95
        assert weights.min() >= 0
        np.testing.assert_allclose(weights.sum(1), 1)
        assert np.square(together[3].mean[:, :, 0] - together[3].y).mean() < 0.05

    def test_errors_apart_are_averaged(self):
        noisy = [answers(self.truth + RNG.normal(size=self.truth.shape), self.truth) for _ in range(4)]
        together, weights = combine([{3: one} for one in noisy], (3,), classes=False, seed=0)
        np.testing.assert_allclose(weights[0], 0.25, atol=0.06)
        error = lambda a: np.square(a.mean[:, :, 0] - a.y).mean()
        assert error(together[3]) < 0.35 * min(map(error, noisy))
        assert together[3].spread.mean() > 0.5  # members that differ make the mixture unsure

    def test_one_that_is_not_finite_has_none(self):
        good, bad = answers(self.truth + 1, self.truth), answers(np.full_like(self.truth, np.nan), self.truth)
        together, weights = combine([{3: bad}, {3: good}], (3,), classes=False, seed=0)
        assert weights.tolist() == [[0.0, 1.0]]
        assert np.isfinite(together[3].mean).all()

    def test_no_task_chooses_its_own_weights(self):
        """The first member is right on one task alone: the others must not be told, nor that task itself."""
        wrong = self.truth + RNG.normal(size=self.truth.shape)
        wrong[0] = self.truth[0]
        steady = answers(self.truth + 0.5, self.truth)
        together, _ = combine([{3: answers(wrong, self.truth)}, {3: steady}], (3,), classes=False, seed=0)
        by_task = np.square(together[3].mean[:, 0, 0] - together[3].y[:, 0]).mean((1, 2))
        assert by_task[0] > 0.05

    def test_classes_by_likelihood(self):
        labels = RNG.integers(0, 3, size=(12, 40))
        sure = np.eye(3)[labels] * 0.9 + 0.1 / 3
        flat = np.full((12, 40, 3), 1 / 3)
        _, weights = combine([{2: answers(flat, labels)}, {2: answers(sure, labels)}], (2,), classes=True, seed=0)
        assert weights[0, 1] > 0.95

    def test_a_member_that_fails_on_a_new_task_is_left_out_there(self):
        means = jnp.asarray([[[1.0], [jnp.nan]], [[3.0], [3.0]]])
        mean, variance = mixed_moments(jnp.full((2, 1), 0.5), means, jnp.zeros_like(means))
        np.testing.assert_allclose(mean, [[2.0], [3.0]])
        np.testing.assert_allclose(variance, [[1.0], [0.0]], atol=1e-6)


def test_a_portfolio_is_the_weighted_mean_of_its_members():
    parts = {
        "ridge": learners.Member(learners.ridge(learners.nothing_but_x(1), 1)),
        "mixed": learners.Member(learners.mixed(1)),
    }
    whole = learners.portfolio(parts, (1, 4), losses.squared_error)
    meta = whole.init(jax.random.key(0))
    meta["weights"] = jnp.asarray([[1.0, 0.0], [0.25, 0.75]])
    x = jnp.linspace(-1, 1, 6)[:, None]
    support = Batch(x, jnp.sin(x), jnp.asarray([1.0, 1, 1, 1, 1, 0]))
    alone = []
    for name, part in parts.items():
        own = jax.tree.map(lambda leaf: leaf[0], meta["members"][name])
        alone.append(part.learner.predict(own, part.learner.adapt(own, jax.random.key(1), support, 0), x))
    got = whole.predict(meta, whole.adapt(meta, jax.random.key(1), support, 0), x)
    np.testing.assert_allclose(got, 0.25 * alone[0] + 0.75 * alone[1], rtol=1e-4, atol=1e-5)
    few = support._replace(weight=jnp.asarray([1.0, 0, 0, 0, 0, 0]))
    own = jax.tree.map(lambda leaf: leaf[0], meta["members"]["ridge"])
    first = parts["ridge"].learner
    np.testing.assert_allclose(
        whole.predict(meta, whole.adapt(meta, jax.random.key(1), few, 0), x),
        first.predict(own, first.adapt(own, jax.random.key(1), few, 0), x), rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_a_portfolio_does_not_learn_from_targets_that_are_not_credible():
    parts = {"ridge": learners.Member(learners.ridge(learners.nothing_but_x(1), 1)),
             "pooled": learners.Member(learners.pooled(1, losses.squared_error))}  # fmt: skip
    whole = learners.portfolio(parts, (1, 4), losses.squared_error, otherwise="pooled")
    meta = whole.init(jax.random.key(0)) | {"ends": jnp.asarray([[-2.0], [2.0]])}
    meta["weights"] = jnp.asarray([[0.75, 0.25], [1.0, 0.0]])
    x = jnp.linspace(-1, 1, 4)[:, None]

    @jax.jit
    def ask(y, weight):
        return whole.predict(meta, whole.adapt(meta, jax.random.key(1), Batch(x, y, weight), 0), x)

    def says(y, weight):
        return np.asarray(ask(jnp.asarray(y)[:, None], jnp.asarray(weight)))

    honest = says([0.5, 1.0, 1.5, 2.0], [1.0, 1, 1, 0])
    assert np.abs(honest).max() > 0.1
    np.testing.assert_allclose(says([0.5, 1.0, 1.5, 9999.0], [1.0, 1, 1, 1]), honest, atol=1e-6)
    assert np.abs(says([0.5, 1.0, 1.5, 1.9], [1.0, 1, 1, 1]) - honest).max() > 1e-3
    for absurd in ([9999.0] * 4, [-2.1] * 4, [np.nan] * 4, [0.5, 1.0, 9999.0, 9999.0]):
        np.testing.assert_array_equal(says(absurd, [1.0, 1, 1, 1]), np.zeros((4, 1)))  # of an empty forest


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Lines of 24 sensors, each with an offset of its own."""
    path = tmp_path_factory.mktemp("tables") / "sensors.csv"
    rng, lines = np.random.default_rng(3), ["sensor,hour,celsius"]
    for sensor in range(24):
        offset = 8 * rng.normal()
        lines += [f"s{sensor},{h:.2f},{offset + h / 4 + 0.1 * rng.normal():.3f}" for h in rng.uniform(0, 24, size=14)]
    path.write_text("\n".join(lines) + "\n")
    return path


def words(table, method, run, *more):
    roles = ("--task", "sensor", "--x", "hour", "--y", "celsius")
    return ["train", method, f"table:{table}", *roles, "--run", str(run), *more]


class Killed(BaseException):
    """What nothing in the package catches."""


def test_auto_learns_stops_resumes_and_answers(table, tmp_path, monkeypatch):
    """Ended while it trains its members, it resumes: the parameters, the weights and the calibration are those of one
    that was not ended, to the bit. That holds within a process, or between processes with as many threads: with others,
    sums are rounded otherwise. (Real processes are killed in test_cli and test_own_code.)"""
    members = ("--members", "ridge", "pooled")
    run, other = tmp_path / "auto", tmp_path / "whole"

    def create_or_die(path, *args, **more):
        made = create_run(path, *args, **more)
        if path.name == "pooled":
            raise Killed
        return made

    with monkeypatch.context() as patch:
        patch.setattr("fewstep.runs.members.create_run", create_or_die)
        with pytest.raises(Killed):
            main(words(table, "auto", run, *QUICK, *members))
    assert (run / "members" / "ridge" / "checkpoints").exists()
    with pytest.raises(FewstepError, match="has no checkpoint"):
        load(run)
    run_json(*words(table, "auto", run, *QUICK, *members, "--json"))
    run_json(*words(table, "auto", other, *QUICK, *members, "--json"))
    model, whole = load(run), load(other)
    assert_equal(model.stacked, whole.stacked)
    assert model.calibration is not None
    assert model.calibration == whole.calibration
    assert list(model.parts) == ["ridge", "pooled"]
    assert list(model.weights) == [1, 2, 3, 4, 5, 7, 10]
    assert all(sum(shares.values()) == pytest.approx(1.0, abs=1e-4) for shares in model.weights.values())
    text = "".join(map(str, mixture(model)))
    assert "What the answer is made of" in text
    assert all((name in text) == any(shares[name] >= 0.005 for shares in model.weights.values()) or "No part" in text
               for name in model.parts)  # fmt: skip
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    answer = adapt(model, (x[:3], x[:3] + 1)).answer(x)
    assert answer.calibrated
    assert (answer.low < answer.mean).all()
    check_absurd_rows(model)
    rows = run_json("eval", str(run), "--shots", "3", "--no-baselines", "--json")["rows"]
    assert rows[0]["mean"] < 5  # the sensors' offsets are 8 apart


def check_absurd_rows(model):
    """A row with an absurd target changes neither the answer nor its interval, and a warning says so; where no other
    row is left, the answer and its interval are those of `pooled`."""
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]

    def learned(*celsius):
        columns = {"hour": np.arange(float(len(celsius))), "celsius": list(celsius)}
        support = read_frame(model.problem, read(columns), "support")
        return adapt(model, support).answer(x), support.notes

    (honest, silent), (spoiled, warned) = learned(3.0, 5.0, 7.0), learned(3.0, 5.0, 7.0, 99999.0)
    assert not [note for note in silent if "celsius" in note]
    assert "Row 4 of the table holds 99999 in the column 'celsius', outside the training tasks'" in warned[0]
    assert "too far to be learned from: the row is left out" in warned[0]
    for part in ("mean", "low", "high"):
        np.testing.assert_allclose(getattr(spoiled, part), getattr(honest, part), rtol=1e-5)
    alone, warned = learned(99999.0, -99999.0)
    pooled = adapt(model.parts["pooled"], (x[:1], x[:1])).answer(x)
    np.testing.assert_allclose(alone.mean, pooled.mean, rtol=1e-5)
    assert "Nothing is learned from Row 1 of the table and the others of its task" in warned[1]
    half, usual = (alone.high - alone.low).mean() / 2, (honest.high - honest.low).mean() / 2
    assert usual < half < 5  # deviations of the target


@pytest.mark.slow
def test_trees_alone_are_better_than_pooled_where_tasks_differ(table, tmp_path):
    """The offset of a sensor is learned from three rows."""
    small = ("--shots", "3", "--no-report", "--json")
    errors = {}
    for method in ("trees", "shifted", "pooled"):
        run_json(*words(table, method, tmp_path / method, *small))
        (row,) = run_json("eval", str(tmp_path / method), "--no-baselines", "--json")["rows"]
        errors[method] = row["mean"]
    assert errors["trees"] < 0.7 * errors["pooled"]
    assert errors["shifted"] < 0.7 * errors["pooled"]
    _, second = load(tmp_path / "trees").meta()["rounds"]
    assert second > 0  # the first forest, of all rows, may be empty where tasks differ by more than the hour explains


def test_what_does_not_apply_is_said(table, tmp_path, capsys):
    for more, message in (
        (("--steps", "5"), "does not apply"), (("--outer-lr", "0.1"), "does not apply"),
        (("--members", "tree"), "Did you mean 'trees'"),
    ):  # fmt: skip
        assert main(words(table, "auto", tmp_path / "x", *more)) == 2
        assert message in capsys.readouterr().err
    assert main(["train", "trees", "sinusoid", "--run", str(tmp_path / "y")]) == 2
    assert "trees learns from a table" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_members_are_experiments_with_the_same_options():
    whole = Experiment("auto", "table", shots=4, hidden=(8,), effort=0.5)
    parts = whole.parts
    assert set(parts) == {"mtnet+rates", "ridge", "gaussian", "mixed", "np", "trees", "shifted", "pooled"}
    assert {part.shots for part in parts.values()} == {4}
    assert parts["ridge"].steps == Experiment("ridge", "table").steps // 2
    assert parts["mtnet+rates"].hidden == (8,)


@pytest.mark.slow
def test_an_export_leaves_absurd_rows_out_too(table, tmp_path):
    run_json(*words(table, "auto", tmp_path / "run", *QUICK, "--members", "shifted", "pooled", "--json"))
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "e"), "--no-score"]) == 0
    model, asked = load(tmp_path / "run"), {"hour": [2.0, 20.0]}
    for celsius in ([3.0, 5.0, 7.0, 99999.0], [3.0, 5.0, 99999.0, 99999.0]):
        known = {"hour": [1.0, 2.0, 3.0, 4.0], "celsius": celsius}
        support, query = (
            read_frame(model.problem, read(of), part) for of, part in ((known, "support"), (asked, "query"))
        )
        answer = model.kind.write(model.problem, query, adapt(model, support).answer(query.x)).columns
        made, _ = used(
            tmp_path / "e",
            *([dict(zip(of, row, strict=True)) for row in zip(*of.values(), strict=True)] for of in (known, asked)),
        )
        for name in ("prediction", "low", "high"):
            np.testing.assert_allclose([row[name] for row in made], answer[name], rtol=1e-3)


@pytest.mark.slow
def test_estimator_and_command_give_the_same_model(table, tmp_path):
    import pandas as pd

    from fewstep.estimators import FewShotRegressor

    run_json(*words(table, "auto", tmp_path / "run", *QUICK, "--json"))
    split = open_run(tmp_path / "run").experiment.classes
    frame = pd.read_csv(table)
    frame = frame[~frame.sensor.isin(split["test"])]
    made = FewShotRegressor(
        shots=3, effort=0.02, seeds=1, hidden=(8,), validation=split["validation"], random_state=0, inner_steps=5
    ).fit(frame[["hour"]], frame.celsius, tasks=frame.sensor)
    model = load(tmp_path / "run")
    assert list(made.model_.parts) == list(model.parts)
    x = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    ours, theirs = (adapt(m, (x[:3], x[:3] + 1)).answer(x) for m in (made.model_, model))
    np.testing.assert_allclose(ours.mean, theirs.mean, atol=2e-4)


def test_json_of_a_fitted_run_names_the_method(table, tmp_path):
    result = run_json(*words(table, "pooled", tmp_path / "p", "--shots", "3", "--no-report", "--json"))
    assert result["rule"] == "pooled"
    assert json.loads((tmp_path / "p" / "config.json").read_text())["experiment"]["method"] == "pooled"
