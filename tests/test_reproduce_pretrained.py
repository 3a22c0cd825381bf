"""The study of pretrained encoders: its cells, its verdicts and tables; a training of it is in test_reproduce_twice."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import output

from fewstep import FewstepError, learners
from fewstep.runs import Run
from fewstep_studies.reproduce import STUDIES, Result, Results, tables_of
from fewstep_studies.reproduce._folder import gather
from fewstep_studies.reproduce._measurement import Measurement, Score

STUDY = STUDIES["pretrained"]


def results_of(accuracy):
    """The results of the cells of CLINC150 with one shot, of so much accuracy each."""
    cells = [cell for cell in STUDY.cells(STUDY.full) if {"clinc150", "1shot"} <= {*cell.groups}]
    found = [(cell, accuracy[cell.groups[1]]) for cell in cells if cell.groups[1] in accuracy]
    score = lambda mean, ways: Score(mean, 0.01, mean, 0.001, 600, ways=ways, shots=1, inner_steps=0)
    pairs = [(cell, Measurement(99.0, 20.0, scores=[score(mean, 5), score(mean - 0.1, 20)])) for cell, mean in found]
    return Results(STUDY.full, pairs)


def test_each_method_stands_with_both_sets_and_shots():
    cells = STUDY.cells(STUDY.full)
    assert len({cell.name for cell in cells}) == len(cells) == 2 * (11 + 8 + 11)
    assert {cell.plan.length for cell in cells if cell.groups[1] in ("nearest", "logistic", "discriminant")} == {0}
    blocks = [cell.plan.experiment for cell in cells if cell.groups[1].endswith("blocks")]
    assert all(experiment.encoder_depth > 0 for experiment in blocks)
    mirrored = [cell.plan.experiment for cell in cells if cell.groups[0] == "cifar-fs-mirrored"]
    assert {(one.encoder_mirror, one.per_class, one.encoder_depth) for one in mirrored} == {("yes", 600, 0)}


def test_a_row_is_compared_with_the_nearest_mean():
    results = results_of({"nearest": 0.9, "logistic": 0.905, "metric": 0.93, "maml": 0.85})
    rows = STUDY.rows(results)
    assert [row.verdict for row in rows if row.setting["ways"] == 20] == [
        "", "as nearest mean", "above nearest mean", "below nearest mean"
    ]  # fmt: skip
    (table,) = tables_of(STUDY, Result("pretrained", "", False, {}, rows, "", {}, 2, None))
    assert table.head == ["CLINC150", "5-way 1-shot", "20-way 1-shot", "training, s"]
    assert table.body[0] == ["nearest mean", "90.0 ± 1.0", "80.0 ± 1.0", "-"]
    assert table.body[2] == ["prototypes + metric", "93.0 ± 1.0", "83.0 ± 1.0", "10"]  # 600 steps at 20 per s, 3 seeds
    (figure,) = STUDY.figures(results)
    assert ("CLINC150, 20 ways, 1 shots", "prototypes + metric", 10.0, 0.93 - 0.1, 0.01) in figure.data


def test_missing_texts_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEWSTEP_DATA", str(tmp_path))
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = ("reproduce", "pretrained", "--quick", "--only", "clinc150-nearest-1shot", "--out", "out")
    code, _, error = output(capsys, *command)
    assert (code, "There is no text/clinc150.csv" in error) == (2, True)


def test_what_a_run_finds_in_its_data_is_no_other_training(tmp_path):
    cell = STUDY.cells(STUDY.full)[0]
    begun = cell.plan.experiment.replace(center=(0.0, 0.25))
    (tmp_path / "cells" / cell.name).mkdir(parents=True)
    Run(tmp_path / "cells" / cell.name, begun).write_config()
    assert [of.name for of, _ in gather(STUDY, tmp_path, STUDY.full).all] == [cell.name]
    Run(tmp_path / "cells" / cell.name, begun.replace(queries=3)).write_config()
    with pytest.raises(FewstepError, match="queries is 3 there and 5 here"):
        gather(STUDY, tmp_path, STUDY.full)


def test_a_row_that_is_under_way_has_its_command(tmp_path):
    cell = STUDY.cells(STUDY.full)[0]
    (tmp_path / "cells" / cell.name).mkdir(parents=True)
    Run(tmp_path / "cells" / cell.name, cell.plan.experiment).write_config()
    from fewstep_studies.reproduce._folder import unfinished

    options = dataclasses.replace(STUDY.full, only=("cifar-fs",))
    (row,) = unfinished(STUDY, gather(STUDY, tmp_path, options))
    assert row.command == f"fewstep reproduce pretrained --only {cell.name} --resume"


def test_ridge_answers_for_fewer_classes_than_it_was_trained_with():
    from fewstep import Batch, network

    rows = network(lambda key: {}, lambda params, x: x, jnp.ones((2, 6)))
    meta = learners.ridge(rows, 6, 5, classes=True).init(jax.random.key(0))
    three = learners.ridge(rows, 6, 3, classes=True)
    support = Batch(jnp.eye(3, 6), jnp.arange(3), jnp.ones(3))
    adapted = three.adapt(meta, jax.random.key(0), support, 0)
    assert np.asarray(three.predict(meta, adapted, support.x)).argmax(1).tolist() == [0, 1, 2]
