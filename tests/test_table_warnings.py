"""What lies far outside the training tasks: a warning, and an interval that widens by the distance."""

import json
import warnings

import numpy as np
import pandas
import pytest
from helpers import DATA, output, untrained

from fewstep import FewstepError
from fewstep.estimators import FewShotClassifier, FewShotRegressor, load
from fewstep.models import adapt
from fewstep.problems import read_frame
from fewstep.tables import Roles, Schema, clamped, make_table, outside, read

pytestmark = pytest.mark.xdist_group("table warnings")  # one worker makes what they share
needs_curves = pytest.mark.skipif(not (DATA / "curves").is_dir(), reason="the real curves are not beside the project")
GROWTH = Roles("child", ("age", "sex"), "height_cm")
SMALL = {"steps": 20, "seeds": 1, "hidden": (8,), "shots": 4, "random_state": 0}
KNOWN = {"age": [2.0, 6.0, 10.0, 14.0], "sex": ["girl"] * 4, "height_cm": [85.0, 115.0, 138.0, 158.0]}


def heights():
    return pandas.read_csv(DATA / "curves" / "growth.csv")


@pytest.fixture(scope="module")
def model():
    """A mixed-effects model of real heights that was not trained at all, calibrated."""
    return untrained(make_table(read(heights()), GROWTH), "mixed", 4)[0]


@pytest.fixture(scope="module")
def schema(model):
    return model.problem.details.schema


@needs_curves
class TestWidening:
    def told(self, model, known=KNOWN, ages=(8.0,)):
        support = read_frame(model.problem, read(known), "support")
        query = read_frame(model.problem, read({"age": list(ages), "sex": ["girl"] * len(ages)}), "query")
        answer = adapt(model, support).answer(query.x, distance=query.distance)
        written = model.kind.write(model.problem, query, answer).columns
        columns = {name: np.asarray(column) for name, column in written.items()}
        return columns["prediction"], (columns["high"] - columns["low"]) / 2, [*support.notes, *query.notes]

    def test_inside_nothing_changes(self, model, schema):
        x = schema.x(read(KNOWN))
        learned = adapt(model, (x, schema.y(read(KNOWN))))
        answer = learned.answer(x)
        left = np.sqrt(np.square(answer.mean - schema.y(read(KNOWN))).mean(0))
        np.testing.assert_allclose(learned.residual, left, rtol=1e-4)
        half = model.calibration.half(answer.spread, left, 4, 0.9)[:, 0] * schema.target.scale
        prediction, told, warned = self.told(model, ages=KNOWN["age"])
        np.testing.assert_allclose(told, half, rtol=1e-4)
        np.testing.assert_allclose(prediction, schema.target.decode(answer.mean[:, 0]))
        assert warned == []

    def test_x_outside_widens_by_its_distance_in_deviations(self, model, schema):
        _, inside, _ = self.told(model, ages=[18.0])
        age, target = schema.features[0], schema.target
        for ages in ([23.0], [60.0], [-40.0]):
            _, half, (warned,) = self.told(model, ages=ages)
            distance = max(ages[0] - 18.0, 1.0 - ages[0]) / age.scale
            assert half[0] >= inside[0] + 0.5 * distance * target.scale
            assert f"holds {ages[0]:g} in the column 'age', outside the training tasks' 1 to 18" in warned
        at = self.told(model, ages=[60.0, 70.0])
        assert at[1][1] - at[1][0] == pytest.approx(10 / age.scale * target.scale)  # both are clamped to one place
        assert "(so do 1 other rows)" in at[2][0]
        assert self.told(model, ages=[19.0])[2] == []  # a little outside is nothing to speak of
        assert self.told(model, ages=[19.0])[1][0] > inside[0]

    def test_an_absurd_support_value_widens_by_as_much_as_it_can_have_moved(self, model):
        honest, half, _ = self.told(model)
        wrong, wide, (warned,) = self.told(model, KNOWN | {"height_cm": [85.0, 115.0, 138.0, 9999.0]})
        assert abs(wrong[0] - honest[0]) > 10 * half[0]
        assert abs(wrong[0] - honest[0]) < wide[0]
        assert 0.999 <= (wide[0] - half[0]) / (9999 - 195.1) < 2  # more than its distance: it fits badly, too
        assert "Row 4 of the table holds 9999 in the column 'height_cm', outside the training tasks' 67.3" in warned
        assert "correct it, or leave the row out" in warned

    def test_a_schema_of_an_older_run_ends_at_five_deviations(self, schema):
        told = json.loads(json.dumps(schema.to_dict()))
        for column in (*told["features"], told["target"]):
            del column["low"], column["high"]
        old = Schema.from_dict(told)
        frame = read({"age": [18.0, 1e3], "sex": ["boy", "boy"]})
        found = outside(old, frame, old.unbounded(frame))
        assert found.distance[0] == 0
        assert found.distance[1] == pytest.approx((1e3 - old.features[0].mean) / old.features[0].scale - 5)
        np.testing.assert_array_equal(clamped(old.unbounded(frame)), schema.x(frame))


@needs_curves
def test_the_command_warns_and_widens(tmp_path, capsys):
    words = ("--task", "child", "--x", "age", "sex", "--y", "height_cm", "--steps", 4, "--seeds", 1,
             "--validation-tasks", 4, "--no-report", "--run", tmp_path / "run")  # fmt: skip
    assert output(capsys, "train", "mixed", f"table:{DATA / 'curves' / 'growth.csv'}", *words)[0] == 0
    known, asked = pandas.DataFrame(KNOWN), pandas.DataFrame({"age": [8.0, 900.0], "sex": "girl"})
    known.to_csv(tmp_path / "s.csv", index=False)
    asked.to_csv(tmp_path / "q.csv", index=False)
    words = ("adapt", tmp_path / "run", "--support", tmp_path / "s.csv", "--query", tmp_path / "q.csv")
    code, told, said = output(capsys, *words)
    assert code == 0
    assert "Warning: Line 3 of" in said
    assert "holds 900.0 in the column 'age'" in said
    halves = [(float(line.split(",")[4]) - float(line.split(",")[3])) / 2 for line in told.splitlines()[1:]]
    assert halves[1] > 20 * halves[0]
    known.assign(height_cm=[85.0, 115.0, 138.0, 9999.0]).to_csv(tmp_path / "s.csv", index=False)
    told = json.loads(output(capsys, *words, "--json")[1])
    assert len(told["warnings"]) == 2
    assert "holds 9999.0 in the column 'height_cm'" in told["warnings"][0]
    assert told["low"][0] < 120 < told["high"][0]


@pytest.fixture(scope="module")
def fitted():
    table = heights()
    table.loc[::56, "height_cm"] = 9999
    with pytest.warns(UserWarning, match="52 values of 'y' lie far from all others: 9999 in 52 rows"):
        return FewShotRegressor("ridge", **SMALL).fit(table[["age", "sex"]], table["height_cm"], table["child"])


@needs_curves
class TestEstimators:
    def test_outliers_are_left_out_of_training(self, fitted):
        assert fitted.model_.problem.details.schema.target.high == pytest.approx(195.1)
        with pytest.raises(FewstepError, match=r"outliers is 'no'\. Known: clip, drop, keep"):
            FewShotRegressor("ridge", **SMALL, outliers="no").fit(np.ones((48, 1)), np.arange(48.0), np.arange(48) % 4)

    def test_far_rows_are_warned_of(self, fitted, tmp_path):
        known = pandas.DataFrame(KNOWN)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            one = fitted.adapt(known[["age", "sex"]], known["height_cm"])
            inside = one.predict_interval(known[["age", "sex"]])
        with pytest.warns(UserWarning, match="Row 4 of X holds 9999 in the column 'y'"):
            two = fitted.adapt(known[["age", "sex"]], [85.0, 115.0, 138.0, 9999.0])
        again = load(two.save(tmp_path / "task"))
        for model in (two, again):
            wide = model.predict_interval(known[["age", "sex"]])
            added = (wide["high"] - wide["low"]) / 2 - (inside["high"] - inside["low"]) / 2
            assert (added > 9000).all()
        with pytest.warns(UserWarning, match="Row 2 of X holds 60 in the column 'age'"):
            far = one.predict_interval(pandas.DataFrame({"age": [8.0, 60.0], "sex": "girl"}))
        assert far["high"][1] - far["low"][1] > 5 * (far["high"][0] - far["low"][0])


MADE = {"who": np.repeat([f"t{n}" for n in range(8)], 6), "age": np.arange(48.0), "size": np.arange(48.0) ** 2}


class TestMessages:
    """Cells that are no values, in words that say what they are."""

    @pytest.mark.parametrize("missing", ["refuse", "mean"])
    @pytest.mark.parametrize("cells", [lambda column: column, lambda column: column.astype(str).astype(object)])
    @pytest.mark.parametrize("name", ["age", "size"])
    def test_infinite_is_not_empty(self, name, cells, missing):
        column = MADE[name].copy()
        column[5] = -np.inf
        with pytest.raises(FewstepError, match=f"Row 6 of the table holds -inf in the column '{name}', which is inf"):
            make_table(read(MADE | {name: cells(column)}), Roles("who", ("age",), "size", None, missing))

    @pytest.mark.parametrize("value", [None, np.nan])
    def test_a_label_that_is_none(self, value):
        y = np.asarray(["a", "b"] * 24, object)
        y[3] = value
        said = rf"y holds {value} at row 3, which is not a class; 1 of 48 rows have none"
        with pytest.raises(FewstepError, match=said):
            FewShotClassifier("ridge", **SMALL).fit(MADE["age"][:, None], y, MADE["who"])
