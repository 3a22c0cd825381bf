"""A run folder for a learner and tasks of one's own: checkpoints, exact resume, a log, a report."""

import csv

import jax
import numpy as np
import pytest

import fewstep
from fewstep import FewstepError, losses, networks, rules, tasks
from fewstep.runs import RunFolder

LEARNER = fewstep.gradient_learner(networks.mlp(hidden=(6,)), rules.mtnet(0.01), losses.squared_error)
SINE = tasks.sinusoid(3, 3)


def trained(steps, run=None, learner=LEARNER, **options):
    return fewstep.train(learner, SINE, steps=steps, seed=(0, 1), log_every=2, run=run, **options)


def test_a_training_that_stopped_is_resumed_bit_for_bit(tmp_path):
    whole = trained(8)
    stop = lambda state, rows: int(state.step) >= 3
    part = trained(8, RunFolder(tmp_path / "run", save_seconds=0), on_segment=stop)
    assert 3 <= int(part.state.step) < 8
    resumed = trained(8, RunFolder(tmp_path / "run"))
    jax.tree.map(np.testing.assert_array_equal, resumed.meta, whole.meta)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["seed"]) for row in rows] == [(str(s), str(n)) for s in (2, 4, 6, 8) for n in (0, 1)]
    losses_of = [row.loss[0] for row in whole.log]
    assert [float(row["loss"]) for row in rows if row["seed"] == "0"] == losses_of
    assert "Trained 8 steps" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
def test_a_finished_training_is_not_done_again(tmp_path):
    first = trained(4, RunFolder(tmp_path / "run"))
    again = trained(4, RunFolder(tmp_path / "run"))
    jax.tree.map(np.testing.assert_array_equal, again.meta, first.meta)
    assert again.log == []


def test_another_learner_does_not_fit_the_folder(tmp_path):
    trained(2, RunFolder(tmp_path / "run"))
    wider = fewstep.gradient_learner(networks.mlp(hidden=(7,)), rules.mtnet(0.01), losses.squared_error)
    with pytest.raises(FewstepError, match="holds other arrays"):
        trained(4, RunFolder(tmp_path / "run"), wider)


def test_a_folder_is_held_by_one_training(tmp_path):
    run, state = RunFolder(tmp_path / "run"), trained(0).state
    run.resume(state)
    with pytest.raises(FewstepError, match="Another process is training"):
        trained(2, RunFolder(tmp_path / "run"))
    run.finish(state)
    trained(2, RunFolder(tmp_path / "run"))
