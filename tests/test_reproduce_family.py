"""The study of the family: its grid, what a step needs and takes, its tables; a quick run of it."""

import dataclasses
import json

import pytest
from helpers import output

from fewstep import rules
from fewstep.experiments import Experiment
from fewstep_studies.reproduce import STUDIES, Result, Results, tables_of, write_figure
from fewstep_studies.reproduce._folder import chosen
from fewstep_studies.reproduce._measurement import Measurement, Score
from fewstep_studies.reproduce._speed import Rate
from fewstep_studies.reproduce.family._cells import FamilyOptions, Timing
from fewstep_studies.reproduce.family._measure import Found, StepNeeds, needs_of

STUDY = STUDIES["family"]
IN_PARTS = {"metric", "mask", "full_mask", "rates", "step_rates", "step_norm", "learned_loss"}  # of other methods


def test_every_rule_is_trained_with_one_and_with_five_inner_steps():
    cells = STUDY.cells(STUDY.full)
    assert len({cell.name for cell in cells}) == len(cells)
    of_sine = {steps: {c.label for c in cells if c.name.startswith(f"sine-{steps}step")} for steps in (1, 5)}
    assert of_sine[1] == of_sine[5] > {*rules.RULES, *(rules.LINKS.keys() - IN_PARTS)}
    trained = [cell.plan.experiment for cell in cells if not isinstance(cell.plan, Timing)]
    assert {it.inner_steps for it in trained if it.tasks == "sinusoid"} == {1, 5}
    assert sum(it.tasks == "cifar-fs" for it in trained) == 10
    assert {it.devices for it in trained if it.tasks == "cifar-fs"} == {1}


def test_only_takes_kinds_of_cells_and_methods():
    few = FamilyOptions(quick=True)
    taken = lambda *only: [cell.name for cell in chosen(STUDY, dataclasses.replace(few, only=only))]
    assert taken("timing") == ["timing-sine-1step", "timing-sine-5steps", "timing-cifar-fs"]
    assert taken("mtnet", "sine") == ["sine-1step-mtnet", "sine-5steps-mtnet"]


def results():
    """Of MAML everything, of MT-net with five steps no cost, and one of three seeds diverged."""
    cells = {cell.name: cell for cell in STUDY.cells(STUDY.full)}
    score = Score(1.25, 0.1, 1.0, 0.02, 600, shots=10, inner_steps=1)
    rate = Rate(900.0, 800.0, 1000.0, 2.0, 1.0, 1, 0.001, 1.0)
    accuracy = [Score(0.4 + 0.1 * (n == 10), 0.01, n_tasks=600, ways=5, shots=1, inner_steps=n, norm=norm)
                for norm in ("transductive", "support") for n in (1, 10)]  # fmt: skip
    found = {
        "sine-1step-maml": Found(Measurement(9.0, scores=[score]), StepNeeds(1761, 0.5)),
        "sine-5steps-mtnet": Found(Measurement(9.0, diverged_seeds=1, scores=[score]), StepNeeds(5043, 2.0)),
        "cifar-fs-maml": Found(Measurement(9.0, scores=accuracy), StepNeeds(29_000, 40.0), 4.0),
        "timing-sine-1step": Found(rates={"maml": rate}),
        "timing-cifar-fs": Found(rates={"maml": rate._replace(processor_seconds=0.1)}),
    }
    return Results(STUDY.full, [(cells[name], it) for name, it in found.items()])


def test_tables_show_errors_with_what_a_step_needs_and_takes(tmp_path):
    made = results()
    rows = STUDY.rows(made)
    sine, images = tables_of(STUDY, Result("family", "", False, {}, rows, "", {}, 2, None))
    assert sine.body == [
        ["maml", "1.250 ± 0.100, std 0.020", "-", "1,761", "0.50", "1.00", "1.00"],
        ["mtnet", "-", "1.250 ± 0.100, std 0.020 (1 of 3 seeds diverged)", "5,043", "2.00", "-", "-"],
    ]
    assert images.body == [
        ["maml", "40.0 ± 1.0", "50.0 ± 1.0", "40.0 ± 1.0", "5,000", "29,000", "40.00", "100.00", "1.00"]
    ]
    assert {(row.setting["minutes"], row.setting["cores"]) for row in rows if row.metric == "accuracy"} == {(4.0, 1)}
    (figure,) = STUDY.figures(made)
    assert [row[:4] for row in figure.data] == [
        ("sine waves, 1 inner step", "maml", 1.0, 1.25), ("CIFAR-FS, 1 inner step", "maml", 1.0, 0.4),
        ("CIFAR-FS, 10 inner steps", "maml", 1.0, 0.5),
    ]  # fmt: skip
    write_figure(tmp_path, figure, "")
    assert (tmp_path / "accuracy-by-cost.png").exists()


@pytest.mark.slow
def test_what_a_step_needs_is_counted():
    maml, rated = (needs_of(Experiment(name, "sinusoid", hidden=(4,))) for name in ("maml", "meta_sgd"))
    assert (maml.meta_parameters, rated.meta_parameters) == (13, 26)
    assert 0 < maml.memory_mb < 1


@pytest.mark.slow
def test_a_quick_run_is_measured_apart_and_resumed(tmp_path, capsys):
    command = ["reproduce", "family", "--quick", "--steps", "5", "--n-tasks", "4", "--out", str(tmp_path), "--json"]
    code, printed, _ = output(capsys, *command, "--only", "sine")
    assert code == 0
    assert all("times_maml" not in row for row in json.loads(printed)["rows"])
    code, printed, _ = output(capsys, *command, "--only", "timing-sine-1step", "--resume")
    timed = [row for row in json.loads(printed)["rows"] if "times_maml" in row]
    assert (code, len(timed)) == (0, 2)
    assert {row["setting"]["inner steps"] for row in timed} == {1}
