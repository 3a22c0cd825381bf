"""Tables: reading, kinds of columns, splits, sampling, solvers, intervals; and the three commands on a made table."""

import json
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from helpers import DATA, LEARNERS, output, slope, untrained, used

import fewstep
from fewstep import FewstepError, learners, losses, networks
from fewstep.models import Calibration, adapt, calibrate, coverage
from fewstep.problems import BASELINES, Answers, answer_tasks, compare, read_frame, score_answers
from fewstep.tables import Roles, Schema, draw_episode, make_table, read, read_cells, row_arrays, table_tasks
from fewstep.tables import _frame as frames


def columns(tasks=8, rows=12, seed=0):
    """Lines of a random height for each task; a category that shifts them; unequal sizes."""
    random = np.random.default_rng(seed)
    made = {"who": [], "age": [], "sex": [], "size": []}
    for task in range(tasks):
        height, sex = random.normal(), ("girl", "boy")[task % 2]
        for _ in range(rows + task % 3):
            age = random.uniform(0, 10)
            made["who"].append(f"t{task}")
            made["age"].append(age)
            made["sex"].append(sex)
            made["size"].append(100 + 10 * height + 3 * age + (5 if sex == "boy" else 0))
    return {name: np.asarray(column) for name, column in made.items()}


ROLES = Roles("who", ("age", "sex"), "size")


def csv_of(path, made):
    pandas.DataFrame(made).to_csv(path, index=False)
    return path


class TestReading:
    def test_what_is_declared_a_category_is_one(self, tmp_path):
        made = columns() | {"grade": np.arange(len(columns()["who"])) % 3}
        roles = ROLES._replace(x=("age", "grade"))
        kinds = lambda frame, roles: [column.kind for column in make_table(frame, roles).schema.features]
        frame = pandas.DataFrame(made)
        assert kinds(read(frame), roles) == ["number", "number"]
        assert kinds(read(frame), roles._replace(categories=("grade",))) == ["number", "category"]
        typed = frame.assign(grade=frame.grade.astype("category"))
        typed.to_parquet(tmp_path / "t.PARQUET")
        assert kinds(read(typed), roles) == kinds(read(tmp_path / "t.PARQUET"), roles) == ["number", "category"]
        with pytest.raises(FewstepError, match="'sex', which is not in `x`"):
            make_table(read(frame), roles._replace(categories=("sex",)))

    def test_a_row_is_told_as_it_stands_in_the_whole_table(self):
        made = columns()
        last = len(made["age"]) - 1
        made["age"][last] = np.nan
        for named in (made, pandas.DataFrame(made)):
            with pytest.raises(FewstepError, match=f"Row {last + 1} of the table .* 1 of {last + 1} rows lack it"):
                make_table(read(named), ROLES)

    def test_a_column_without_a_name_is_passed_over(self, tmp_path):
        pandas.DataFrame({"a": [1.0, 2.0]}).to_csv(tmp_path / "t.csv")  # with its index
        assert list(read(tmp_path / "t.csv").columns) == ["a"]

    def test_times_are_told_in_utc_and_lengths_of_time_in_days(self):
        told = np.asarray(["2024-01-01T12:00:00Z", "2024-01-01T12:00:00+02:00", "2024-01-01 12:00"], object)
        days = read_cells(read({"t": told}), "t").values
        assert np.allclose(days - days[0], [0, -2 / 24, 0])
        spans = read_cells(read({"t": np.asarray([36, 48], "timedelta64[h]")}), "t")
        assert (spans.kind, spans.values.tolist()) == ("number", [1.5, 2.0])

    def test_a_value_beyond_all_scales_is_refused(self):
        made = columns()
        made["age"][::2] = 1e308
        made["age"][1::2] = -1e308
        with pytest.raises(FewstepError, match=r"holds -?1e\+308, too large to be scaled"):
            make_table(read(made), ROLES)

    def test_a_class_of_a_held_out_task_alone_is_a_class(self):
        made = columns()
        split = make_table(read(made), ROLES).split
        made["kind"] = np.where(made["age"] > 5, "old", "young").astype(object)
        made["kind"][np.flatnonzero(made["who"] == split["test"][0])[0]] = "rare"
        assert make_table(read(made), Roles("who", ("age",), "kind")).schema.classes == ("old", "rare", "young")

    def test_all_kinds_of_tables_are_the_same(self, tmp_path):
        made = columns()
        csv_of(tmp_path / "t.csv", made)
        pandas.DataFrame(made).to_parquet(tmp_path / "t.parquet")
        sources = [tmp_path / "t.csv", str(tmp_path / "t.parquet"), pandas.DataFrame(made), made]
        tables = [make_table(read(source), ROLES) for source in sources]
        for other in tables[1:]:
            np.testing.assert_allclose(other.parts["train"].x, tables[0].parts["train"].x, rtol=1e-6)
            assert other.split == tables[0].split

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a,b,a\n1,2,3\n", "'a' 2 times"),
            ("a,b\n1,2\n3\n", "Line 3 of .* has 1 cells, the first line 2"),
            ("a,b\n", "has no rows"),
            ("", "must name every column"),
            (",\n1,2\n", "must name every column"),
        ],
    )
    def test_damaged_files(self, text, said, tmp_path):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(FewstepError, match=said):
            read(tmp_path / "t.csv")

    def test_a_column_that_is_not_there(self, tmp_path):
        with pytest.raises(FewstepError, match=r"Did you mean 'age'\? Known: age, sex, size, who"):
            read(csv_of(tmp_path / "t.csv", columns()), ["agee"])

    def test_a_file_that_is_too_large(self, tmp_path):
        with (tmp_path / "t.csv").open("wb") as file:
            file.truncate(2 << 30)  # two gigabytes that take no room
        with pytest.raises(FewstepError, match=r"has 2.0 GB, and a CSV file is read up to 1 GB.*Parquet"):
            read(tmp_path / "t.csv")

    def test_what_is_not_text_or_not_there(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00a")
        for path, said in ((tmp_path / "t.csv", "not text in UTF-8"), (tmp_path / "no.csv", "No such file")):
            with pytest.raises(FewstepError, match=said):
                read(path)

    def test_empty_cells_of_any_kind_of_frame_are_seen(self, tmp_path):
        frame = pandas.DataFrame({"kind": pandas.Categorical(["b", None, "a"]), "size": [1, None, 3]})
        frame.to_parquet(tmp_path / "t.parquet")
        stored = read_cells(read(tmp_path / "t.parquet"), "kind").values.tolist()
        assert stored == read_cells(read(frame), "kind").values.tolist() == ["b", None, "a"]
        text = pandas.DataFrame({"kind": pandas.array(["b", None, "a"], dtype="string")})
        assert read_cells(read(text), "kind").values.tolist() == ["b", None, "a"]
        whole = pandas.DataFrame({"size": pandas.array([1, None, 3], dtype="Int64")})
        np.testing.assert_array_equal(read_cells(read(whole), "size").values, [1, np.nan, 3])


class TestColumns:
    def test_a_column_stays_of_the_kind_that_training_had(self):
        days = read({"when": np.asarray(["2024-05-31", "2024-06-01"], "datetime64[ns]"), "size": [1.0, 2.0]})
        with pytest.raises(FewstepError, match=r"holds 2024-05-31.* in the column 'when', a date where"):
            read_cells(days, "when", "number")
        with pytest.raises(FewstepError, match=r"holds 1.0 in the column 'size', a number where training had dates"):
            read_cells(days, "size", "date")
        compact = read({"when": np.asarray(["20240531", "2024-06-01"], object)})
        np.testing.assert_array_equal(
            read_cells(compact, "when", "date").values, read_cells(days, "when", "date").values
        )

    def test_what_only_rounding_spreads_is_constant(self):
        made = columns() | {"age": np.full(103, 0.1)}
        assert make_table(read(made), ROLES).schema.features[0].scale == 1.0

    def test_numbers_dates_and_categories(self):
        made = columns() | {"day": np.asarray(["2024-01-01"] * 50 + ["2024-01-03 12:00"] * 53, object)}
        schema = make_table(read(made), ROLES._replace(x=("age", "sex", "day"))).schema
        assert [column.kind for column in schema.features] == ["number", "category", "date"]
        assert schema.features[1].categories == ("boy", "girl")
        x = schema.x(read({"age": [0.0, 1.0], "sex": ["girl", "boy"], "day": ["2024-01-01", "2024-01-02"]}))
        assert x.shape == (2, 4)
        assert (x[1, 3] - x[0, 3]) * schema.features[2].scale == pytest.approx(1.0, rel=1e-4)  # a day
        assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema

    def test_the_scale_is_that_of_the_training_tasks_alone(self):
        made = columns()
        plain = make_table(read(made), ROLES)
        held = np.isin(made["who"], plain.split["test"])
        other = make_table(read(made | {"size": np.where(held, made["size"] + 1000, made["size"])}), ROLES)
        assert other.schema.target == plain.schema.target
        assert not set(plain.split["train"]) & set(plain.split["test"])
        np.testing.assert_allclose(
            plain.schema.target.decode(plain.parts["test"].y[:, 0]).sum(), made["size"][held].sum(), rtol=1e-5
        )

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"age": ["x", *["1"] * 102]}, r"Row 1 of the table holds 'x' in the column 'age', which is not a number"),
            ({"size": [1.0] * 103}, "'size' is 1.0 in every training task: there is nothing to learn"),
            ({"size": ["2024-01-01"] * 103}, "'size' holds dates"),
            ({"who": ["a"] * 103}, "has 1 tasks .* at least 4"),
            ({"who": ["", *["a"] * 102]}, "names the task"),
            ({"age": [None, *[1.0] * 102]}, "has nothing in the column 'age'; 1 of .*missing='mean'"),
            ({"size": [np.nan, *range(102)]}, "has nothing in the target 'size'"),
            ({"sex": [f"name {n}" for n in range(103)], "who": [f"t{n % 8}" for n in range(103)]}, None),
        ],
    )
    def test_what_cannot_be_learned_from_is_said(self, change, said):
        made = columns() | {name: np.asarray(column, object) for name, column in change.items()}
        if said is None:  # a hundred categories are many, but can be told apart
            assert make_table(read(made), ROLES).schema.widths[0] > 50
            return
        with pytest.raises(FewstepError, match=said):
            make_table(read(made), ROLES)

    def test_an_identifier_is_no_feature(self):
        made = {"who": [f"t{n % 9}" for n in range(900)], "x": [f"id {n}" for n in range(900)], "y": range(900)}
        with pytest.raises(FewstepError, match="different texts, as an identifier has"):
            make_table(read(made), Roles("who", ("x",), "y"))

    def test_missing_cells_may_be_filled(self):
        made = columns()
        made["age"][0], made["size"][1] = np.nan, np.nan
        filled = make_table(read(made), ROLES._replace(missing="mean"))
        assert sum(len(rows.x) for rows in filled.parts.values()) == len(made["age"]) - 1
        assert "1 of 103 rows of the table have no size and are left out." in filled.note

    def test_a_category_that_training_never_saw(self):
        schema = make_table(read(columns()), ROLES).schema
        frame = read({"age": [1.0], "sex": ["girls"]})
        with pytest.raises(FewstepError, match=r"holds 'girls' in the column 'sex'.*Known: boy, girl"):
            schema.x(frame)
        assert (schema.x(frame, strict=False)[:, 1:] == 0).all()

    def test_an_outlier_does_not_rule(self):
        schema = make_table(read(columns()), ROLES).schema
        assert schema.x(read({"age": [1e9], "sex": ["boy"]})).max() == 5.0

    @pytest.mark.parametrize(
        ("roles", "said"),
        [
            (ROLES._replace(x=()), "No columns are given"),
            (ROLES._replace(x=("age", "age")), "named twice"),
            (ROLES._replace(x=("age", "size")), "'size' has two roles"),
            (ROLES._replace(y="who"), "'who' has two roles"),
        ],
    )
    def test_roles(self, roles, said):
        with pytest.raises(FewstepError, match=said):
            make_table(read(columns()), roles)


class TestSampling:
    rows = make_table(read(columns()), ROLES).parts["train"]

    def test_support_and_query_share_no_row_and_no_task(self):
        tasks = table_tasks(self.rows, 4, 30)
        data = jax.tree.map(jnp.asarray, tasks.data)
        for seed in range(5):
            support, query = jax.jit(tasks.sample)(data, jax.random.key(seed))
            assert support.weight.sum() == 4
            taken = np.concatenate([np.asarray(p.y)[np.asarray(p.weight) > 0, 0] for p in (support, query)])
            assert len(set(taken.tolist())) == len(taken)
            whole = [set(self.rows.of(n)[1][:, 0].tolist()) for n in range(len(self.rows.names))]
            assert set(taken.tolist()) in whole  # all rows of one task, since more were asked for than it has

    def test_fewer_rows_may_count(self):
        tasks = table_tasks(self.rows, 6, 3, min_shots=2)
        data = jax.tree.map(jnp.asarray, tasks.data)
        draw = jax.jit(tasks.sample)
        sizes = {int(draw(data, jax.random.key(seed)).support.weight.sum()) for seed in range(60)}
        assert sizes == {2, 3, 4, 5, 6}

    def test_every_task_comes_as_often(self):
        tasks = table_tasks(self.rows, 1, 1)
        data = jax.tree.map(jnp.asarray, tasks.data)
        drawn = jax.jit(jax.vmap(tasks.sample, (None, 0)))(data, jax.random.split(jax.random.key(0), 3000))
        heights = [set(self.rows.of(n)[1][:, 0].tolist()) for n in range(len(self.rows.names))]
        counts = [sum(float(y) in of for y in np.asarray(drawn.support.y).ravel()) for of in heights]
        assert max(counts) - min(counts) < 0.15 * 3000

    def test_too_few_rows(self):
        with pytest.raises(FewstepError, match="A task takes 40 rows to learn from and one to be evaluated on; 't"):
            table_tasks(self.rows, 40)


class TestSolvers:
    """Learners in closed form against what they must be."""

    x, y = np.linspace(-1, 1, 6)[:, None], np.sin(np.linspace(-2, 2, 6))[:, None]

    def padded(self):
        fill = lambda a: jnp.asarray(np.concatenate([a, 9 * np.ones((2, a.shape[1]))]))
        return fewstep.Batch(fill(self.x), fill(self.y), jnp.asarray([1.0] * 6 + [0.0] * 2))

    @pytest.mark.parametrize("name", learners.SOLVERS)
    def test_the_gradient_is_that_of_finite_differences(self, name):
        with jax.enable_x64(True):
            learner = LEARNERS[name].make()
            meta = jax.tree.map(lambda leaf: jnp.asarray(leaf, float) + 0.1, learner.init(jax.random.key(0)))
            some = fewstep.Episode(self.padded(), self.padded())
            loss = jax.jit(lambda m: learner.loss(m, jax.random.key(0), some))
            way = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape), meta)
            gradient = jax.grad(loss)(meta)
            told = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(way), strict=True))
            np.testing.assert_allclose(told, slope(loss, meta, way), rtol=1e-5)

    def test_ridge_is_the_formula(self):
        with jax.enable_x64(True):
            net = learners.nothing_but_x(1)
            learner = learners.ridge(net, 1)
            start = jnp.asarray([[0.3], [0.2]])
            meta = {"weights": {}, "ridge": {"weights": start, "log_penalty": jnp.log(0.5)}}
            found = learner.adapt(meta, jax.random.key(0), fewstep.batch(self.x, self.y), 0).fast["weights"]
            f = np.concatenate([self.x, np.ones((6, 1))], axis=1)
            by_hand = start + np.linalg.solve(f.T @ f + 0.5 * np.eye(2), f.T @ (self.y - f @ start))
            np.testing.assert_allclose(found, by_hand, rtol=1e-10)

    def test_mixed_effects_are_a_gaussian_process_with_a_linear_kernel(self):
        with jax.enable_x64(True):
            learner = learners.mixed(1)
            meta = learner.init(jax.random.key(0))
            made = learner.predict(
                meta, learner.adapt(meta, jax.random.key(0), fewstep.batch(self.x, self.y), 0), self.x
            )
            z = np.concatenate([np.ones((6, 1)), self.x], axis=1)
            root = np.tril(meta["kernel"]["root"])
            k = z @ root @ root.T @ z.T
            mean = self.x @ np.asarray(meta["weights"]["dense_0"]["kernel"])
            noise = (np.exp(-2.0) + 1e-4) * np.eye(6)
            np.testing.assert_allclose(made, mean + k @ np.linalg.solve(k + noise, self.y - mean), rtol=1e-8)


class TestJudging:
    rows = make_table(read(columns()), ROLES).parts["test"]

    def test_an_error_and_its_interval(self):
        y = np.zeros((4, 1, 3, 1))
        mean = np.asarray([1.0, 1.0, 3.0, 3.0])[:, None, None, None, None] * np.ones((4, 1, 1, 3, 1))
        answers = Answers(mean, mean, mean[None], y, np.ones((4, 1, 3)))
        (found,) = score_answers(mean, answers, scale=2.0)
        assert found.mean == pytest.approx(2 * 5**0.5)
        deviation = 16 * (4 / 3) ** 0.5  # of four tasks, of which Student's t has three degrees of freedom
        assert found.interval95 == pytest.approx(3.18245 * deviation / 2 / (2 * found.mean), rel=1e-5)
        assert np.isnan(score_answers(mean[:1], answers.of_tasks(np.arange(1)))[0].interval95)

    def test_all_learners_get_the_same_rows(self):
        first, second = learners.mixed(3), learners.gaussian(networks.mlp(3, 1, hidden=(2,)), 3)
        size = {"shots": 3, "steps": (0,), "draws": 2}
        one, two = (answer_tasks(of, [of.init(jax.random.key(0))], self.rows, **size) for of in (first, second))
        np.testing.assert_array_equal(one.y, two.y)
        data = jax.tree.map(jnp.asarray, row_arrays(self.rows))
        query = draw_episode(data, jax.random.key(0), jnp.asarray(0), 3, 20).query
        assert query.weight.sum() == self.rows.counts[0] - 3

    def test_a_calibration_holds_on_what_it_was_made_from(self):
        random = np.random.default_rng(0)
        spread = np.abs(random.normal(size=(30, 2, 1, 20, 1)))
        y = random.normal(size=(30, 2, 20, 1)) * (0.5 + spread[:, :, 0])
        answers = Answers(np.zeros_like(spread), spread, spread[None], y, np.ones((30, 2, 20)))
        made = calibrate({5: answers})
        for level in (0.5, 0.8, 0.9, 0.95):
            assert level - 0.01 < coverage(made, answers, 5, level) < level + 0.03  # a new task may be harder
        assert Calibration.from_dict(json.loads(json.dumps(made.to_dict()))) == made
        with pytest.raises(FewstepError, match=r"calibrated at 0\.5, 0\.8, 0\.9, 0\.95"):
            made.half(spread, 0.0, 5, 0.7)

    @pytest.mark.parametrize(
        "names", [("pooled", "pooled + offset"), pytest.param(BASELINES, marks=pytest.mark.slow)], ids=["two", "all"]
    )
    @pytest.mark.slow
    def test_baselines(self, names, monkeypatch):
        monkeypatch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 30)
        made = make_table(read(columns()), ROLES)
        found = compare(made, (3,), hidden=(8,), names=names)
        assert tuple(one.name for one in found) == names
        score = {one.name: one.score.mean for one in found}
        assert all(np.isfinite(value) for value in score.values())
        assert score["pooled + offset"] < score["pooled"]


def test_a_model_answers_in_the_users_unit():
    made = make_table(read(columns()), ROLES)
    model, _ = untrained(made, "mixed", 3)
    frame = read(columns()).only(np.arange(5))
    support = read_frame(model.problem, frame, "support")
    told = model.kind.write(model.problem, support, adapt(model, support).answer(support.x)).columns
    assert set(told) == {"prediction", "low", "high"}
    np.testing.assert_allclose(told["prediction"], frame.columns["size"], atol=15)
    assert (np.asarray(told["low"]) < np.asarray(told["prediction"])).all()


OPTIONS = ("--task", "who", "--x", "age", "sex", "--y", "size", "--shots", "4", "--steps", "6",
         "--seeds", "2", "--hidden", "6", "--inner-steps", "2", "--validation-tasks", "4", "--log-every", "3",
         "--validate-every", "3")  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a made table, trained by the command."""
    folder = tmp_path_factory.mktemp("tables")
    csv_of(folder / "t.csv", columns())
    words = ("train", "maml", f"table:{folder / 't.csv'}", *OPTIONS, "--no-report", "--run", str(folder / "run"))
    assert fewstep.cli.main(list(words)) == 0
    return folder


@pytest.mark.xdist_group("tables")
class TestCommands:
    def test_the_run_keeps_split_and_scale(self, run):
        kept = json.loads((run / "run" / "config.json").read_text())["experiment"]
        assert {len(kept["classes"][part]) for part in ("train", "validation", "test")} == {5, 1, 2}
        assert kept["schema"]["target"]["name"] == "size"
        assert (run / "run" / "calibration.json").exists()

    def test_eval(self, run, capsys):
        code, told, _ = output(capsys, "eval", run / "run", "--no-baselines", "--shots", 3, 5, "--json")
        rows = json.loads(told)["rows"]
        assert code == 0
        assert {(row["shots"], row["inner_steps"], row["metric"]) for row in rows} == {
            (shots, steps, "rmse") for shots in (3, 5) for steps in (0, 1, 2)
        }
        assert all(0 <= row["coverage90"] <= 1 for row in rows if row["inner_steps"] == 2)

    def test_adapt_answers_in_the_users_columns(self, run, capsys):
        (run / "new.csv").write_text("size,sex,age\n101,girl,1\n108,girl,3\n115,girl,5\n")
        (run / "ask.csv").write_text("note,age,sex\nhi,2,girl\nho,4,girl\n")
        code, told, _ = output(capsys, "adapt", run / "run", "--support", run / "new.csv", "--query", run / "ask.csv")
        assert code == 0
        head, first, *_ = told.splitlines()
        assert head == "note,age,sex,prediction,low,high"
        note, age, sex, prediction, low, high = first.split(",")
        assert (note, age, sex) == ("hi", "2", "girl")
        assert float(low) < float(prediction) < float(high)

    def test_adapt_tells_why_there_are_no_intervals(self, run, capsys):
        (run / "new.csv").write_text("size,sex,age\n101,girl,1\n108,girl,3\n115,girl,5\n")
        (run / "ask.csv").write_text("age,sex\n2,girl\n4,girl\n")
        words = ("adapt", run / "run", "--support", run / "new.csv", "--query", run / "ask.csv", "--inner-steps", 1)
        code, told, said = output(capsys, *words)
        assert code == 0
        assert told.splitlines()[0] == "age,sex,prediction"
        assert "calibrated for 2 inner steps, not for 1" in said

    @pytest.mark.parametrize(
        ("support", "query", "said"),
        [
            ("size,sex,age\n1,girl,2\n", "age,sex,low\n1,girl,3\n", "has a column 'low', as the answer has"),
            ("age,sex\n1,girl\n", "age,sex\n1,girl\n", "no column 'size', which is what the model learns"),
            ("size,sex,age\n1,girl,2\n", "age\n1\n", "no column 'sex', which the model was trained with"),
            ("size,sex,age\n1,girl,x\n", "age,sex\n1,girl\n", "holds 'x' in the column 'age', which is not a number"),
            ("size,sex,age\n1,girl,2\n", "age,sex\n1,cat\n", "holds 'cat' in the column 'sex'"),
        ],
    )
    def test_adapt_refuses_what_does_not_match(self, run, support, query, said, capsys):
        (run / "s.csv").write_text(support)
        (run / "q.csv").write_text(query)
        code, _, told = output(capsys, "adapt", run / "run", "--support", run / "s.csv", "--query", run / "q.csv")
        assert code == 2
        assert said in told

    def test_each_of_several_tasks_is_learned_from_its_own_rows(self, run, capsys):
        one, two = "101,girl,1\n108,girl,3\n115,girl,5\n", "141,girl,1\n148,girl,3\n155,girl,5\n"
        named = lambda rows, name: "".join(f"{name},{row}\n" for row in rows.split())
        words = ("adapt", run / "run", "--support", run / "new.csv", "--query", run / "ask.csv", "--json")
        (run / "new.csv").write_text("who,size,sex,age\n" + named(one, "a") + named(two, "b"))
        (run / "ask.csv").write_text("who,age,sex\nb,2,girl\na,2,girl\nb,4,girl\n")
        together = json.loads(output(capsys, *words)[1])["prediction"]
        alone = []
        for rows, ages in ((one, (2,)), (two, (2, 4))):
            (run / "new.csv").write_text("size,sex,age\n" + rows)
            (run / "ask.csv").write_text("age,sex\n" + "".join(f"{age},girl\n" for age in ages))
            alone += json.loads(output(capsys, *words)[1])["prediction"]
        np.testing.assert_allclose(together, [alone[1], alone[0], alone[2]], rtol=1e-6)
        (run / "new.csv").write_text("who,size,sex,age\n" + named(one, "a") + named(two, "b"))
        (run / "ask.csv").write_text("age,sex\n2,girl\n")
        assert "has rows of 2 tasks (a, b), and" in output(capsys, *words)[2]
        (run / "ask.csv").write_text("who,age,sex\nc,2,girl\n")
        said = output(capsys, *words)[2]
        assert "Row 1 of" in said
        assert "ask.csv is of the task 'c', and" in said

    def test_adapt_writes_nothing_over_its_input(self, run, capsys):
        (run / "new.csv").write_text("size,sex,age\n101,girl,1\n108,girl,3\n")
        (run / "ask.csv").write_text("age,sex\n2,girl\n")
        words = ("adapt", run / "run", "--support", run / "new.csv", "--query", run / "ask.csv", "--out")
        assert "the file of --support, which would be lost" in output(capsys, *words, run / "new.csv")[2]
        assert "Its ending says what to write: .csv or .npz" in output(capsys, *words, run / "a.parquet")[2]
        assert output(capsys, *words, run / "made" / "here.csv")[0] == 0
        assert (run / "made" / "here.csv").read_text().startswith("age,sex,prediction,low,high")

    def test_a_table_that_has_changed_is_refused(self, run, tmp_path, capsys, monkeypatch):
        before = (run / "t.csv").read_text()
        made = columns()
        csv_of(run / "t.csv", made | {"size": 1.8 * made["size"] + 32})
        for words in (
            ("eval", run / "run", "--no-baselines"),
            ("train", "maml", f"table:{run / 't.csv'}", *OPTIONS, "--run", run / "run"),
        ):
            code, _, told = output(capsys, *words)
            assert code == 2
            assert "has changed since the run was made" in told
        more = pandas.concat([pandas.DataFrame(made), pandas.DataFrame(made).assign(who="new")])
        more.to_csv(run / "t.csv", index=False)  # another task changes nothing for those that are there
        assert output(capsys, "eval", run / "run", "--no-baselines", "--shots", 4)[0] == 0
        (run / "t.csv").write_text(before)

    @pytest.mark.parametrize(
        ("more", "said"),
        [(("--shots", 0), "--shots is (0,)"), (("--n-tasks", 3), "--n-tasks does not apply"), ((), "")],
    )
    def test_eval_refuses_idle_options(self, run, more, said, capsys):
        code, _, told = output(capsys, "eval", run / "run", "--no-baselines", *more)
        assert (code, said in told) == (2 if said else 0, True)

    def test_a_table_that_lost_a_task_is_refused(self, run, tmp_path, capsys):
        made = columns()
        kept = made["who"] != json.loads((run / "run" / "config.json").read_text())["experiment"]["classes"]["test"][0]
        before = (run / "t.csv").read_text()
        csv_of(run / "t.csv", {name: column[kept] for name, column in made.items()})
        code, _, told = output(capsys, "eval", run / "run", "--no-baselines")
        (run / "t.csv").write_text(before)
        assert code == 2
        assert "no longer has the task" in told

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (("--shots", "40"), "have fewer than 41 rows, 40 to learn from"),
            (("--y", "sizes"), "Did you mean 'size'?"),
            (("--ways", "5"), "--ways does not apply"),
            (("--x", "age", "who"), "'who' has two roles"),
            (("--loss", "cross_entropy"), "The loss cross_entropy of a prediction of shape (4, 1)"),
        ],
    )
    def test_mistakes_are_said_before_a_folder_is_made(self, run, more, said, tmp_path, capsys):
        words = ("train", "maml", f"table:{run / 't.csv'}", *OPTIONS, *more)
        code, _, told = output(capsys, *words, "--run", tmp_path / "no")
        assert code == 2
        assert said in told.replace("\n", " ")
        assert not (tmp_path / "no").exists()

    def test_small_tasks_are_left_out_and_counted(self, run, tmp_path, capsys):
        made = columns()
        small = np.flatnonzero(np.isin(made["who"], ["t1", "t6"]))
        kept = np.setdiff1d(np.arange(len(made["who"])), [row for row in small if row % 12 > 2])
        path = csv_of(tmp_path / "t.csv", {name: column[kept] for name, column in made.items()})
        code, _, told = output(
            capsys, "train", "maml", f"table:{path}", *OPTIONS, "--no-report", "--run", tmp_path / "run"
        )
        assert code == 0
        assert "2 of 8 tasks have fewer than 5 rows and are left out: t1 (4), t6 (3)." in told.replace("\n", " ")
        split = json.loads((tmp_path / "run" / "config.json").read_text())["experiment"]["classes"]
        assert {name for tasks in split.values() for name in tasks} == {f"t{n}" for n in (0, 2, 3, 4, 5, 7)}
        sizes = {name: 12 + int(name[1:]) % 3 for name in split["test"]}
        code, _, told = output(capsys, "eval", tmp_path / "run", "--no-baselines", "--shots", max(sizes.values()) - 1)
        assert code == 0
        assert "have fewer than" in told.replace("\n", " ") or len(set(sizes.values())) == 1
        assert output(capsys, "eval", tmp_path / "run", "--no-baselines", "--shots", 30)[0] == 2

    def test_an_exported_one_answers_as_adapt_does(self, run, tmp_path, capsys):
        (run / "new.csv").write_text("size,sex,age\n101,girl,1\n108,girl,3\n115,girl,5\n")
        (run / "ask.csv").write_text("age,sex\n2,girl\n4,girl\n40,boy\n")  # the last lies far outside
        words = ("adapt", run / "run", "--support", run / "new.csv", "--query", run / "ask.csv", "--json")
        assert output(capsys, "export", run / "run", "--out", tmp_path / "e", "--no-score")[0] == 0
        rows = [{"size": 101, "sex": "girl", "age": 1}, {"size": 108, "sex": "girl", "age": 3},
                {"size": 115, "sex": "girl", "age": 5}]  # fmt: skip
        asked = [{"age": 2, "sex": "girl"}, {"age": 4, "sex": "girl"}, {"age": 40, "sex": "boy"}]
        made, _ = used(tmp_path / "e", rows, asked)
        expected = json.loads(output(capsys, *words)[1])
        for name in ("prediction", "low", "high"):
            np.testing.assert_allclose([row[name] for row in made], expected[name], rtol=1e-4)
        assert "in your columns and units; with intervals" in (tmp_path / "e" / "README.md").read_text()
        for wrong, said in (({"age": 2, "sex": "cat"}, "Known: boy, girl"), ({"age": None, "sex": "boy"}, "Fill it")):
            with pytest.raises(subprocess.CalledProcessError) as failed:
                used(tmp_path / "e", rows, [wrong])
            assert said in failed.value.stderr

    def test_columns_that_are_not_told(self, run, capsys):
        code, _, told = output(capsys, "train", "mtnet", f"table:{run / 't.csv'}", "--y", "size")
        assert code == 2
        assert "needs --task, --x" in told


@pytest.mark.slow
def test_classes_of_text_are_classified(tmp_path, capsys, monkeypatch):
    made = columns()
    made["size"] = np.where(made["size"] > 115, "tall", "short")
    csv_of(tmp_path / "t.csv", made)
    args = ["train", "ridge", f"table:{tmp_path / 't.csv'}", *OPTIONS, "--run", tmp_path / "run", "--json"]
    for option in ("--inner-steps",):
        del args[args.index(option) : args.index(option) + 2]
    code, told, _ = output(capsys, *args)
    assert code == 0
    assert json.loads(told)["rows"][0]["metric"] == "accuracy"
    (tmp_path / "s.csv").write_text("age,sex,size\n1,girl,short\n9,girl,tall\n")
    (tmp_path / "q.csv").write_text("age,sex\n2,girl\n")
    _, told, _ = output(
        capsys, "adapt", tmp_path / "run", "--support", tmp_path / "s.csv", "--query", tmp_path / "q.csv"
    )
    assert told.splitlines()[0] == "age,sex,prediction,probability of short,probability of tall"
    monkeypatch.setattr("fewstep.problems._baselines._TRAIN_STEPS", 30)
    code, told, _ = output(capsys, "eval", tmp_path / "run", "--shots", 4, "--json")
    assert code == 0
    assert "ridge, each task alone" in told


def test_losses_bend():
    batch = fewstep.batch([[0.0], [0.0]], [[0.5], [3.0]])
    zeros = jnp.zeros((2, 1))
    assert losses.absolute_error(zeros, batch) == pytest.approx(1.75)
    assert losses.huber(zeros, batch) == pytest.approx((0.25 + 5.0) / 2)
    assert frames.LARGEST == 1 << 30


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "curves").is_dir(), reason="the real curves are not beside the project")
def test_the_comparison_on_real_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    only = ("--only", "growth", "ridge", "baselines")
    args = ("reproduce", "curves", "--quick", "--steps", "5", *only, "--out", tmp_path / "o", "--json")
    code, told, _ = output(capsys, *args)
    assert code == 0
    rows = json.loads(told)["rows"]
    assert {row["setting"]["points"] for row in rows} == {3, 5, 10}
    assert {row["method"] for row in rows} == {*BASELINES, "ridge on learned features"}
    assert "<svg" in (tmp_path / "o" / "report.html").read_text()


@pytest.mark.skipif(not (DATA / "curves").is_dir(), reason="the real curves are not beside the project")
def test_the_real_tables_are_read(monkeypatch):
    from fewstep_studies.reproduce.curves._measure import prepared
    from fewstep_studies.reproduce.curves._sets import entries

    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    sizes = {}
    for name, entry in entries().items():
        made = prepared(entry, 0)
        sizes[name] = sum(len(rows.names) for rows in made.parts.values()), made.schema.widths[0]
    assert sizes == {"growth": (93, 3), "weather": (35, 1), "school": (139, 28), "parkinsons": (42, 19)}
