"""What data of practice need: groups and folds, rows in order, cycles and dates, several targets, unknown categories,
and files as other programs write them."""

import json
from contextlib import redirect_stderr
from datetime import date, timedelta
from io import StringIO
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from helpers import output, untrained, used

from fewstep import FewstepError
from fewstep.cli import main
from fewstep.estimators import FewShotRegressor, load
from fewstep.models import adapt, calibrate
from fewstep.problems import Answers, answer_tasks, by_fold, choose_rows, curve_of, draws_of, read_frame, running
from fewstep.runs import open_run
from fewstep.runs.settings import completed
from fewstep.serve.client import _prepare
from fewstep.tables import (
    Column,
    Draw,
    Roles,
    Schema,
    join_rows,
    large_enough,
    make_table,
    outside,
    read,
    read_cells,
    row_arrays,
    split_tasks,
    table_tasks,
)
from fewstep.tables import draw_episode as draw

pytestmark = pytest.mark.xdist_group("table options")  # one worker makes what they share


def weather(stations=8, years=2, rows=14, seed=0):
    """Temperatures along the year, of several years of each of some stations."""
    random, made = np.random.default_rng(seed), []
    for station in range(stations):
        mean, width = random.normal(10, 3), random.normal(10, 1)
        for year in range(2020, 2020 + years):
            for day in sorted(random.choice(365, rows, replace=False)):
                moment = date(year, 1, 1) + timedelta(days=int(day))
                warmth = mean - width * np.cos(2 * np.pi * (day - 20) / 365.25) + random.normal()
                made.append((f"s{station}", f"s{station}-{year}", moment, int(day) + 1, warmth, 80 - 2 * warmth))
    return pandas.DataFrame(made, columns=["station", "who", "date", "day", "temp", "humid"]).sample(
        frac=1.0, random_state=seed
    )  # fmt: skip


ROLES = Roles("who", ("day",), "temp")


def source(frame, dates="%Y-%m-%d"):
    return {name: frame[name].map(lambda d: d.strftime(dates)).to_numpy(object) if name == "date" else
            frame[name].to_numpy() for name in frame.columns}  # fmt: skip


@pytest.fixture(scope="module")
def frame():
    return read(source(weather()))


class TestGroups:
    @pytest.mark.parametrize("how", [Draw(), Draw(3), Draw(folds=4, fold=2), Draw(test=("s1", "s5"))])
    def test_no_group_is_in_two_parts(self, frame, how):
        split = make_table(frame, ROLES._replace(group="station"), draw=how).split
        groups = [{name.split("-")[0] for name in tasks} for tasks in split.values()]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 8
        assert sum(map(len, split.values())) == 16
        if how.test:
            assert groups[2] == {"s1", "s5"}

    def test_a_task_in_two_groups_is_an_error_that_names_both(self):
        made = source(weather())
        made["station"][5] = "elsewhere"
        with pytest.raises(FewstepError, match=r"has rows in two groups, '(s\d|elsewhere)' and '(s\d|elsewhere)'"):
            make_table(read(made), ROLES._replace(group="station"))

    def test_tasks_know_their_group_and_count_with_it(self, frame):
        """Intervals are as wide as if a group were one task, and folds leave whole groups out."""
        table = make_table(frame, ROLES._replace(group="station"))
        test = table.parts["test"]
        assert test.groups == tuple(name.split("-")[0] for name in test.names)
        assert len(set(test.units.tolist())) == len(set(test.groups)) == len(test.names) / 2
        few = large_enough(test._replace(counts=np.where(np.arange(len(test.names)) == 1, 2, test.counts)), 3, "test")
        assert few.groups == (test.groups[0], *test.groups[2:])
        both = join_rows(table.parts["train"], table.parts["validation"])
        assert both.groups == tuple(name.split("-")[0] for name in both.names)
        said = by_fold(both, 1, lambda which: lambda x: np.full((len(x), 1), which.sum()), seed=0)
        assert all(len(set(said[np.repeat(both.units, both.counts) == n, 0])) == 1 for n in range(max(both.units) + 1))
        random = np.random.default_rng(0)
        mean, y = (
            np.zeros((12, 1, 1, 30, 1)),
            random.normal(0, np.repeat(random.lognormal(size=4), 3)[:, None], (12, 30)),
        )
        answers = Answers(mean, mean, mean[None], y[:, None, :, None], np.ones((12, 1, 30)))
        whole = Answers(
            *(np.zeros((4, 1, 1, 90, 1)),) * 2,
            np.zeros((1, 4, 1, 1, 90, 1)),
            y.reshape(4, 1, 90, 1),
            np.ones((4, 1, 90)),
        )
        grouped = calibrate({5: answers._replace(units=np.repeat([7, 3, 5, 1], 3))})
        assert grouped.ratios[5][0.9] == pytest.approx(calibrate({5: whole}).ratios[5][0.9])
        assert grouped.ratios[5][0.9] > calibrate({5: answers}).ratios[5][0.9]

    def test_folds_are_a_partition(self, frame):
        tests = [make_table(frame, ROLES, draw=Draw(7, folds=3, fold=n)).split["test"] for n in (1, 2, 3)]
        assert sorted(sum(tests, ())) == sorted(set(frame.columns["who"].tolist()))

    @pytest.mark.parametrize(
        ("how", "group", "said"),
        [
            (Draw(test=("s9",)), "station", r"Unknown group in `test_tasks` 's9'"),
            (Draw(test=("s1-2020",)), "station", r"With `group`, name whole groups, 's1' for it"),
            (Draw(test=("s1",)), None, r"Unknown task in `test_tasks` 's1'\. Known: s0-2020"),
            (Draw(test=("s1-2020",), folds=2), None, "both given"),
            (Draw(folds=1), None, "`folds` is 1. It must be at least 2, and at most the 16 tasks"),
            (Draw(folds=3, fold=4), None, "`fold` is 4. Folds are counted from 1 to `folds`, 3"),
            (Draw(test=tuple(f"s{n}" for n in range(7))), "station", "has 8 groups"),
        ],
    )
    def test_mistakes(self, frame, how, group, said):
        with pytest.raises(FewstepError, match=said):
            make_table(frame, ROLES._replace(group=group), draw=how)

    def test_a_plain_split_is_what_it_was(self):
        assert split_tasks(list("abcdefghij"), 0)["test"] == ("b", "i")


class TestOrder:
    @pytest.mark.parametrize("support", ["first", "last"])
    def test_the_support_is_the_ends_rows_and_the_query_behind(self, frame, support):
        table = make_table(frame, Roles("who", ("day", "date"), "temp", support=support, order="date"))
        rows = table.parts["train"]
        days = [table.schema.features[1].decode(rows.of(n)[0][:, 1]) for n in range(len(rows.names))]
        for one in days:
            assert (np.diff(one) > 0).all() if support == "first" else (np.diff(one) < 0).all()
        data = jax.tree.map(jnp.asarray, row_arrays(rows))
        for seed in range(4):
            episode = draw(data, jax.random.key(seed), jnp.asarray(1), 5, 4, 3)
            of = lambda batch: np.asarray(batch.y)[np.asarray(batch.weight) > 0, 0]
            np.testing.assert_array_equal(of(episode.support), rows.of(1)[1][:3, 0])
            assert set(of(episode.query).tolist()) <= set(rows.of(1)[1][5:, 0].tolist())
            assert len(set(of(episode.query).tolist())) == 4
        np.testing.assert_array_equal(choose_rows(rows, 1, 4, 0), [0, 1, 2, 3])

    def test_training_varies_how_many_and_evaluation_takes_what_is_asked(self, frame):
        table = make_table(frame, ROLES._replace(support="first", order="date"))
        tasks = table_tasks(table.parts["train"], 5, 3, min_shots=3)
        data = jax.tree.map(jnp.asarray, tasks.data)
        sample = jax.jit(tasks.sample)
        assert {int(sample(data, jax.random.key(n)).support.weight.sum()) for n in range(30)} == {3, 4, 5}
        model, _ = untrained(table, "ridge", 5, hidden=(8,), support="first", steps=1)
        assert model.experiment.min_shots == 3
        rows = table.parts["test"]
        assert draws_of(rows) == 1
        answers = answer_tasks(
            model.learner(), tuple(model.finite.values()), rows, shots=5, steps=(0,), draws=1, seed=0
        )  # fmt: skip
        learned = adapt(model, tuple(part[:5] for part in rows.of(0))).answer(rows.of(0)[0][5:])
        there = answers.weight[0, 0] > 0
        places = [int(np.argmin(np.abs(rows.of(0)[1][5:, 0] - y))) for y in answers.y[0, 0][there][:, 0]]
        np.testing.assert_allclose(answers.mean[0, 0, 0][there], learned.mean[places], rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(
        ("support", "order", "said"),
        [
            ("first", None, "`support='first'` needs `order`"),
            ("random", "date", "`order` does not apply to `support='random'`"),
            ("last", "station", "`order`, holds text: 's"),
            ("last", "temp", "'temp' has two roles: `order` and `y`"),
        ],
    )
    def test_mistakes(self, frame, support, order, said):
        with pytest.raises(FewstepError, match=said):
            make_table(frame, ROLES._replace(support=support, order=order))


class TestSmallTasks:
    def test_they_are_left_out_with_a_count(self):
        made = weather()
        few = made[(made.who != "s1-2020") | (made.groupby("who").cumcount() < 3)]
        table = make_table(read(source(few)), ROLES, min_rows=6)
        assert "1 of 16 tasks have fewer than 6 rows and are left out: s1-2020 (3)." in table.note
        assert sum(len(rows.names) for rows in table.parts.values()) == 15
        with pytest.raises(FewstepError, match=r"16 of 16 tasks have fewer than 31 rows.*Use `shots=13`"):
            make_table(read(source(made)), ROLES, min_rows=31)

    def test_those_that_outliers_leave_with_few_too(self):
        made = weather(rows=30)
        who = make_table(read(source(made)), ROLES).split["train"][0]
        odd = np.flatnonzero(made.who == who)[:28]
        made.iloc[odd, made.columns.get_loc("temp")] = 9999.0
        table = make_table(read(source(made)), ROLES, min_rows=6)
        assert f"1 of 16 tasks have fewer than 6 rows then and are left out: {who} (2)." in table.note
        again = make_table(read(source(made)), ROLES, split=table.split, schema=table.schema)
        assert again.digest == table.digest
        np.testing.assert_array_equal(again.parts["train"].y, table.parts["train"].y)

    def test_a_task_smaller_than_the_support_pads_it(self):
        made = weather()
        few = made[(made.groupby("who").cumcount() < 4)]
        rows = make_table(read(source(few)), ROLES, min_rows=3).parts["train"]
        episode = draw(jax.tree.map(jnp.asarray, row_arrays(rows)), jax.random.key(0), jnp.asarray(0), 6, 5)
        assert (episode.support.weight.sum(), episode.query.weight.sum()) == (3, 1)
        taken = np.concatenate([np.asarray(p.y)[np.asarray(p.weight) > 0, 0] for p in episode])
        assert sorted(taken) == sorted(rows.of(0)[1][:, 0])


class TestCycles:
    def test_the_ends_of_a_cycle_meet(self, frame):
        schema = make_table(frame, ROLES._replace(cyclic=("day=365.25",))).schema
        assert schema.widths == (2, 1)
        x = schema.x(read({"day": [0.0, 365.25, 182.625]}))
        np.testing.assert_allclose(x, [[0, 1], [0, 1], [0, -1]], atol=1e-5)
        np.testing.assert_allclose(schema.features[0].decode(x[1:]), [0, 182.625], atol=0.05)
        assert make_table(frame, ROLES._replace(cyclic={"day": 365.25})).schema == schema
        assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema

    def test_outside_is_an_angle_from_the_arc_that_training_had(self):
        made = weather()
        made = made[(made.day < 100) | (made.day > 300)]
        schema = make_table(read(source(made)), ROLES._replace(cyclic=("day=365.25",))).schema
        ask = read({"day": [1.0, 400.0, 200.0]})
        far = outside(schema, ask, schema.unbounded(ask))
        assert far.distance[0] == far.distance[1] == 0
        assert far.distance[2] == pytest.approx(2 * np.pi * 100 / 365.25, rel=0.1)
        assert "Row 3 of the table holds 200" in far.notes[0]
        assert "of a cycle of 365.25" in far.notes[0]

    def test_parts_of_dates(self, frame):
        roles = ROLES._replace(x=("date",), dates=("day-of-year", "weekday"))
        schema = make_table(frame, roles).schema
        assert (schema.widths, schema.names) == ((9, 1), ("date",))
        x = schema.x(read({"date": ["2024-01-01", "2023-12-31 12:00"]}))  # a Monday, a Sunday
        np.testing.assert_array_equal(x[:, 2:].argmax(1), [0, 6])
        angles = 2 * np.pi * np.asarray([1, 365.5]) / 365.25
        np.testing.assert_allclose(x[:, :2], np.stack([np.sin(angles), np.cos(angles)], 1), atol=1e-4)
        assert make_table(frame, roles._replace(dates=("days", "weekday"))).schema.widths == (8, 1)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"cyclic": ("day",)}, "`cyclic` holds 'day'. Give COLUMN=PERIOD"),
            ({"cyclic": ("days=7",)}, "`cyclic` names 'days', which is not in `x`"),
            ({"cyclic": ("day=0",)}, "The period of 'day' in `cyclic` is 0"),
            ({"x": ("station",), "cyclic": ("station=7",)}, "'station' in `cyclic` holds text"),
            ({"dates": ("month",)}, "Unknown part of a date in `dates` 'month'"),
            ({"dates": ("weekday",)}, "no column of `x` holds dates"),
        ],
    )
    def test_mistakes(self, frame, change, said):
        with pytest.raises(FewstepError, match=said):
            make_table(frame, ROLES._replace(**change))

    def test_they_are_suggested(self):
        made = source(weather(years=3, rows=60))
        note = make_table(read(made), ROLES._replace(x=("day", "date"))).note
        assert "`cyclic='day=365.25'`" in note
        assert "the day of year of 'date' by " in note
        assert "use `dates='day-of-year'`" in note
        asked = ROLES._replace(x=("day", "date"), cyclic=("day=365.25",), dates=("day-of-year",))
        assert make_table(read(made), asked).note == ""
        assert make_table(read(made | {"day": made["day"] + 0.5}), ROLES).note == ""

    def test_only_what_helps_is_suggested(self):
        """A week's rhythm in the target is seen, and none where there is none."""
        made = source(weather(years=3, rows=60))
        days = np.asarray([date.fromisoformat(day).weekday() for day in made["date"]])
        random = np.random.default_rng(0)
        noise, weekly = random.normal(size=len(days)), random.normal(size=len(days)) + 5 * (days >= 5)
        roles = ROLES._replace(x=("date", "day"))
        assert make_table(read(made | {"temp": noise}), roles).note == ""
        note = make_table(read(made | {"temp": weekly}), roles).note
        assert note.startswith("A linear fit has a smaller error with the weekday of 'date' by ")
        assert note.endswith(": use `dates='days weekday'`.")
        classes = np.where(weekly > 2, "high", "low")
        assert "the weekday of 'date' by" in make_table(read(made | {"temp": classes}), roles).note

    def test_a_curve_runs_along_a_cycle(self, frame):
        table = make_table(frame, ROLES._replace(cyclic=("day=365.25",)))
        rows = table.parts["test"]
        assert running(table.schema, rows) == 0
        answer = lambda support, x: SimpleNamespace(mean=x[:, 1:], high=x[:, 1:], calibrated=False)
        curve = curve_of(answer, table.schema, rows, 0, np.arange(3), 0)
        days = sorted(weather().query(f"who == '{rows.names[0]}'").day)
        np.testing.assert_allclose(sorted(curve.x), days, atol=0.01)
        middle = table.schema.target.decode(np.cos(2 * np.pi * np.asarray(curve.at) / 365.25))
        np.testing.assert_allclose(curve.middle, middle, atol=1e-3)


class TestTargets:
    def test_each_is_scaled_scored_and_written_by_itself(self, frame, tmp_path):
        table = make_table(frame, ROLES._replace(y=("temp", "humid")))
        assert table.schema.widths == (1, 2)
        model, _ = untrained(table, "ridge", 5, hidden=(8,))
        support = read_frame(
            model.problem, read({"day": [1, 180], "temp": [1.0, 20.0], "humid": [78.0, 40.0]}), "support"
        )
        query = read_frame(model.problem, read({"day": [90, 200]}), "query")
        written = model.kind.write(model.problem, query, adapt(model, support).answer(query.x)).columns
        assert list(written) == [f"{part} of {y}" for y in ("temp", "humid") for part in ("prediction", "low", "high")]
        for y in ("temp", "humid"):
            low, middle, high = (np.asarray(written[f"{part} of {y}"]) for part in ("low", "prediction", "high"))
            assert (low < middle).all()
            assert (middle < high).all()

    def test_a_wrong_value_of_one_is_named(self, frame):
        table = make_table(frame, ROLES._replace(y=("temp", "humid")))
        schema = table.schema
        ask = read({"day": [1, 180], "temp": [1.0, 20.0], "humid": [78.0, 4000.0]})
        far = outside(schema, ask, schema.unbounded(ask), schema.y(ask))
        assert len(far.notes) == 1
        assert "Row 2 of the table holds 4000 in the column 'humid'" in far.notes[0]

    def test_mistakes(self, frame):
        with pytest.raises(FewstepError, match="`y` names 2 targets, and 'station' holds classes"):
            make_table(frame, ROLES._replace(y=("temp", "station")))
        with pytest.raises(FewstepError, match="'temp' is named twice in `y`"):
            make_table(frame, ROLES._replace(y=("temp", "temp")))
        with pytest.raises(FewstepError, match="mixed predicts one target, and `y` has 2: temp, humid"):
            untrained(make_table(frame, ROLES._replace(y=("temp", "humid"))), "mixed", 5)


class TestUnknown:
    def test_they_are_none_of_the_known_and_named(self, frame):
        roles = ROLES._replace(x=("day", "station"))
        strict, lenient = (make_table(frame, roles._replace(unknown_categories=how)) for how in ("refuse", "allow"))
        ask = read({"day": [1, 2], "station": ["s1", "moon"]})
        with pytest.raises(FewstepError, match="holds 'moon' in the column 'station'"):
            read_frame(untrained(strict, "ridge", 5, hidden=(8,))[0].problem, ask, "query")
        given = read_frame(untrained(lenient, "ridge", 5, hidden=(8,))[0].problem, ask, "query")
        assert (given.x[1, 1:] == 0).all()
        assert "Row 2 of the table holds 'moon' in the column 'station', which no training task had. It counts" in (
            given.notes[-1]
        )  # fmt: skip


class TestReading:
    def csv(self, path, text):
        (path / "t.csv").write_text(text)
        return read(path / "t.csv")

    @pytest.mark.parametrize("separator", [";", "\t"])
    def test_other_separators_and_decimal_commas(self, tmp_path, separator):
        frame = self.csv(tmp_path, "a|b|c\n1,5|2|x,y\n-2,25|3|z\n".replace("|", separator))
        np.testing.assert_array_equal(read_cells(frame, "a").values, [1.5, -2.25])
        np.testing.assert_array_equal(read_cells(frame, "b").values, [2, 3])
        assert read_cells(frame, "c").values.tolist() == ["x,y", "z"]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a;b\n1,5;1\n2.5;1\n", r"with a comma, such as '1,5' \(Line 2 of .*\), and with a point, such as '2\.5'"),
            ("a;b\n1.234,5;1\n2.345,6;1\n", r"Line 2 .* '1\.234,5' .* a decimal comma, or a thousands separator"),
            ('a,b\n"1,234",1\n"2,345",1\n', r"Line 2 .* '1,234' .* a decimal comma, or a thousands separator"),
        ],
    )
    def test_what_may_be_thousands_is_not_guessed(self, tmp_path, text, said):
        with pytest.raises(FewstepError, match=said):
            read_cells(self.csv(tmp_path, text), "a")

    def test_a_cell_with_a_separator_in_it(self, tmp_path):
        assert read_cells(self.csv(tmp_path, "a,b\nx;y;z,1\nu;v;w,2\n"), "a").values.tolist() == ["x;y;z", "u;v;w"]

    @pytest.mark.parametrize(
        ("cells", "first"),
        [
            (["31/05/2024", "01/06/2024"], "2024-05-31"),
            (["05/31/2024", "06/01/2024"], "2024-05-31"),
            (["03.04.2024", "05.06.2024"], "2024-04-03"),
            (["31-05-2024 12:30", ""], "2024-05-31 12:30"),
        ],
    )
    def test_days_and_months(self, cells, first):
        read_as = read_cells(read({"d": np.asarray(cells, object)}), "d")
        assert read_as.kind == "date"
        assert read_as.values[0] == read_cells(read({"d": np.asarray([first], object)}), "d").values[0]

    def test_what_may_be_either_is_refused_until_it_is_said(self):
        frame = read({"d": np.asarray(["03/04/2024", "05/06/2024"], object)})
        with pytest.raises(FewstepError, match=r"be 2024-04-03 \(day first\) or 2024-03-04 .*date_order='day-first'"):
            read_cells(frame, "d")
        days = read_cells(frame._replace(date_order="month-first"), "d").values
        assert days[0] == (date(2024, 3, 4) - date(1970, 1, 1)).days
        shown = read({"d": np.asarray(["31/04/2024", "13/05/2024"], object)})
        with pytest.raises(FewstepError, match="which is day-first, and `date_order` says month-first"):
            read_cells(shown._replace(date_order="month-first"), "d")
        with pytest.raises(FewstepError, match="holds '31/04/2024' in the column 'd', which is not a date; 1 of 2"):
            read_cells(shown, "d")
        with pytest.raises(FewstepError, match="no one order of day and month fits both"):
            read_cells(read({"d": np.asarray(["31/05/2024", "05/31/2024"], object)}), "d")

    def test_a_new_task_is_read_as_training_was(self):
        made = source(weather(), "%d/%m/%Y")
        schema = make_table(read(made), ROLES._replace(x=("date",))).schema
        assert schema.features[0].date_order == "day-first"
        one, same = (schema.x(read({"date": [text]})) for text in ("03/04/2021", "2021-04-03"))
        np.testing.assert_allclose(one, same)
        with pytest.raises(FewstepError, match="which is month-first, and training had day-first"):
            schema.x(read({"date": ["04/13/2021"]}))


@pytest.fixture(scope="module")
def model():
    """A model of temperatures along the year that was not trained at all, calibrated."""
    table = make_table(read(source(weather(16, rows=60))), ROLES._replace(cyclic=("day=365.25",)))
    return untrained(table, "ridge", 4, hidden=(8,))[0]


class TestAbsurd:
    """Support rows that cannot be: each has a warning and a wider interval."""

    HONEST = {"day": [10, 100, 200, 300], "temp": [1.0, 8.0, 19.0, 9.0]}  # noqa: RUF012

    def told(self, model, known):
        support = read_frame(model.problem, read(known), "support")
        query = read_frame(model.problem, read({"day": [150]}), "query")
        answer = adapt(model, support).answer(query.x, distance=query.distance)
        plain = adapt(model, (support.x, support.y)).answer(query.x)
        widened = float((answer.high - answer.low)[0, 0] - (plain.high - plain.low)[0, 0]) / 2
        return widened, support

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"temp": [1.0, 8.0, 9999.0, 9.0]}, "Row 3 of the table holds 9999 in the column 'temp', outside"),
            ({"temp": [1.0, -300.0, 19.0, 9.0]}, "Row 2 of the table holds -300 in the column 'temp', outside"),
            (
                {"temp": [22.0, 8.0, 19.0, 9.0]},
                "Row 1 of the table holds 22 in the column 'temp', which is above what",
            ),
            (
                {"day": [*range(1, 11)], "temp": [1.0, 1.5, 0.5, 1.2, 0.9, 0.4, -0.5, -1.0, 0.3, 0.1]},
                "The 10 rows to learn from, Row 1 of the table and others, are unlike those that training",
            ),
        ],
    )
    def test_warned_of_and_wider(self, model, change, said):
        widened, honest = self.told(model, self.HONEST)
        assert honest.notes == ()
        assert widened < 0.1
        widened, support = self.told(model, self.HONEST | change)
        assert any(said in note for note in support.notes), support.notes
        assert widened == pytest.approx(support.distance.max(), rel=1e-3)
        assert widened > 0.25

    def test_rows_that_are_odd_only_together(self):
        random = np.random.default_rng(0)
        made = {"who": np.repeat([f"t{n}" for n in range(12)], 20), "day": random.uniform(0, 9, 240)}
        schema = make_table(read(made | {"temp": random.normal(size=240)}), ROLES).schema
        far = []
        for temp in ([0.2, -0.5, 2.0, -1.0, 0.7], [2.2, 2.3, 2.1, 2.4, 2.2]):
            ask = read({"day": [1.0, 3, 5, 7, 8] * 2, "temp": temp * 2})
            far.append(outside(schema, ask, schema.unbounded(ask), schema.y(ask)))
        assert far[0].notes == ()
        assert far[0].distance.max() == 0
        assert len(far[1].notes) == 1
        assert "'temp' is on average above what as many rows of one task have" in far[1].notes[0]
        assert (far[1].distance > 0.25).all()

    def test_rows_in_order_are_usual_where_training_took_them_so(self):
        plain = untrained(make_table(read(source(weather(8, rows=150))), ROLES), "ridge", 4, hidden=(8,))[0]
        table = make_table(read(source(weather(8, rows=150))), ROLES._replace(support="first", order="day"))
        x, y = table.parts["test"].of(0)
        days, temps = table.schema.features[0].decode(x[:10, 0]), table.schema.target.decode(y[:10, 0])
        known = {"day": days, "temp": temps}
        (said,) = self.told(plain, known)[1].notes
        assert "in the column 'day' they are" in said
        ordered = untrained(table, "ridge", 4, hidden=(8,), support="first")[0]
        assert self.told(ordered, known)[1].notes == ()

    def test_honest_tasks_are_not(self, model):
        """Supports of the held-out tasks themselves: hardly any is called odd."""
        schema, notes = model.problem.details.schema, 0
        made, random = weather(16), np.random.default_rng(0)
        for who in model.problem.held_out("test").names:
            for _ in range(5):
                rows = made[made.who == who].sample(4, random_state=int(random.integers(1 << 30)))
                ask = read({"day": rows.day.to_numpy(), "temp": rows.temp.to_numpy()})
                notes += bool(outside(schema, ask, schema.unbounded(ask), schema.y(ask)).notes)
        assert notes <= 1


class _Polars:
    """A frame with no more than the interface that polars has in common with others."""

    columns = ("day", "kind")

    def __getitem__(self, name):
        cells = {"day": [1.5, float("nan")], "kind": [date(2024, 5, 31), None]}[name]
        return SimpleNamespace(to_list=lambda: cells)


def test_the_client_sends_frames():
    sent = {"day": [1.5, None], "kind": ["2024-05-31", None]}
    assert _prepare({"columns": _Polars()}) == {"columns": sent}
    frame = pandas.DataFrame({"day": pandas.array([3, None], "Int64"), "at": pandas.to_datetime(["2024-05-31", None])})
    frame["long"], frame["yes"] = pandas.to_timedelta([36, None], "h"), [True, False]
    sent = _prepare({"columns": frame})["columns"]
    assert sent == {"day": [3, None], "at": ["2024-05-31T00:00:00", None], "long": [1.5, None], "yes": [1, 0]}
    assert json.loads(json.dumps(sent)) == sent


def test_true_and_false_are_the_same_however_they_are_written():
    """A file has them as text, a frame as what they are, and the service as 1 and 0."""
    written = np.asarray(["TRUE", "FALSE", None], object)
    of_text = Column.learn("yes", read_cells(read({"yes": written}), "yes"), np.arange(3))
    of_frame = Column.learn("yes", read_cells(read({"yes": np.asarray([True, False])}), "yes"), np.arange(2))
    assert (of_text.kind, of_frame.kind) == ("category", "number")
    for cells in (written, ["True", "False", None], [True, False, None], [1.0, 0.0, None], ["true", "false", ""]):
        asked = read({"yes": np.asarray(cells, object)})
        np.testing.assert_array_equal(of_text.encode(asked, missing="mean", strict=True), [[0, 1], [1, 0], [0, 0]])
        assert of_frame.encode(asked, missing="mean", strict=True)[:2].argmax() == 0
    with pytest.raises(FewstepError, match="holds 'maybe' in the column 'yes'"):
        of_text.encode(read({"yes": np.asarray(["maybe"], object)}), missing="mean", strict=True)


SMALL = {"steps": 8, "seeds": 1, "hidden": (8,), "shots": 4, "random_state": 0}


class TestEstimators:
    def test_the_options_are_there(self, tmp_path):
        table = weather()
        short = pandas.concat([table, table.iloc[:2].assign(who="short", station="s99")], ignore_index=True)
        X, y = short[["day"]], short[["temp", "humid"]]
        model = FewShotRegressor("ridge", **SMALL, support="first", cyclic={"day": 365.25})
        with pytest.warns(UserWarning, match=r"1 of 17 tasks have fewer than 5 rows and are left out: short \(2\)"):
            model.fit(X, y, tasks=short.who, groups=short.station, order=short.date)
        assert len({name.split("-")[0] for name in model.held_out_tasks_}) * 2 == len(model.held_out_tasks_)
        schema = model.model_.problem.details.schema
        assert (schema.widths, schema.typical is None) == ((2, 2), False)
        assert model.model_.problem.held_out("train").support == "first"
        early = short.sort_values(["who", "date"])[:4].index
        one = model.adapt(X.loc[early], y.loc[early])
        told = one.predict_interval(X[4:9])
        assert list(told)[:3] == ["prediction of y1", "low of y1", "high of y1"]
        assert one.predict(X[4:9]).shape == (5, 2)
        again = load(one.save(tmp_path / "task"))
        np.testing.assert_allclose(again.predict(X[4:9]), one.predict(X[4:9]), rtol=1e-5)
        assert np.isfinite(model.score(X[:-2], y[:-2], tasks=short.who[:-2], order=short.date[:-2]))
        with pytest.raises(FewstepError, match="y has 1 columns, and the model was trained with 2"):
            model.adapt(X[:4], short.temp[:4])

    def test_mistakes(self):
        table = weather()
        X, y = table[["day"]], table.temp
        with pytest.raises(FewstepError, match="`support='first'` needs `order`"):
            FewShotRegressor("ridge", **SMALL, support="first").fit(X, y, tasks=table.who)
        with pytest.raises(FewstepError, match="has rows in two groups"):
            FewShotRegressor("ridge", **SMALL).fit(X, y, tasks=table.who, groups=table.day)
        with pytest.raises(FewstepError, match="groups is 'station', one text"):
            FewShotRegressor("ridge", **SMALL).fit(X, y, tasks=table.who, groups="station")
        with pytest.raises(FewstepError, match="unknown_categories is 'no'"):
            FewShotRegressor("ridge", **SMALL, unknown_categories="no").fit(X, y, tasks=table.who)


OPTIONS = ("--task", "who", "--x", "date", "station", "--y", "temp", "humid", "--shots", 4, "--steps", 4, "--seeds", 1,
           "--hidden", 6, "--validation-tasks", 4, "--group", "station", "--folds", 4, "--fold", 2, "--support", "last",
           "--order", "day", "--dates", "day-of-year", "--outliers", "keep")  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with every option, on a file as a spreadsheet in Germany writes it; with the rows of its training."""
    folder = tmp_path_factory.mktemp("options")
    table = weather()
    tiny = table.iloc[:2].assign(who="tiny", station="s0")
    pandas.concat(
        [table.assign(date=table.date.map(lambda d: d.strftime("%d/%m/%Y"))), tiny.assign(date="13/01/2020")]
    ).to_csv(folder / "t.csv", index=False, sep=";", decimal=",")
    with redirect_stderr(StringIO()) as said:
        words = ("train", "ridge", f"table:{folder / 't.csv'}", *OPTIONS, "--run", folder / "run", "--no-report")
        assert main([str(word) for word in words]) == 0
    return folder, said.getvalue()


class TestCommands:
    def test_the_split_is_kept_and_small_tasks_are_reported(self, run, capsys):
        folder, said = run
        assert "1 of 17 tasks have fewer than 3 rows and are left out: tiny (2)" in said
        options = json.loads((folder / "run" / "config.json").read_text())["experiment"]
        assert (options["min_shots"], options["y"]) == (2, ["temp", "humid"])
        assert len({name.split("-")[0] for name in options["classes"]["test"]}) == 2
        code, told, _ = output(capsys, "eval", folder / "run", "--no-baselines", "--json")
        assert code == 0
        (row,) = json.loads(told)["rows"]
        assert set(row["targets"]) == {"temp", "humid"}
        schema = options["schema"]
        scales = {"temp": schema["target"]["scale"], "humid": schema["more"][0]["scale"]}
        assert row["mean"] < 2 < min(row["targets"].values())  # in deviations, and in the units
        assert 0.3 < row["targets"]["humid"] / scales["humid"] / row["mean"] < 3

    def test_unknown_categories_are_allowed_on_request(self, run, capsys):
        folder, _ = run
        (folder / "s.csv").write_text("date;station;temp;humid\n03/04/2020;moon;4,5;70,5\n04/05/2020;s0;9;60\n")
        (folder / "q.csv").write_text("date,station\n2020-06-01,moon\n")
        words = ("adapt", folder / "run", "--support", folder / "s.csv", "--query", folder / "q.csv")
        code, _, said = output(capsys, *words)
        assert code == 2
        assert "holds 'moon' in the column 'station'" in said
        code, told, said = output(capsys, *words, "--unknown-categories", "allow")
        assert code == 0
        assert told.splitlines()[0] == (
            "date,station,prediction of temp,low of temp,high of temp,prediction of humid,low of humid,high of humid"
        )
        assert "Warning: Line 2 of" in said
        assert "s.csv holds 'moon' in the column 'station', which no training task had" in said
        assert "No intervals" not in said

    def test_an_export_answers_as_adapt_does(self, run, tmp_path, capsys):
        folder, _ = run
        assert output(capsys, "export", folder / "run", "--out", tmp_path / "e")[0] == 0
        support = [
            {"date": "2020-04-03", "station": "s1", "temp": 4.5, "humid": 70.5},
            {"date": "2020-05-04", "station": "s1", "temp": 900.0, "humid": 60.0},
        ]
        query = [{"date": "2020-06-01", "station": "s1"}, {"date": "2020-12-31", "station": "s1"}]
        pandas.DataFrame(support).to_csv(folder / "s2.csv", index=False)
        pandas.DataFrame(query).to_csv(folder / "q2.csv", index=False)
        words = ("adapt", folder / "run", "--support", folder / "s2.csv", "--query", folder / "q2.csv", "--json")
        told = json.loads(output(capsys, *words)[1])
        assert "Line 3 of" in told["warnings"][0]
        for row, answer in enumerate(used(tmp_path / "e", support, query)[0]):
            for name, value in answer.items():
                assert value == pytest.approx(told[name][row], rel=1e-3), name

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--fold", 3), "--fold is 3, and --folds is not given"),
            (("--support", "first"), "--support first needs --order"),
            (("--support", "middle"), "middle"),
            (("--cyclic", "day"), "--cyclic holds 'day'"),
        ],
    )
    def test_mistakes(self, run, tmp_path, words, said, capsys):
        base = ("train", "ridge", f"table:{run[0] / 't.csv'}", "--task", "who", "--x", "day", "--y", "temp")
        code, _, told = output(capsys, *base, *words, "--run", tmp_path / "no")
        assert code == 2
        assert said in told.replace("\n", " ")

    def test_help_has_every_option(self, run, capsys):
        told = output(capsys, "train", "ridge", f"table:{run[0] / 't.csv'}", "--help")[1]
        for name in ("group", "test-tasks", "folds", "fold", "support", "order", "cyclic", "dates", "date-order",
                     "unknown-categories"):  # fmt: skip
            assert f"--{name} " in told

    def test_a_run_of_before_these_options_loads(self, run, tmp_path, capsys):
        """Without the new options in its configuration and checkpoints, as an earlier version wrote them."""
        folder, _ = run
        path = tmp_path / "old"
        words = ("train", "ridge", f"table:{folder / 't.csv'}", "--task", "who", "--x", "day", "--y", "temp",
                 "--steps", 2, "--seeds", 1, "--hidden", 6, "--no-report", "--run", path,
                 "--validation-tasks", 4)  # fmt: skip
        assert output(capsys, *words, "--shots", 1)[0] == 0
        new = ("group", "test_tasks", "folds", "fold", "support", "order", "cyclic", "dates", "date_order",
               "unknown_categories")  # fmt: skip
        older = lambda options: {n: v for n, v in options.items() if n not in new} | {"y": "temp"}
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | {"experiment": older(config["experiment"])}))
        experiment = open_run(path).experiment
        assert experiment.y == ("temp",)
        there = completed(older(config["experiment"]), experiment)
        assert {name: there[name] for name in ("y", "group", "dates", "fold")} == {
            "y": ["temp"], "group": "", "dates": ["days"], "fold": 1,
        }  # fmt: skip
        assert output(capsys, "eval", path, "--no-baselines")[0] == 0
