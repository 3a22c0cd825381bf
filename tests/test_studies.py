"""The studies of the universality paper: verdicts, cells, two of them as real commands; and warped images."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from helpers import DATA, needs_omniglot, output

import fewstep
from fewstep import FewstepError, data
from fewstep.data import make_set
from fewstep.experiments import build
from fewstep.models import evaluate_model, evaluate_places
from fewstep.networks import mlp
from fewstep.problems import Plan
from fewstep.runs import create_run, load, train_run
from fewstep_studies.reproduce import STUDIES, Results
from fewstep_studies.reproduce._folder import row_command
from fewstep_studies.reproduce._measurement import Measurement, Score

FULL = ("more-steps", "five-steps", "depth", "random-start", "out-of-range")
BOX = np.full((12, 12, 1), 255, np.uint8)
BOX[3:9, 3:9] = 0


def scored(mean, **more):
    return Score(mean, 0.1, mean, 0.1, 600, **more)


def found(scores, **more):
    return Measurement(1.0, scores=scores, **more)


def rows_of(study, cells, measurements):
    return study.rows(Results(study.full, list(zip(cells, measurements, strict=True))))


def verdicts(rows):
    return {(row.method, *row.setting.values()): row.verdict for row in rows if row.verdict}


@pytest.mark.parametrize(("after", "verdict"), [(0.9, "meets"), (1.0, "meets"), (1.1, "misses")])
def test_more_steps_are_not_to_harm(after, verdict):
    study = STUDIES["more-steps"]
    cells = study.cells(study.full)
    errors = [scored(after if steps == 50 else 1.0, inner_steps=steps) for steps in (0, 1, 5, 10, 20, 50, 100)]
    judged = [found(errors, elsewhere={name: errors for name, _ in cell.plan.elsewhere}) for cell in cells]
    said = verdicts(rows_of(study, cells, judged))
    assert set(said) == {("MAML", 50, where) for where in ("in range", "amplitude 5 to 10", "phase pi to 2 pi")}
    assert set(said.values()) == {verdict}


@pytest.mark.parametrize(
    ("maml", "told", "expected"),
    [((2.0, 1.0), (1.0, 0.9), ("meets", "meets")), ((1.0, 1.0), (1.0, 0.4), ("misses", "misses"))],
)
def test_depth_is_to_help_maml_alone(maml, told, expected):
    study = STUDIES["depth"]
    cells = study.cells(study.quick)
    error = {("MAML", 1): maml[0], ("MAML", 3): maml[1], ("told the task", 1): told[0], ("told the task", 3): told[1]}
    judged = [found([scored(error[cell.label, cell.setting["depth"]])]) for cell in cells]
    assert verdicts(rows_of(study, cells, judged)) == {("MAML", 3): expected[0], ("told the task", 3): expected[1]}


@pytest.mark.parametrize(
    ("maml", "random", "expected"), [(0.93, 0.75, ("meets", "meets")), (0.90, 0.80, ("misses", "misses"))]
)
def test_a_random_start_is_to_stay_behind(maml, random, expected):
    study = STUDIES["random-start"]
    cells = study.cells(study.full)
    scores = [
        [scored(last if steps == 100 else top, inner_steps=steps, transductive=True) for steps in (1, 5, 100)]
        for top, last in ((0.95, maml), (0.7, random))
    ]
    rows = rows_of(study, cells, [found(of, on_support=of) for of in scores])
    assert [row.verdict for row in rows if row.verdict] == list(expected)
    assert [cell.plan.length for cell in cells][1] == 0


@pytest.mark.parametrize(("ours", "expected"), [(1.0, {"meets"}), (3.0, {"misses"})])
def test_out_of_range_the_better_of_ours_is_held_against_those_that_read(ours, expected):
    study = STUDIES["out-of-range"]
    cells = [cell for cell in study.cells(study.full) if not cell.plan.images]
    error = {"MAML": 4.0, "MT-net": ours, "SNAIL": 2.0, "MetaNet": 2.5, "LSTM": 0.5}
    judged = [
        found(
            [scored(1.5 if cell.label == "MetaNet" else 1.1)],
            elsewhere={name: [scored(error[cell.label])] for name, _ in cell.plan.elsewhere},
        )
        for cell in cells
    ]
    said = verdicts(rows_of(study, cells, judged))
    far = {key: value for key, value in said.items() if key[3] != "in range"}
    assert {where for _, _, _, where in far} == {"amplitude 9", "phase 1.8 pi"}
    assert {method for method, *_ in far} == {"MT-net"}
    assert set(far.values()) == expected
    near = {method: value for (method, *_, where), value in said.items() if where == "in range"}
    assert near == {"SNAIL": "meets", "MetaNet": "misses", "LSTM": "meets"}


def test_a_row_tells_the_steps_that_make_it_again():
    study = STUDIES["out-of-range"]
    asked = dataclasses.replace(study.full, steps=35_000, only=("omniglot-maml",))
    (cell,) = (cell for cell in study.cells(asked) if cell.name == "omniglot-maml")
    assert cell.plan.length == 10_000
    assert "--steps 35000" in row_command(study, asked, cell.name, cell.plan.length, 1)
    assert "--steps" not in row_command(study, asked, "sine-maml", 70_000, 5)


@pytest.mark.parametrize("name", FULL)
def test_the_cells_can_be_built(name):
    study = STUDIES[name]
    for cell in study.cells(study.full):
        assert build(cell.plan.experiment).learner


def test_the_networks_of_all_depths_but_one_are_of_one_size():
    study = STUDIES["depth"]
    sizes = {}
    for cell in study.cells(study.full):
        if cell.label == "MAML":
            network = mlp(1, 1, hidden=cell.plan.experiment.hidden, bias_inputs=10)
            weights = jax.eval_shape(network.init, jax.random.key(0))
            sizes[cell.setting["depth"]] = sum(leaf.size for leaf in jax.tree.leaves(weights))
    assert sizes[1] < 4000
    assert all(41_000 < sizes[depth] < 43_500 for depth in (2, 3, 4, 5))


@pytest.mark.parametrize(
    ("name", "cells", "rows", "figures"),
    [
        pytest.param("more-steps", ["maml", "told"], 18, {"more-steps", "training-curves"}, marks=pytest.mark.slow),
        pytest.param("out-of-range", ["sine-maml", "sine-recurrent"], 6, {"out-of-range"}, marks=pytest.mark.slow),
        pytest.param("depth", ["maml-1", "told-1"], 2, {"error-by-depth", "training-curves"}, marks=pytest.mark.slow),
    ],
)
def test_a_study_as_a_command(name, cells, rows, figures, tmp_path, capsys):
    size = ["--quick", "--steps", "4", "--n-tasks", "3", "--seeds", "1"]
    code, printed, _ = output(capsys, "reproduce", name, *size, "--only", *cells, "--out", tmp_path / "o", "--json")
    assert code == 0
    result = json.loads(printed)
    assert len(result["rows"]) == rows
    assert all(np.isfinite(row["mean"]) for row in result["rows"])
    assert {path.stem for path in (tmp_path / "o" / "figures").glob("*.png")} == figures


@needs_omniglot
@pytest.mark.slow
def test_a_random_start_as_a_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    size = ["--quick", "--steps", "4", "--n-tasks", "3"]
    code, printed, _ = output(capsys, "reproduce", "random-start", *size, "--out", tmp_path / "o", "--json")
    assert code == 0
    assert {row["method"] for row in json.loads(printed)["rows"]} == {"MAML", "random start"}


@pytest.mark.slow
def test_several_places_are_judged_as_each_alone(tmp_path):
    run = create_run(tmp_path / "run", fewstep.Experiment("maml", "sinusoid", steps=2, hidden=(4,), shots=3))
    train_run(run)
    places = {"high": {"amplitude": (5.0, 10.0)}, "own": {}, "late": {"phase": (3.0, 6.0)}}
    plan, model = Plan((3,), n_tasks=5), load(run.path)
    scores = evaluate_places(model, places, plan, steps=(0, 1))
    for name, changes in places.items():
        assert scores[name] == evaluate_model(model, plan, steps=(0, 1), changes=changes)
    assert scores["high"][0].mean > scores["own"][0].mean


def test_a_network_is_told_its_curve():
    told = fewstep.tasks.sinusoid(3, 4, conditioned=True)
    plain = fewstep.tasks.sinusoid(3, 4)
    key = jax.random.key(0)
    episode, other = told.sample(told.data, key), plain.sample(plain.data, key)
    np.testing.assert_array_equal(episode.query.x[:, :1], other.query.x)
    np.testing.assert_array_equal(episode.query.y, other.query.y)
    height, speed, shift = episode.query.x[0, 1:]
    np.testing.assert_allclose(other.query.y, height * np.sin(speed * other.query.x - shift), rtol=1e-4)


def test_a_polynomial_divides_x():
    whole, half = fewstep.tasks.polynomial(3, 4, divisor=1.0), fewstep.tasks.polynomial(3, 4)
    key = jax.random.key(0)
    a, b = whole.sample(whole.data, key).query, half.sample(half.data, key).query
    np.testing.assert_array_equal(a.x, b.x)
    assert abs(np.asarray(a.y - b.y)).max() > 0.01


def test_bias_inputs_are_adapted_and_take_no_metric():
    network = mlp(1, 1, hidden=(4,), bias_inputs=3)
    learner = fewstep.gradient_learner(network, fewstep.rules.mtnet(0.1), fewstep.losses.squared_error)
    meta = learner.init(jax.random.key(0))
    assert meta["weights"]["dense_0"]["kernel"].shape == (4, 4)
    support = fewstep.batch([[0.0], [1.0]], [[1.0], [2.0]])
    assert learner.adapt(meta, jax.random.key(0), support, 1).fast["beside/x"].shape == (3,)
    assert "beside" not in meta["metric"]


class TestWarped:
    """What is drawn is a black box in the middle of white."""

    plain = make_set({"box": BOX[None]})

    def test_nothing_asked_nothing_done(self):
        np.testing.assert_array_equal(data.warp(self.plain, 12).images, self.plain.images)

    def test_a_zoom_makes_it_smaller(self):
        dark = lambda zoom: (255.0 - data.warp(self.plain, 12, zoom=zoom).images).sum()
        assert dark(0.5) == pytest.approx(dark(1.0) / 4, rel=0.1)

    def test_a_shear_moves_the_upper_edge_one_way_and_the_lower_the_other(self):
        made = 255.0 - data.warp(self.plain, 12, shear=0.5).images[0, :, :, 0]
        middle = lambda row: (made[row] * np.arange(12)).sum() / made[row].sum()
        assert middle(3) - middle(8) == pytest.approx(2.5, abs=0.3)
        assert made.sum() == pytest.approx(36 * 255, rel=0.05)

    @pytest.mark.parametrize("wrong", [{"zoom": 0.0}, {"zoom": float("nan")}, {"shear": float("inf")}])
    def test_what_cannot_be_is_refused(self, wrong):
        with pytest.raises(FewstepError, match="must be finite"):
            data.warp(self.plain, 12, **wrong)


@pytest.mark.parametrize("name", ["curves", "depth", "layerwise", "universality"])
def test_a_seed_below_0_is_said(name, tmp_path, capsys):
    code, _, told = output(capsys, "reproduce", name, "--seed=-1", "--out", tmp_path / "x")
    assert code == 2
    assert "--seed is -1" in told
    assert not (tmp_path / "x").exists()
