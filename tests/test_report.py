"""The report for practitioners: the verdict first, and what it stands on; in a browser too."""

import json
from functools import partial

import browsing
import numpy as np
import pandas
import pytest
from helpers import output, untrained

from fewstep.cli import main
from fewstep.models import Verdict, evaluate_held_out, pooled_of, verdicts_of
from fewstep.pages import page
from fewstep.problems import Answer, Answers, Plan, compare, reliability
from fewstep.problems._pooled import answer_pooled
from fewstep.problems._table_probes import probe
from fewstep.reports import gather, write_report
from fewstep.runs import load
from fewstep.tables import Draw, Roles, make_table, read

chromium = browsing.chromium
PARTS = ("error-by-rows", "error-by-task", "importance", "tasks", "training")
WORDS = ("--task", "who", "--x", "age", "sex", "--shots", 4, "--steps", 6, "--seeds", 1, "--hidden", 6,
         "--validation-tasks", 4, "--log-every", 3, "--validate-every", 3)  # fmt: skip


def columns(tasks=14, rows=16, seed=0):
    """Lines of a random height for each task, a category that is the same in a task, and classes by their height."""
    random = np.random.default_rng(seed)
    who = np.repeat([f"t{n:02d}" for n in range(tasks)], rows)
    age, height = random.uniform(0, 10, tasks * rows), np.repeat(random.normal(0, 8, tasks), rows)
    size = height + age + random.normal(0, 0.3, tasks * rows)
    sex = np.repeat([("girl", "boy")[n % 2] for n in range(tasks)], rows)
    return {"who": who, "age": age, "sex": sex, "size": size, "kind": np.where(size > 5, "tall", "small")}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a table and, when they are asked for, runs on it; the pooled model is trained for a moment."""
    folder = tmp_path_factory.mktemp("report")
    pandas.DataFrame(columns()).to_csv(folder / "t.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 60)
        patch.setattr("fewstep.problems.tables.compare", partial(compare, names=("pooled", "pooled trees")))
        yield folder


@pytest.fixture(params=["size", pytest.param("kind", marks=pytest.mark.slow)])
def run(request, home, capsys):
    """A run on numbers and one on classes, each with what the command printed as JSON."""
    path = home / request.param
    if not path.exists():
        words = ("train", "ridge", f"table:{home / 't.csv'}", *WORDS, "--y", request.param, "--run", path, "--json")
        code, printed, _ = output(capsys, *words)
        assert code == 0
        (home / f"{request.param}.json").write_text(printed)
    return path


@pytest.mark.xdist_group("report")
class TestRuns:
    def test_the_verdict_first_and_every_part_in_order(self, run):
        verdict = json.loads(run.with_suffix(".json").read_text())["verdict"]
        text, classes = (run / "report.html").read_text(), run.name == "kind"
        sure = ["reliability"] if classes else ["coverage", "coverage-along"]
        assert verdict["sentence"].startswith(f"Learning from 4 rows: {'log loss' if classes else 'error'} ")
        order = [text.index(verdict["sentence"]), text.index("Score on unseen tasks")]
        order += [text.index(f'id="{part}"') for part in (*PARTS[:2], *sure, *PARTS[2:])]
        assert order == sorted(order) == [*order[:-1], text.index('id="training"')]
        assert text.index("Settings") > order[-1]
        assert ("area under the ROC curve" in text) == classes
        assert "singular values" not in text
        assert "Constant within every task" in text
        assert "http" not in text.replace("http://www.w3.org", "")

    def test_eval_prints_it_and_keeps_it_in_json(self, run, capsys):
        code, printed, _ = output(capsys, "eval", run, "--shots", 2, 4)
        assert code == 0
        assert [line[:22] for line in printed.splitlines() if "pooled model" in line] == [
            "Learning from 2 rows: ", "Learning from 4 rows: "]  # fmt: skip
        result = json.loads(output(capsys, "eval", run, "--shots", 2, 4, "--json")[1])
        assert [each["shots"] for each in result["verdicts"]] == [2, 4]
        assert result["verdict"] == result["verdicts"][1]
        assert result["verdict"]["decision"] in ("use", "pooled", "undecided")
        if run.name == "size":
            row = next(row for row in result["rows"] if row["shots"] == 4)
            baselines = [row for name in ("pooled", "pooled trees") for row in result["baselines"][name]]
            pooled = [row["mean"] for row in baselines if row["shots"] == 4]
            assert result["verdict"]["error"] == pytest.approx(row["mean"], rel=1e-4)
            assert any(result["verdict"]["pooled"] == pytest.approx(mean, rel=1e-4) for mean in pooled)
        assert "verdict" not in json.loads(output(capsys, "eval", run, "--no-baselines", "--json")[1])

    @pytest.mark.skipif(browsing.CHROMIUM is None, reason="chromium is not installed")
    @pytest.mark.parametrize("run", ["kind", pytest.param("size", marks=pytest.mark.slow)], indirect=True)
    def test_in_a_browser(self, run, chromium):
        for width in (390, 1440):
            opened = chromium.new_page(viewport={"width": width, "height": 900})
            opened.goto((run / "report.html").as_uri())
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            boxes = [drawing.bounding_box() for drawing in opened.locator("figure svg").all()]
            assert len(boxes) >= 8
            assert all(box["width"] >= 280 and box["x"] + box["width"] <= width for box in boxes)
            assert browsing.faults(opened) == []
            opened.close()

    def test_what_does_not_learn_is_no_better_than_the_pooled_model(self, home, monkeypatch):
        """Boosted trees, where they beat the network, are not said to have learned from a task's rows."""
        monkeypatch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 1)
        monkeypatch.setattr("fewstep.problems._baselines._kept", {})
        words = ("--y", "size", "--run", home / "trees", "--no-report")
        assert main([str(word) for word in ("train", "pooled", f"table:{home / 't.csv'}", *WORDS[:7], *words)]) == 0
        model = load(home / "trees")
        plan = Plan((4,))
        (verdict,) = verdicts_of(model, evaluate_held_out(model, plan, steps=(0,)), pooled_of(model)(plan))
        assert verdict.decision == "pooled"
        assert verdict.improvement == pytest.approx(0.0, abs=1e-4)

    @pytest.mark.slow
    def test_others_may_bring_the_pooled_model_and_curves(self, home, capsys):
        if not (path := home / "size").exists():
            pytest.skip("made by the tests above")
        model = load(path)
        known, asked = model.kind.pooled, []

        def pooled(plan):
            asked.append(plan.shots)
            answers = known(model.problem, plan)
            return {n: some._replace(mean=some.mean + 100.0) for n, some in answers.items()}

        found = gather(model, (0,), pooled=pooled, curves={"member": [(1, 9.0), (5, 3.0)]})
        assert isinstance(found.verdict, Verdict)
        assert found.verdict.decision == "use"
        assert found.verdict.improvement > 0.9
        assert list(found.curves) == ["ridge", "pooled model", "member"]
        assert asked == [(4,), (1, 2, 3, 4, 5, 10)]
        text = write_report(home / "more.html", {"ridge": model}, {"ridge": found.rows}, found).read_text()
        assert text.index(found.verdict.sentence) < text.index("Score on unseen tasks")


def test_the_pooled_model_answers_on_the_tasks_that_the_run_is_evaluated_on(monkeypatch):
    """A test task with too few rows for the most that are learned from is left out of both."""
    monkeypatch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 2)
    some = {name: np.delete(cells, slice(5 * 16 + 6, 6 * 16)) for name, cells in columns().items()}  # t05 keeps 6 rows
    table = make_table(read(some), Roles("who", ("age",), "size"), draw=Draw(test=("t05", "t06")))
    assert [len(answers.mean) for answers in answer_pooled(table, (3, 4)).values()] == [2, 2]
    assert [len(answers.mean) for answers in answer_pooled(table, (3, 8)).values()] == [1, 1]


class TestReliance:
    table = make_table(read({**columns(), "noise": np.random.default_rng(1).normal(size=14 * 16)}),
                       Roles("who", ("age", "sex", "noise"), "size"))  # fmt: skip

    def probed(self, half=0.5):
        """Of a model that adds the age to the mean of its support, with intervals of one width."""
        schema, rows = self.table.schema, self.table.parts["test"]
        slope = schema.features[0].scale / schema.target.scale

        def answer(support, x):
            mean = support[1].mean() + slope * (x[:, :1] - support[0][:, 0].mean())
            return Answer(mean, mean - half, mean + half, 0 * mean, calibrated=True)

        return probe(answer, schema, rows, [np.arange(5) for _ in rows.names])

    def test_a_column_that_counts_one_that_does_not_and_one_that_cannot(self):
        found = self.probed().reliance
        assert found.ranked[0] == "age"
        assert (found.by_column["age"] > 2).all()  # of a standard deviation of 2.9
        np.testing.assert_allclose(found.by_column["noise"], 0, atol=1e-9)
        assert found.constant == ("sex",)
        assert len(found.by_column["age"]) == len(self.table.parts["test"].names)

    def test_where_intervals_hold(self):
        wide, narrow = self.probed(10.0).shares, self.probed(0.0).shares
        assert {share.inside for share in wide["age"]} == {1.0}
        assert {share.inside for share in narrow["age"]} == {0.0}
        assert [share.label for share in wide["sex"]] == ["boy", "girl"]
        assert sum(share.rows for share in wide["age"]) == sum(share.rows for share in wide["sex"])
        ages = [share.at for share in wide["age"]]
        assert ages == sorted(ages)
        assert 0 < ages[0] < ages[-1] < 10


def test_reliability_by_hand():
    p = np.asarray([[0.95, 0.05], [0.91, 0.09], [0.4, 0.6], [0.36, 0.64]])[None, None]
    made = Answers(p, p, p, np.asarray([[[0.0, 1.0, 1.0, 1.0]]]), np.ones((1, 1, 4)))
    low, high = reliability(p, made)
    assert (low.confidence, low.accuracy, low.share) == pytest.approx((0.62, 1.0, 0.5))
    assert (high.confidence, high.accuracy, high.share) == pytest.approx((0.93, 0.5, 0.5))


def test_spectra_are_of_inspect(tmp_path, capsys):
    words = ("train", "mtnet", "sinusoid", "--steps", 1, "--hidden", 4, "--seeds", 1, "--no-report")
    assert output(capsys, *words, "--run", tmp_path / "x")[0] == 0
    code, _, said = output(capsys, "inspect", tmp_path / "x")
    assert code == 0
    assert "inspect.html" in said
    inside = (tmp_path / "x" / "inspect.html").read_text()
    assert inside.count("<svg") == 2
    assert "singular values of T" in inside
    assert inside.startswith(page("fewstep inspect", [])[:40])


def test_a_model_without_intervals_has_a_report_without_coverage(tmp_path):
    table = make_table(read(columns()), Roles("who", ("age", "sex"), "size"))
    _, plain = untrained(table, "ridge", 4, hidden=(4,))
    found = gather(plain, (0,), pooled=lambda plan: {})
    assert found.verdict is None
    text = write_report(tmp_path / "r.html", {"ridge": plain}, {"ridge": found.rows}, found).read_text()
    assert 'id="error-by-task"' in text
    assert 'id="coverage' not in text
