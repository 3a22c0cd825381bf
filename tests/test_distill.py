"""Distillation: a student of a run on a table, what it loses, its export, and what cannot be distilled."""

import csv
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import output

import fewstep
from fewstep import FewstepError
from fewstep._episode import Batch, Episode, Tasks
from fewstep.experiments import build
from fewstep.models import Model, adapt, distill, judge_errors
from fewstep.models._distill import Bank, bank_tasks, make_bank, student_of
from fewstep.models._distilled import Distilled
from fewstep.problems import Value
from fewstep.runs import create_run, load, train_run

SHOTS = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A ridge regression of lines, each with a slope and a height of its own, on features that are not trained."""
    folder = tmp_path_factory.mktemp("distill")
    random = np.random.default_rng(0)
    with (folder / "lines.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["line", "x", "y"])
        for number in range(30):
            slope, height = random.normal(size=2)
            writer.writerows([f"line {number}", x, 20 * (slope * x + height)] for x in random.uniform(-1, 1, 8))
    options: dict[str, Value] = {"task": "line", "x": ("x",), "y": ("y",), "shots": SHOTS, "min_shots": 2, "seeds": 1}
    tasks = f"table:{folder / 'lines.csv'}"
    experiment = fewstep.Experiment("ridge", tasks, hidden=(8,), steps=0, **options)
    made = create_run(folder / "run", experiment)
    train_run(made)
    return made.path


@pytest.fixture(scope="module")
def teacher(run):
    return load(run)


@pytest.mark.xdist_group("distill")
class TestStudent:
    def test_answers_as_its_teacher_and_is_exported(self, run, teacher, tmp_path, capsys, monkeypatch):
        words = ("--distill", "ridge", "--steps", 150, "--no-score", "--out", tmp_path / "e", "--json")
        code, result, remarks = output(capsys, "export", run, *words)
        assert code == 0
        known = json.loads(result)["distilled"]
        assert known["sentence"] in remarks
        assert "s to answer" in remarks
        # Close to the teacher, and far better than a model that answers with the mean of all lines.
        assert known["error"] == pytest.approx(known["teacher_error"], rel=0.5)
        rows = teacher.problem.held_out("test")
        assert known["error"] < 0.7 * teacher.problem.scale * rows.y.std()
        assert known["low"] <= known["loss"] <= known["high"]
        assert known["loss"] == pytest.approx(known["error"] / known["teacher_error"] - 1, abs=1e-6)
        assert (known["method"], known["teacher"], known["shots"]) == ("ridge", "ridge", SHOTS)
        assert known["tasks"] == len(rows.names)
        assert known["parameters"] > 0 < known["bank_seconds"]
        assert json.loads((tmp_path / "e" / "description.json").read_text())["distilled"] == known
        assert known["sentence"] in (tmp_path / "e" / "README.md").read_text()
        monkeypatch.syspath_prepend(tmp_path / "e")
        import load as loader  # the one in the folder

        asked = [{"x": x} for x in (-0.5, 0.0, 0.5)]
        support = [{"x": x, "y": 20 * x} for x in (-1, -0.4, 0.4, 1)]
        answers = [row["prediction"] for row in loader.Model(str(tmp_path / "e")).answers(support, asked)]
        assert np.corrcoef(answers, [-10, 0, 10])[0, 1] > 0.9

    def test_has_the_table_of_its_teacher_and_one_seed(self, teacher):
        own, student = teacher.experiment, student_of(teacher, "np", steps=7, seed=3)
        for name in ("classes", "schema", "shots", "min_shots", "tasks", "split_seed"):
            assert getattr(student, name) == getattr(own, name)
        assert (student.steps, student.seeds, student.seed) == (7, 1, 3)


class TestBank:
    def test_holds_what_the_teacher_answers(self, teacher):
        bank = make_bank(teacher, 20)
        assert bank.mean.shape == (20, teacher.experiment.queries, 1)
        number = jnp.asarray(17)
        episode = jax.jit(bank.tasks.sample)(bank.tasks.data, jax.random.fold_in(bank.key, number))
        used = np.asarray(episode.support.weight) > 0
        answer = adapt(teacher, (np.asarray(episode.support.x)[used], np.asarray(episode.support.y)[used]))
        np.testing.assert_allclose(bank.mean[17], answer.answer(np.asarray(episode.query.x)).mean, atol=1e-4)

    def test_classes_are_drawn_from_the_probabilities(self):
        shares = np.asarray([[[0.7, 0.3, 0.0], [0.0, 0.0, 1.0], [np.nan, 0.5, 0.5]]], np.float32)
        rows = Batch(jnp.zeros((3, 1)), jnp.zeros(3, jnp.int32), jnp.ones(3))
        tasks = bank_tasks(
            Bank(Tasks((), lambda data, key: Episode(rows, rows)), jax.random.key(0), shares), classes=True
        )
        keys = jax.random.split(jax.random.key(1), 1000)
        query = jax.vmap(lambda key: tasks.sample(tasks.data, key))(keys).query
        first, second, third = np.asarray(query.y).T
        assert np.mean(first == 0) == pytest.approx(0.7, abs=0.05)
        assert set(first) == {0, 1}
        assert set(second) == {2}
        assert set(third) == {0}
        np.testing.assert_array_equal(np.asarray(query.weight), np.tile([1.0, 1.0, 0.0], (1000, 1)))


class TestReport:
    def test_says_what_is_lost(self):
        other = np.random.default_rng(0).lognormal(2.5, 0.7, 12)
        verdict = judge_errors(other * 1.1**2, other, shots=5)
        report = Distilled(
            "np", "auto", 5, verdict.metric, verdict.error, verdict.pooled, -verdict.improvement, -verdict.high,
            -verdict.low, 12, 1000, 20_000,
        )  # fmt: skip
        assert "np instead of auto, after learning from 5 rows of 12 test tasks: error" in report.sentence
        assert "+10.0% (95% interval" in report.sentence
        assert "1,000 parameters instead of 20,000" in report.sentence


class TestRefusals:
    @pytest.mark.parametrize("method", ["auto", "pooled", "gaussian"])
    def test_methods_that_are_not_trained_on_answers(self, teacher, method):
        with pytest.raises(FewstepError, match=f"{method} is not trained to give answers"):
            student_of(teacher, method)

    def test_sizes(self, teacher):
        with pytest.raises(FewstepError, match="`steps` is 0"):
            student_of(teacher, "ridge", steps=0)
        with pytest.raises(FewstepError, match="`episodes` is 0"):
            distill(teacher, episodes=0)

    def test_tasks_that_are_drawn_anew(self):
        model = Model(build(fewstep.Experiment("ridge", "sinusoid")), {}, 0)
        with pytest.raises(FewstepError, match="`distill` needs a run on a table, and sinusoid is not one"):
            distill(model)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("RUN", "--steps", 3), "Give --distill too"),
            (("RUN", "--distill", "np", "ridge"), "--distill is np ridge. Give one method"),
            (("RUN", "--distill", "nonsense"), "nonsense"),
        ],
    )
    def test_commands(self, run, words, message, capsys):
        code, _, remarks = output(capsys, "export", *[run if word == "RUN" else word for word in words])
        assert code == 2
        assert message in remarks
        assert "Traceback" not in remarks
