"""Probabilities of a table's classes: scored as scikit-learn scores them, and calibrated wherever they are given."""

import dataclasses
import json

import numpy as np
import pandas
import pytest
from helpers import output, untrained, used
from serving import service
from sklearn.metrics import log_loss, roc_auc_score

from fewstep import FewstepError
from fewstep.estimators import FewShotClassifier
from fewstep.models import Calibration, adapt
from fewstep.problems import Answers, best_temperature, class_scores, read_frame, tempered
from fewstep.runs import load
from fewstep.serve import Client
from fewstep.tables import Roles, make_table, read


def columns(tasks=9, rows=14, seed=0):
    """Two classes by a threshold on one number that differs between tasks, with some noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(tasks, rows))
    right = x + random.normal(0, 0.4, (tasks, rows)) > random.normal(0, 0.5, (tasks, 1))
    names = np.repeat([f"t{n}" for n in range(tasks)], rows)
    return {"who": names, "x": x.ravel(), "kind": np.where(right.ravel(), "yes", "no")}


def answers(classes, sharpness=1.0, seed=0):
    """What a model of that sharpness answers of classes drawn from known probabilities; the last rows do not count."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1.5, (6, 3, 1, 50, classes))
    truth = tempered(np.exp(logits), 1.0)
    y = (truth[:, :, 0].cumsum(-1) < random.random((6, 3, 50, 1))).sum(-1).astype(float)
    weight = np.ones((6, 3, 50))
    weight[::2, :, 30:] = 0
    mean = tempered(truth, 1 / sharpness)
    return Answers(mean, mean, mean[None], y, weight)


class TestScores:
    @pytest.mark.parametrize("classes", [2, 4])
    def test_they_are_those_of_scikit_learn(self, classes):
        made = answers(classes, 2.0)
        p = made.mean[:, :, 0]
        found = class_scores(p, made)
        weight = (made.weight / made.weight.sum(-1, keepdims=True)).ravel()
        flat, y = p.reshape(-1, classes), made.y.ravel()
        assert found["log_loss"] == pytest.approx(log_loss(y, flat, sample_weight=weight, labels=range(classes)))
        assert ("auc" in found) == (classes == 2)
        if classes == 2:
            tied = np.round(flat, 1)  # many rows have one score
            assert found["auc"] == pytest.approx(roc_auc_score(y, flat[:, 1], sample_weight=weight))
            again = class_scores(np.round(p, 1), made)["auc"]
            assert again == pytest.approx(roc_auc_score(y, tied[:, 1], sample_weight=weight))

    def test_the_calibration_error_by_hand(self):
        p = np.asarray([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.36, 0.64]])[None, None]
        made = Answers(p, p, p, np.asarray([[[0.0, 1.0, 1.0, 1.0]]]), np.ones((1, 1, 4)))
        assert class_scores(p, made)["ece"] == pytest.approx((2 * 0.4 + 2 * 0.38) / 4)

    def test_one_class_alone_has_no_curve_and_what_diverged_no_score(self):
        p = np.full((1, 1, 3, 2), 0.5)
        made = Answers(p, p, p, np.zeros((1, 1, 3)), np.ones((1, 1, 3)))
        assert set(class_scores(p, made)) == {"log_loss", "ece"}
        assert np.isnan(class_scores(p * np.nan, made)["log_loss"])

    @pytest.mark.parametrize("sharpness", [0.5, 1.0, 3.0])
    def test_the_temperature_undoes_what_makes_a_model_too_sure(self, sharpness):
        made = answers(3, sharpness)
        at = best_temperature(made)
        assert at == pytest.approx(sharpness, rel=0.2)
        raw, better = (class_scores(p, made) for p in (made.mean[:, :, 0], tempered(made.mean[:, :, 0], at)))
        assert better["log_loss"] <= raw["log_loss"] + 1e-4
        assert better["ece"] <= raw["ece"] + 0.01


def test_a_model_is_calibrated_on_held_out_tasks():
    made = make_table(read(columns()), Roles("who", ("x",), "kind"))
    sure = lambda meta: meta | {"ridge": meta["ridge"] | {"scale": meta["ridge"]["scale"] * 30}}  # far too sure
    model, plain = untrained(made, "ridge", 5, sure, hidden=(4,))
    calibration = model.calibration
    assert set(calibration.temperatures) >= {1, 5, 10}
    assert min(calibration.temperatures.values()) > 3
    assert Calibration.from_dict(json.loads(json.dumps(calibration.to_dict()))) == calibration
    x, y = made.parts["test"].of(0)
    raw, told = (adapt(one, (x[:5], y[:5])).answer(x).mean for one in (plain, model))
    np.testing.assert_allclose(told, tempered(raw, calibration.temperatures[5]), rtol=1e-6)
    assert (raw.argmax(1) == told.argmax(1)).all()
    assert log_loss(y, told) < log_loss(y, raw)
    other = adapt(model, (x[:5], y[:5]), steps=2)  # not calibrated for
    np.testing.assert_array_equal(other.answer(x).mean, raw)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a classifier, trained for a moment."""
    folder = tmp_path_factory.mktemp("classes")
    pandas.DataFrame(columns()).to_csv(folder / "t.csv", index=False)
    return folder


@pytest.mark.xdist_group("classes")
class TestRuns:
    known, asked = columns(1, 6, seed=5), {"x": [-1.0, 0.2, 1.0]}

    @pytest.fixture(autouse=True)
    def trained(self, run, capsys):
        if not (run / "run").exists():
            words = ("--task", "who", "--x", "x", "--y", "kind", "--steps", 6, "--seeds", 2, "--hidden", 6,
                     "--validation-tasks", 4, "--json", "--run", run / "run")  # fmt: skip
            code, told, said = output(capsys, "train", "ridge", f"table:{run / 't.csv'}", *words)
            assert code == 0
            assert "Calibrating the probabilities on the validation tasks." in said
            assert {"log_loss", "auc", "ece"} <= set(json.loads(told)["rows"][0])
        # One that nobody could take for 1, so that it is seen wherever it is used.
        kept = {"floors": {}, "ratios": {}, "temperatures": {"1": 7.0, "6": 0.2}}
        assert json.loads((run / "run" / "calibration.json").read_text())["temperatures"]
        (run / "run" / "calibration.json").write_text(json.dumps(kept))

    def expected(self, run):
        model = dataclasses.replace(load(run / "run"), calibration=None)
        support, query = (
            read_frame(model.problem, read(rows), part)
            for rows, part in ((self.known, "support"), (self.asked, "query"))
        )
        return tempered(adapt(model, support).answer(query.x).mean, 0.2)

    def test_eval_and_report(self, run, capsys):
        _, told, _ = output(capsys, "eval", run / "run", "--no-baselines", "--shots", 5)
        assert "log loss" in told
        assert "AUC" in told
        assert "calibration error" in told
        page = (run / "run" / "report.html").read_text()
        assert "logarithmic loss" in page
        assert "expected calibration error" in page

    def test_adapt_uses_it(self, run, capsys):
        pandas.DataFrame(self.known).to_csv(run / "s.csv", index=False)
        pandas.DataFrame(self.asked).to_csv(run / "q.csv", index=False)
        words = ("adapt", run / "run", "--support", run / "s.csv", "--query", run / "q.csv", "--json")
        told = json.loads(output(capsys, *words)[1])
        made = np.stack([told["probability of no"], told["probability of yes"]], axis=1)
        np.testing.assert_allclose(made, self.expected(run), rtol=1e-5)

    def test_an_export_uses_it(self, run, tmp_path, capsys):
        assert output(capsys, "export", run / "run", "--out", tmp_path / "e", "--no-score")[0] == 0
        schema = load(run / "run").problem.details.schema
        rows = [schema.x(read(self.known)).tolist(), schema.y(read(self.known)).tolist()]
        about = json.loads((tmp_path / "e" / "description.json").read_text())
        (tmp_path / "e" / "description.json").write_text(json.dumps(about | {"schema": None}))
        made, _ = used(tmp_path / "e", rows, schema.x(read(self.asked)).tolist())
        np.testing.assert_allclose(made, self.expected(run), rtol=1e-4)
        self.check_private(run, [run / "run" / "report.html", *(tmp_path / "e").glob("*.[mj]*")])

    def check_private(self, run, paths):
        """A report, a card and a description tell neither where the table is nor what it holds."""
        source = json.loads((run / "run" / "config.json").read_text())["experiment"]["source"]
        assert {path.name for path in paths} == {"report.html", "README.md", "description.json"}
        for text in (path.read_text() for path in paths):
            assert "table:t.csv" in text
            for private in (str(run), source["digest"], "source", "schema="):
                assert private not in text
        assert "hidden=(6,), " in paths[0].read_text()  # what was set is told

    def test_the_service_uses_it_and_has_no_loss_before(self, run):
        columns = {"x": self.known["x"].tolist(), "kind": self.known["kind"].tolist()}
        with service([run / "run"]) as (url, _), Client(url, seconds=150) as client:
            left = client.adapt("run", columns=columns)
            told = client.predict("run", adapter=left["adapter"], query={"columns": self.asked | {"x": [-1, 0.2, 90]}})
        np.testing.assert_allclose(told["probabilities"][:2], self.expected(run)[:2], rtol=1e-4)
        assert "loss_before" not in left
        assert "loss_before" not in told  # it is solved for: there is no before
        assert left["loss_after"] == told["loss_after"] > 0
        assert left["warnings"] is None
        assert "Row 3 of the query holds 90 in the column 'x', outside" in told["warnings"][0]


@pytest.mark.slow
def test_an_estimator_uses_it():
    table = pandas.DataFrame(columns())
    model = FewShotClassifier("ridge", steps=20, seeds=1, hidden=(6,), shots=5, random_state=0)
    model.fit(table[["x"]], table["kind"], tasks=table["who"])
    assert model.model_.calibration.temperatures
    assert len(model.held_out_tasks_) == 2
    adapted = model.adapt(table[["x"]][:6], table["kind"][:6])
    x = model.model_.problem.details.schema.x(read(table[["x"]]))
    raw = adapt(dataclasses.replace(model.model_, calibration=None), adapted._rows).answer(x).mean
    at = model.model_.calibration.temperatures[5]
    np.testing.assert_allclose(adapted.predict_proba(table[["x"]]), tempered(raw, at), rtol=1e-6)
    with pytest.raises(FewstepError, match="y holds None at row 1, which is not a class"):
        model.adapt(table[["x"]][:2], ["yes", None])
