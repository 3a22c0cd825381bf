"""The estimators: scikit-learn's own checks, learning from tasks, adapting, saving; what does not match is refused."""

import os
import pickle
import re
import subprocess
import sys

import jax
import numpy as np
import pandas
import pytest
from helpers import assert_equal, output
from sklearn.base import clone

from fewstep import FewstepError
from fewstep.estimators import FewShotClassifier, FewShotRegressor, load
from fewstep.estimators._input import parts_of
from fewstep.estimators._save import _KIND as KIND
from fewstep.files import read_archive, write_archive
from fewstep.models import adapt
from fewstep.models._adaptation import _programs
from fewstep.problems import read_frame
from fewstep.runs import load as load_run
from fewstep.tables import read

SMALL = {"steps": 60, "seeds": 2, "hidden": (16,), "shots": 4, "random_state": 0, "outer_lr": 0.01}


def lines(tasks=10, rows=12, seed=0):
    """Lines of one slope and a height for each task."""
    random = np.random.default_rng(seed)
    table = pandas.DataFrame({
        "task": np.repeat([f"t{n}" for n in range(tasks)], rows), "age": random.uniform(0, 10, tasks * rows),
        "sex": np.repeat(np.where(np.arange(tasks) % 2, "girl", "boy"), rows),
    })  # fmt: skip
    table["size"] = 100 + 3 * table.age + np.repeat(random.normal(0, 10, tasks), rows)
    return table


@pytest.fixture(scope="module")
def fitted():
    table = lines()
    return FewShotRegressor("ridge", **SMALL).fit(table[["age", "sex"]], table["size"], tasks=table["task"])


@pytest.mark.xdist_group("estimators")
class TestRegressor:
    new = lines(1, 12, seed=7)

    def test_a_new_task_is_learned_from_four_rows(self, fitted):
        known, rest = self.new.iloc[:4], self.new.iloc[4:]
        adapted = fitted.adapt(known[["age", "sex"]], known["size"])
        wrong = np.abs(adapted.predict(rest[["age", "sex"]]) - rest["size"]).mean()
        before = np.abs(fitted.predict(rest[["age", "sex"]]) - rest["size"]).mean()
        assert wrong < 0.5 * before
        assert adapted.score(rest[["sex", "age"]], rest["size"]) > 0.8  # the columns' order is not theirs to keep
        told = adapted.predict_interval(rest[["age", "sex"]])
        assert list(told.columns) == ["prediction", "low", "high"]
        assert (told.index == rest.index).all()
        with pytest.raises(FewstepError, match="calibrated at"):
            adapted.predict_interval(rest[["age", "sex"]], level=0.33)

    def test_judged_by_task_it_is_judged_after_it_has_learned(self, fitted):
        table = lines(6, seed=3)
        x, y = table[["age", "sex"]], table["size"]
        assert fitted.score(x, y) < 0.8 < fitted.score(x, y, tasks=table["task"])
        with pytest.raises(FewstepError, match="No task has more than 4 rows"):
            fitted.score(x.iloc[:3], y.iloc[:3], tasks=table["task"].iloc[:3])

    def test_tasks_are_told_as_they_were_given(self):
        table = lines()
        numbers = table["task"].str[1:].astype(int)
        model = FewShotRegressor("ridge", **SMALL | {"steps": 2}).fit(table[["age"]], table["size"], tasks=numbers)
        assert set(model.held_out_tasks_) < set(range(10))
        assert numbers.isin(model.held_out_tasks_).any()
        with pytest.raises(FewstepError, match="Give the task of each row, such as tasks=table"):
            model.fit(table[["age"]], table["size"], tasks="task")

    def test_an_array_may_lack_cells_where_the_mean_is_taken(self):
        table = lines()
        x = table[["age"]].to_numpy().copy()
        x[3] = np.nan
        model = FewShotRegressor("ridge", **SMALL | {"steps": 2}, missing="mean")
        assert np.isfinite(model.fit(x, table["size"], tasks=table["task"]).predict(x)).all()

    def test_a_saved_one_answers_the_same(self, fitted, tmp_path):
        path = fitted.save(tmp_path / "model")
        known = self.new.iloc[:4]
        ask = lambda model: model.adapt(known[["age", "sex"]], known["size"]).predict(self.new[["age", "sex"]])
        np.testing.assert_array_equal(ask(load(path)), ask(fitted))
        assert load(path).n_tasks_ == load(tmp_path / "model").n_tasks_ == 10
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(FewstepError, match="damaged"):
            load(path)

    @pytest.mark.parametrize(
        ("kind", "version", "change", "said"),
        [
            (KIND, 99, {}, "has format 99 and this version reads format 2. It was saved by a newer version of fewstep"),
            (KIND, 1, {}, "It was saved by an older version of fewstep. Train and save it again."),
            ("fewstep model", 2, {}, "holds a fewstep model, not a few-shot estimator"),
            (
                KIND,
                2,
                {"class": "FewShotRanker"},
                "holds a 'FewShotRanker'. Known: FewShotClassifier, FewShotRegressor",
            ),
            (KIND, 2, {"class": "Adapted"}, "holds a 'Adapted'"),
        ],
    )
    def test_a_file_of_another_kind_is_refused(self, fitted, kind, version, change, said, tmp_path):
        about, arrays = read_archive(fitted.save(tmp_path / "model"), KIND, 2)
        write_archive(tmp_path / "other.npz", kind, version, about | {"more": about["more"] | change}, arrays)
        with pytest.raises(FewstepError, match=re.escape(said)):
            load(tmp_path / "other.npz")

    def test_a_file_that_was_changed_is_refused(self, fitted, tmp_path):
        with np.load(fitted.save(tmp_path / "model")) as file:
            arrays = dict(file)
        name = next(name for name in arrays if name.startswith("0:"))
        np.savez(tmp_path / "other.npz", **arrays | {name: arrays[name] + 1})
        with pytest.raises(FewstepError, match=r"is damaged: its contents do not match its checksum\. Train and save"):
            load(tmp_path / "other.npz")
        assert load(tmp_path / "model").predict(self.new[["age", "sex"]]).shape == (12,)

    def test_a_pickled_one_answers_the_same(self, fitted):
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict(self.new[["age", "sex"]]), fitted.predict(self.new[["age", "sex"]]))
        known = self.new.iloc[:4]
        adapted = fitted.adapt(known[["age", "sex"]], known["size"])
        copy = pickle.loads(pickle.dumps(adapted))
        assert_equal(
            copy.predict_interval(known[["age", "sex"]]).to_numpy(), adapted.predict_interval(known).to_numpy()
        )

    def test_a_saved_task_answers_the_same(self, fitted, tmp_path):
        known = self.new.iloc[:4]
        adapted = fitted.adapt(known[["age", "sex"]], known["size"])
        again = load(adapted.save(tmp_path / "task.npz"))
        asked = self.new[["age", "sex"]]
        np.testing.assert_array_equal(again.predict_interval(asked), adapted.predict_interval(asked))
        assert (again.n_samples_, again.model.coverage_) == (4, fitted.coverage_)

    def test_what_was_held_out_and_how_far_intervals_reach(self, fitted):
        assert len(fitted.held_out_tasks_) == 2
        assert set(fitted.held_out_tasks_) < {f"t{n}" for n in range(10)}
        assert 0 <= fitted.coverage_ <= 1
        known = self.new.iloc[:4]
        adapted = fitted.adapt(known[["age", "sex"]], known["size"]).set_params(inner_steps=3)
        with pytest.raises(FewstepError, match="inner steps of the training; inner_steps is 3"):
            adapted.predict_interval(known[["age", "sex"]])

    def test_a_second_prediction_compiles_nothing(self, fitted, caplog):
        known = self.new.iloc[:4]
        fitted.adapt(known[["age", "sex"]], known["size"]).predict(known[["age", "sex"]])
        other = lines(1, 12, seed=9).iloc[:3]  # as many rows when padded
        before = _programs.cache_info().misses
        with jax.log_compiles(), caplog.at_level("WARNING"):
            fitted.adapt(other[["age", "sex"]], other["size"]).predict(other[["age", "sex"]])
        assert _programs.cache_info().misses == before
        assert not [record for record in caplog.records if "Compiling" in record.getMessage()]

    def test_what_does_not_match_is_refused_by_name(self, fitted):
        known = self.new.iloc[:4]
        adapted = fitted.adapt(known[["age", "sex"]], known["size"])
        with pytest.raises(FewstepError, match="no column 'sex'"):
            adapted.predict(known[["age"]])
        with pytest.raises(FewstepError, match="'cat' in the column 'sex'"):
            adapted.predict(known[["age", "sex"]].assign(sex="cat"))

    def test_an_adapted_one_is_cloned_without_its_task(self, fitted):
        known = self.new.iloc[:4]
        other = clone(fitted.adapt(known[["age", "sex"]], known["size"]))
        assert other.model is fitted
        assert not hasattr(other, "n_samples_")

    def test_mistakes(self):
        table = lines(4, 5)
        x, y, tasks = table[["age"]], table["size"], table["task"]
        with pytest.raises(FewstepError, match=r"fewer than 7 rows, 6 to learn from.*Use shots=4"):
            FewShotRegressor("ridge", **SMALL | {"shots": 6}).fit(x, y, tasks)
        with pytest.raises(FewstepError, match="validation is 0"):
            FewShotRegressor("ridge", validation=0.9).fit(x, y, tasks)
        with pytest.raises(FewstepError, match="missing is 'drop'"):
            FewShotRegressor("ridge", missing="drop").fit(x, y, tasks)
        with pytest.raises(FewstepError, match="Unknown method 'mtnett'"):
            FewShotRegressor("mtnett", **SMALL).fit(x, y, tasks)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("ridge", "tall"),
        pytest.param("mtnet+rates", "size", marks=pytest.mark.slow),
        pytest.param("gaussian", "size", marks=pytest.mark.slow),
    ],
)
def test_an_estimator_is_the_model_of_the_command(method, target, tmp_path, capsys):
    table = lines(12)
    table["tall"] = np.where(table["size"] > table["size"].mean(), "yes", "no")
    table.to_csv(tmp_path / "t.csv", index=False)
    # Small, so that the command does not spread the tasks over devices, which rounds differently.
    words = ("--task", "task", "--x", "age", "sex", "--y", target, "--shots", 4, "--steps", 6, "--seed", 3,
             "--hidden", 16, 16, "--no-report")  # fmt: skip
    assert output(capsys, "train", method, f"table:{tmp_path / 't.csv'}", *words, "--run", tmp_path / "run")[0] == 0
    run = load_run(tmp_path / "run")
    known = pandas.read_csv(tmp_path / "t.csv", engine="python")
    known = known[~known.task.isin(run.experiment.classes["test"])]
    make = FewShotRegressor if target == "size" else FewShotClassifier
    made = make(
        method, validation=run.experiment.classes["validation"], random_state=3, steps=6, shots=4, hidden=(16, 16)
    )
    made.fit(known[["age", "sex"]], known[target], tasks=known["task"])
    same = lambda experiment: {
        name: value for name, value in experiment.settings().items()
        if name not in ("tasks", "task", "x", "y", "classes", "schema", "source")
    }  # fmt: skip
    assert same(made.model_.experiment) == same(run.experiment)
    assert_equal(made.model_.metas, run.metas)
    assert made.model_.calibration == run.calibration
    assert made.n_iter_ == run.step
    new = lines(1, 12, seed=7).assign(tall="yes")
    new.loc[0, "age"] = 40.0  # far outside: warned of, with a wide interval
    support, query = (
        read_frame(run.problem, read(new[:4]), "support"),
        read_frame(run.problem, read(new[4:]), "query"),
    )
    answer = adapt(run, support).answer(query.x, distance=query.distance)
    written = run.kind.write(run.problem, query, answer).columns
    with pytest.warns(UserWarning, match="holds 40 in the column 'age'"):
        adapted = made.adapt(new[["age", "sex"]][:4], new[target][:4])
    if target == "tall":
        np.testing.assert_array_equal(adapted.predict_proba(new[["age", "sex"]][4:]), answer.mean)
        return
    told = adapted.predict_interval(new[["age", "sex"]][4:])
    for name in ("prediction", "low", "high"):
        np.testing.assert_array_equal(told[name], written[name])


@pytest.mark.slow
def test_a_feature_may_be_called_as_the_target_is():
    """Were it taken for the target, a constant would be learned to perfection, and from nothing."""
    random = np.random.default_rng(0)
    names = np.repeat([f"t{n}" for n in range(8)], 10)
    place = pandas.DataFrame({"x": random.normal(size=80), "y": random.normal(size=80)})
    noise = random.normal(size=80)
    model = FewShotRegressor("ridge", **SMALL).fit(place, noise, tasks=names)
    assert model.model_.problem.details.schema.target.name == "target y"
    adapted = model.adapt(place[:40], noise[:40])
    assert adapted.score(place[:40].assign(y=noise[:40]), noise[:40]) < 0.9


def test_the_default_method_learns_and_two_tasks_have_no_intervals():
    table = lines(2, 12)
    model = FewShotRegressor("mtnet+rates", **SMALL | {"steps": 3, "seeds": 1}).fit(
        table[["age"]], table["size"], tasks=table["task"]
    )
    adapted = model.adapt(table[["age"]][:4], table["size"][:4])
    assert np.isfinite(adapted.predict(table[["age"]])).all()
    assert (model.coverage_, model.held_out_tasks_) == (None, ())
    with pytest.raises(FewstepError, match="at least three tasks"):
        adapted.predict_interval(table[["age"]])


@pytest.mark.parametrize(("tasks", "share"), [(5, 0.4), (7, 0.45), (3, 0.2)])
def test_few_tasks_can_be_split(tasks, share):
    names = np.repeat([f"t{n}" for n in range(tasks)], 2).astype(object)
    splits = [parts_of(names, seed, share) for seed in range(5)]
    assert len({tuple(split["validation"]) for split in splits}) > 1  # by the seed, not by the alphabet
    assert all(len(set(names[split["train"]])) >= 2 for split in splits)


@pytest.mark.slow
def test_one_task_is_told_of():
    table = lines(1, 40)
    with pytest.warns(UserWarning, match="No tasks are given, so all rows are one task"):
        model = FewShotRegressor("ridge", **SMALL).fit(table[["age"]], table["size"])
    assert model.score(table[["age"]], table["size"]) > 0.9


@pytest.mark.slow
def test_classes():
    table = lines()
    tall = np.where(table["size"] > table["size"].mean(), "tall", "short")
    model = FewShotClassifier("ridge", **SMALL).fit(table[["age", "sex"]], tall, tasks=table["task"])
    new = lines(1, 20, seed=3)
    truth = np.where(new["size"] > table["size"].mean(), "tall", "short")
    adapted = model.adapt(new[["age", "sex"]][:8], truth[:8])
    made = adapted.predict_proba(new[["age", "sex"]])
    np.testing.assert_allclose(made.sum(1), 1, rtol=1e-5)
    assert adapted.score(new[["age", "sex"]], truth) >= 0.6
    with pytest.raises(FewstepError, match=r"a class that no training task had\. Known: short, tall"):
        model.adapt(new[["age", "sex"]][:2], ["tall", "wide"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["FewShotRegressor", "FewShotClassifier"])
def test_scikit_learn_checks(kind):
    script = f"""
from sklearn.utils.estimator_checks import check_estimator
from fewstep.estimators import {kind}
model = {kind}("ridge", steps=40, seeds=1, hidden=(8,), outer_lr=0.02, meta_batch=2)
told = check_estimator(model, on_skip=None, on_fail=None)
print(len(told), [check["check_name"] for check in told if check["status"] == "failed"])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    count, failed = done.stdout.split(maxsplit=1)
    assert int(count) > 45
    assert failed.strip() == "[]"
