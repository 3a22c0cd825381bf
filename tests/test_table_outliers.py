"""Outliers in tables: codes for missing values are found and reported, honest tails are not, and the choice is kept."""

import json

import numpy as np
import pandas
import pytest
from helpers import DATA, output

from fewstep import FewstepError
from fewstep.tables import Roles, make_table, read, read_cells
from fewstep.tables._outliers import outlying

needs_curves = pytest.mark.skipif(not (DATA / "curves").is_dir(), reason="the real curves are not beside the project")
GROWTH = Roles("child", ("age", "sex"), "height_cm")
random = np.random.default_rng(0)
NORMAL = random.normal(170, 7, 2000)


def growth(rows=(), column="height_cm", value=9999.0):
    """The heights of 93 children, with a value put into some rows."""
    made = pandas.read_csv(DATA / "curves" / "growth.csv")
    made.loc[list(rows), column] = value
    return made


def flagged(values):
    return np.flatnonzero(outlying(np.asarray(values, float), np.arange(len(values))))


class TestFinding:
    @pytest.mark.parametrize(
        "values",
        [
            NORMAL,
            random.lognormal(0, 1.5, 5000),
            random.pareto(2.0, 5000),
            random.standard_t(3, 5000),
            np.where(random.random(5000) < 0.9, 0.0, random.gamma(0.5, 20, 5000)),
            random.poisson(0.05, 5000),
            np.repeat([0.1, 1.0, 10.0, 100.0, 1000.0], 40),
            np.concatenate([random.normal(0, 1, 800), random.normal(500, 1, 200)]),
            np.concatenate([random.integers(0, 100, 300), [99.0, 99.0]]),
            np.arange(10.0),
            np.ones(50),
        ],
        ids=[
            "normal",
            "lognormal",
            "pareto",
            "student",
            "zeros",
            "counts",
            "doses",
            "two-groups",
            "percents",
            "few",
            "constant",
        ],
    )
    def test_honest_tails_are_left_alone(self, values):
        assert not len(flagged(values))

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            ([*NORMAL, 9999.0], [2000]),
            ([*NORMAL, *[-999.0] * 300], range(2000, 2300)),
            ([*NORMAL, -99.0, -999.0], [2000, 2001]),
            ([*NORMAL, 17200.0], [2000]),
            ([*NORMAL, 850.0], []),  # a camel, for all that one value can say
            ([*NORMAL, 850.0, 850.0], [2000, 2001]),
            ([*random.lognormal(0, 1.5, 2000), -999.0], [2000]),
            ([*[0.0] * 450, *np.linspace(100, 15_000, 40), *np.linspace(15_000, 41_000, 10), *[99999.0] * 5],
             range(500, 505)),
            ([*random.integers(1, 6, 400), 99.0], [400]),
        ],
        ids=["9999", "many-999", "two-codes", "slip", "single", "twice", "one-sided", "many-zeros", "answers"],
    )  # fmt: skip
    def test_what_cannot_be_measured_is_found(self, values, found):
        assert flagged(values).tolist() == list(found)

    def test_only_training_rows_say_what_is_usual(self):
        values = np.concatenate([NORMAL, [9999.0] * 1500])
        assert outlying(values, np.arange(2000)).sum() == 0  # nearly half of all rows: a kind of task, not a code
        assert outlying(values[:2400], np.arange(2000)).sum() == 400

    @needs_curves
    def test_real_tables_have_none(self, monkeypatch):
        from fewstep import data
        from fewstep_studies.reproduce.curves._sets import entries

        monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
        data.look_in(None)  # another test may have named a folder
        for entry in entries().values():
            frame, _ = entry.read()
            for name in frame.columns:
                cells = read_cells(frame, name)
                assert cells.kind == "category" or not len(flagged(cells.values)), name


@needs_curves
class TestTables:
    rows = tuple(range(20, 2800, 56))

    def test_a_target_is_left_out_clipped_or_kept(self):
        clean, dirty = make_table(read(growth()), GROWTH), read(growth(self.rows))
        made = {how: make_table(dirty, GROWTH._replace(outliers=how)) for how in ("drop", "clip", "keep")}
        assert clean.note == made["keep"].note == ""
        assert made["keep"].schema.target.scale > 30 * clean.schema.target.scale
        for how in ("drop", "clip"):
            assert made[how].schema.target.scale == pytest.approx(clean.schema.target.scale, rel=0.05)
            assert "50 values of 'height_cm' lie far from all others: 9999 in 50 rows" in made[how].note
            assert "Row 21 of the table" in made[how].note
            assert "run from 67.3 to 195.1" in made[how].note
            assert made[how].schema.target.high == pytest.approx(195.1)
        assert (made["drop"].rows, made["clip"].rows) == (clean.rows - 50, clean.rows)
        assert "left out" in made["drop"].note
        assert "the nearest other value" in made["clip"].note
        assert max(part.y.max() for part in made["clip"].parts.values()) < 3

    def test_features_too(self):
        clean, dirty = make_table(read(growth()), GROWTH), read(growth(self.rows, "age", -999.0))
        dropped = make_table(dirty, GROWTH)
        assert "50 values of 'age' lie far from all others: -999 in 50 rows" in dropped.note
        assert dropped.rows == clean.rows - 50
        emptied = make_table(dirty, GROWTH._replace(missing="mean"))
        assert emptied.rows == clean.rows
        assert "the mean is taken" in emptied.note
        for made in (dropped, emptied):
            assert made.schema.features[0].scale == pytest.approx(clean.schema.features[0].scale, rel=0.05)

    def test_dates_too(self):
        born = pandas.Timestamp("2001-05-17") + pandas.to_timedelta(growth()["age"] * 365.25, unit="D")
        table = growth().assign(born=born.dt.strftime("%Y-%m-%d"))
        table.loc[list(self.rows), "born"] = "9999-12-31"
        asked = GROWTH._replace(x=("born", "sex"))
        made = make_table(read(table), asked._replace(outliers="clip"))
        assert "9999-12-31 in 50 rows" in made.note
        assert "run from 2002-05-17 to 2019-05-17" in made.note
        assert np.abs(made.parts["train"].x).max() < 3

    def test_other_tasks_in_the_table_change_nothing(self):
        dirty = growth(self.rows)
        made = make_table(read(dirty), GROWTH)
        more = pandas.concat([dirty, dirty.assign(child="new", height_cm=np.linspace(200, 9998, len(dirty)))])
        again = make_table(read(more), GROWTH, split=made.split, schema=made.schema)
        assert (again.digest, again.rows, again.note) == (made.digest, made.rows, made.note)

    def test_a_task_of_nothing_else_is_refused(self):
        table = growth()
        few = table["child"] == "boy01"
        table.loc[few, "height_cm"] = 9999
        with pytest.raises(FewstepError, match="leaves no row of the task 'boy01'"):
            make_table(read(table), GROWTH)

    @pytest.mark.slow
    def test_the_command_goes_on_with_a_warning(self, tmp_path, capsys):
        growth(self.rows).to_csv(tmp_path / "t.csv", index=False)
        words = (f"table:{tmp_path / 't.csv'}", "--task", "child", "--x", "age", "sex", "--y", "height_cm", "--steps",
                 60, "--seeds", 1, "--hidden", 16, "--outer-lr", 0.02, "--validation-tasks", 4, "--json")  # fmt: skip
        code, told, said = output(capsys, "train", "ridge", *words, "--run", tmp_path / "run")
        assert code == 0
        assert "9999 in 50 rows" in said.replace("\n", " ")
        assert "Line 22 of" in said
        assert json.loads(told)["rows"][0]["mean"] < 20  # with them it is over a thousand
        code, _, said = output(capsys, "train", "maml", "sinusoid", "--outliers", "drop")
        assert code == 2
        assert "--outliers does not apply" in said
