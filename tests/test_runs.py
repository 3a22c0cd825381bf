"""Runs on disk: exact resume, damage found and passed over, nothing overwritten, disks that refuse."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import assert_equal

from fewstep import Experiment, FewstepError
from fewstep.experiments import build
from fewstep.machine import autotune, layout
from fewstep.machine.devices import Layout
from fewstep.machine.layout import choose
from fewstep.models import adapt, evaluate_model
from fewstep.problems import Plan
from fewstep.runs import checkpoint as checkpoints
from fewstep.runs import create_run, load, open_run, train_run
from fewstep.runs.train import silent
from fewstep.tasks import batch
from fewstep.training import first_state

pytestmark = pytest.mark.xdist_group("runs")  # one worker makes what they share
SMALL = Experiment(
    "mnet", "sinusoid", steps=24, hidden=(6,), shots=4, queries=4, log_every=5, validate_every=8, validation_tasks=10
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = create_run(tmp_path_factory.mktemp("runs") / "x", SMALL)
    train_run(run)
    return run


def state_of(run):
    return run.state(run.build())[0]


def test_a_run_holds_what_it_promises(finished):
    names = {path.name for path in finished.path.iterdir()}
    assert {"config.json", "metrics.csv", "checkpoints", "tensorboard"} <= names
    assert json.loads((finished.path / "config.json").read_text())["experiment"]["method"] == "mnet"
    rows = finished.log()
    assert [int(row[0]) for row in rows] == [5, 8, 10, 15, 16, 20, 24]
    assert [bool(row[4]) for row in rows] == [False, True, False, False, True, False, True]
    assert list((finished.path / "tensorboard" / "seed_0").glob("events*"))
    assert open_run(finished.path) == finished


@pytest.mark.parametrize("stops", [[7]])
@pytest.mark.slow
def test_raising_the_step_limit_gives_the_bits_of_one_run(finished, tmp_path, stops):
    for limit in [*stops, 24]:
        run = create_run(tmp_path / "y", SMALL.replace(steps=limit))
        train_run(run)
    assert_equal(state_of(finished), state_of(run))
    assert finished.metrics.read_text() == run.metrics.read_text()


def test_a_stop_by_signal_is_saved_and_resumed_exactly(finished, tmp_path):
    from fewstep.runs import Progress

    run = create_run(tmp_path / "y", SMALL)
    stop = Progress(
        lambda *_: None, lambda number, row: signal.raise_signal(signal.SIGINT) if number >= 6 else None, print
    )
    first = train_run(run, stop)
    assert first.interrupted
    assert 6 <= first.step < 24
    assert not train_run(run).interrupted
    assert_equal(state_of(finished), state_of(run))
    assert finished.metrics.read_text() == run.metrics.read_text()


@pytest.mark.slow
def test_rows_logged_after_the_last_checkpoint_are_dropped_on_resume(finished, tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(steps=10))
    train_run(run)
    with run.metrics.open("a") as file:
        file.write("15,0,9.9,9.9,\r\n20,0,9.9")  # what a killed process left behind, its last line half-written
    train_run(create_run(tmp_path / "y", SMALL))
    assert finished.metrics.read_text() == run.metrics.read_text()


def corrupt(run, step):
    """Flips one bit in the largest file of a checkpoint."""
    file = max(
        (run.checkpoints / f"{step:09d}" / "state").rglob("*"), key=lambda path: path.stat().st_size * path.is_file()
    )
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return file.name


def test_a_flipped_bit_is_found_named_and_the_one_before_used(finished, tmp_path):
    for limit in (10, 24):
        run = create_run(tmp_path / "y", SMALL.replace(steps=limit))
        train_run(run)
    assert checkpoints.checkpoint_steps(run.checkpoints) == [10, 24]
    name = corrupt(run, 24)
    state, messages = run.state(run.build())
    assert int(state.step) == 10
    assert len(messages) == 1
    assert "000000024 is damaged" in messages[0]
    assert name in messages[0]
    model = load(run.path)
    assert (model.step, model.notes) == (10, tuple(messages))
    train_run(run)
    assert_equal(state_of(finished), state_of(run))


def test_half_written_and_emptied_checkpoints_are_passed_over(tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(steps=10))
    train_run(run)
    (run.checkpoints / ".partial-000000020" / "state").mkdir(parents=True)
    (run.checkpoints / "000000015").mkdir()
    state, messages = run.state(run.build())
    assert int(state.step) == 10
    assert "checksums is missing" in messages[0]


def test_when_no_checkpoint_is_whole_nothing_is_trained_over_it(tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(steps=4))
    train_run(run)
    corrupt(run, 4)
    with pytest.raises(FewstepError, match=r"No checkpoint of .* is whole"):
        train_run(run)
    with pytest.raises(FewstepError, match="holds no whole checkpoint"):
        load(run.path)


def test_another_experiment_is_never_overwritten_silently(finished):
    before = (finished.path / "config.json").read_text()
    with pytest.raises(
        FewstepError, match=r"holds another experiment: `inner_lr` is 0.01 there and 0.5 here.*`overwrite=True`"
    ):
        create_run(finished.path, SMALL.replace(inner_lr=0.5))
    assert (finished.path / "config.json").read_text() == before


def test_overwrite_replaces_a_run_and_nothing_else(tmp_path):
    train_run(create_run(tmp_path / "y", SMALL.replace(steps=2)))
    run = create_run(tmp_path / "y", SMALL.replace(steps=2, shots=3), overwrite=True)
    assert checkpoints.checkpoint_steps(run.checkpoints) == []
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    with pytest.raises(FewstepError, match="not a run folder"):
        create_run(precious, SMALL, overwrite=True)
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_a_run_whose_configuration_is_damaged_can_be_replaced(tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(steps=2))
    train_run(run)
    (run.path / "config.json").write_text('{"fewstep": ')
    with pytest.raises(FewstepError, match=r"config.json is damaged.*`overwrite=True`"):
        open_run(run.path)
    assert checkpoints.checkpoint_steps(create_run(run.path, SMALL, overwrite=True).checkpoints) == []
    assert open_run(run.path).experiment == SMALL


def test_a_planned_schedule_cannot_be_prolonged(tmp_path):
    planned = SMALL.replace(schedule="cosine", steps=4)
    create_run(tmp_path / "y", planned)
    with pytest.raises(FewstepError, match="planned for 4 steps"):
        create_run(tmp_path / "y", planned.replace(steps=8))


def test_two_processes_do_not_train_one_run(finished):
    from fewstep.files import locked

    with locked(finished.path, "held"), pytest.raises(FewstepError, match="Another process is training"):
        train_run(finished)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's limit on file sizes")
def test_a_disk_that_takes_no_more_loses_nothing(tmp_path):
    """A process of its own that may write no file beyond 600 bytes: Orbax's threads are loud when they cannot write."""
    run = create_run(tmp_path / "y", SMALL.replace(steps=4))
    train_run(run)
    kept, config = state_of(run), (run.path / "config.json").read_text()
    code = (
        "import sys; from pathlib import Path; from fewstep import FewstepError\n"
        "from fewstep.runs import open_run\n"
        "import resource; run = open_run(Path(sys.argv[1])); state = run.state(run.build())[0]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "try: run.save(state._replace(step=state.step + 5))\n"
        "except FewstepError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.path)], capture_output=True, text=True, timeout=600)
    assert "Cannot write the checkpoint of step 9" in done.stdout
    assert "Earlier checkpoints are untouched" in done.stdout
    assert checkpoints.checkpoint_steps(run.checkpoints) == [4]
    assert_equal(state_of(run), kept)
    assert (run.path / "config.json").read_text() == config


def test_a_full_disk_is_said_before_writing_begins(finished, monkeypatch):
    monkeypatch.setattr(checkpoints, "_MARGIN", 10**18)  # no disk has that much room
    with pytest.raises(FewstepError, match=r"Cannot write the checkpoint of step 99 .* No space left on device"):
        checkpoints.save(finished.checkpoints, 99, state_of(finished), {})
    assert 99 not in checkpoints.checkpoint_steps(finished.checkpoints)


@pytest.mark.parametrize("where", ["file/run", "file"])
def test_folders_that_cannot_be_made_are_named(tmp_path, where):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(FewstepError, match=r"Cannot write|is a file"):
        create_run(tmp_path / where, SMALL)


def test_a_loss_that_is_not_finite_names_the_last_good_checkpoint(tmp_path):
    wild = SMALL.replace(outer_optimizer="sgd", outer_lr=1e15, steps=400)
    with pytest.raises(FewstepError, match=r"no longer finite at step \d+.*No checkpoint had been written yet"):
        train_run(create_run(tmp_path / "y", wild))
    with pytest.raises(FewstepError, match=r"no longer finite at step \d+.*last good checkpoint is that of step \d+"):
        train_run(create_run(tmp_path / "z", wild), save_seconds=0.0)


@pytest.mark.slow
def test_a_seed_that_diverges_alone_is_said_and_the_others_go_on(tmp_path):
    several = SMALL.replace(seeds=3, steps=8)
    run = create_run(tmp_path / "x", several)
    built = run.build()
    state = first_state(built.learner, built.optimizer, run.seeds)
    broken = jax.tree.map(lambda leaf: leaf.at[1].set(np.nan), state.meta)
    run.save(state._replace(meta=broken))
    said = []
    train_run(run, silent()._replace(say=said.append))
    assert any("The loss of seed 1 is not finite at step" in message for message in said)
    model = load(tmp_path / "x")
    assert len(model.finite) == 2
    (row,) = evaluate_model(model, Plan((4,), 6), steps=(1,))
    assert row.diverged_seeds == 1
    assert np.isfinite([row.mean, row.interval95, row.seed_std, row.median]).all()


@pytest.mark.slow
def test_several_seeds_and_the_best_parameters(tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(seeds=2))
    train_run(run)
    model = load(run.path)
    assert len(model.metas) == 2
    (row,) = evaluate_model(model, Plan((4,), 20), steps=(1,))
    assert row.seeds == 2
    assert row.seed_std > 0
    assert {int(line[1]) for line in run.log()} == {0, 1}
    best = load(run.path, which="best")
    scores = {0: {}, 1: {}}
    for line in run.log():
        if line[4]:
            scores[int(line[1])][int(line[0])] = float(line[4])
    assert [int(step) for step in state_of(run).best.step] == [min(scores[s], key=scores[s].get) for s in (0, 1)]
    assert jax.tree.structure(best.metas[0]) == jax.tree.structure(model.metas[0])


def test_adapting_a_loaded_run(finished):
    model = load(finished.path)
    x = np.linspace(-2, 2, 7, dtype=np.float32)[:, None]
    known = batch([0.0, 1.0], [1.0, 0.5])
    before, after = (adapt(model, known, steps=n).answer(x).mean for n in (0, 3))
    assert before.shape == after.shape == (7, 1)
    assert np.abs(before - after).max() > 0
    with pytest.raises(FewstepError, match="The support's x has 2 columns and the run was trained with 1"):
        adapt(model, batch(np.ones((2, 2)), [1.0, 2.0]))
    with pytest.raises(FewstepError, match="not finite after 60 inner steps"):
        adapt(model, batch([3e18, 1.0], [1e18, 0.5]), steps=60).answer(x)


@pytest.mark.parametrize(
    ("method", "links"),
    [
        ("mtnet", "metric+sgd+mask"),
        ("mtnet+rates", "metric+mask+rates"),
        ("metric+mask+rates", "metric+mask+rates"),
        ("metric+mask", "metric+sgd+mask"),
        ("maml+rates", "rates"),
        ("mtnet-full", "metric+sgd+full_mask"),
        ("meta-sgd", "rates"),
        ("anil+metric", "choice+metric+sgd"),
        ("fomaml", "sgd"),
        ("reptile", "optimizer"),
    ],
)
def test_methods_are_spelt_as_chains(method, links):
    assert build(Experiment(method, "sinusoid")).rule.name == links


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "mtnett"}, "Unknown method 'mtnett'. Did you mean 'mtnet'"),
        ({"method": "mtnet+rate"}, "Unknown link 'rate'. Did you mean 'rates'"),
        ({"method": "mtnet+mask"}, "holds mask twice"),
        ({"tasks": "sinus"}, "Unknown tasks 'sinus'. Did you mean 'sinusoid'"),
        ({"order": 2}, "`order` does not apply to mtnet on sinusoid"),
        ({"tasks": "polynomial", "phase": (0.0, 1.0)}, "`phase` does not apply to mtnet on polynomial"),
        ({"method": "maml", "draw": "expected"}, "`draw` does not apply to maml on sinusoid"),
        ({"method": "tnet", "temperature": 0.5}, "`temperature` does not apply to tnet on sinusoid"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"minibatch": 3}, "`minibatch` does not apply"),
        ({"method": "fomaml", "outer": "unrolled"}, "contradicts"),
        ({"clip_value": 1.0, "clip_norm": 1.0}, "Keep one"),
        ({"inner_lr": -0.1}, "`inner_lr` is -0.1"),
        ({"outer_lr": float("inf")}, "`outer_lr` is inf"),
        ({"shots": 0}, "`shots` is 0"),
        ({"hidden": (4, 0)}, "`hidden` is"),
    ],
)
def test_options_that_are_wrong_or_do_not_apply_are_refused(change, words):
    with pytest.raises(FewstepError, match=words):
        build(Experiment(**({"method": "mtnet", "tasks": "sinusoid"} | change)))


@pytest.mark.parametrize(
    "change",
    [
        {"method": "fomaml", "clip_value": 0.1, "schedule": "linear"},
        pytest.param({"method": "reptile", "clip_norm": 0.1}, marks=pytest.mark.slow),
        pytest.param(
            {"method": "mtnet+rates", "inner_optimizer": "adam", "remat": True, "inner_steps": 3},
            marks=pytest.mark.slow,
        ),
        {"devices": 2, "chunk": 1},
    ],
)
def test_every_option_trains(change, tmp_path):
    run = create_run(tmp_path / "y", SMALL.replace(steps=6, validate_every=100, **change))
    assert train_run(run).step == 6


def test_experiments_survive_json():
    one = SMALL.replace(amplitude=(1.0, 2.0), seeds=3)
    assert Experiment.from_json(one.to_json()) == one
    with pytest.raises(FewstepError, match="`odor` does not apply to maml on sinusoid"):
        Experiment.from_json('{"method": "maml", "tasks": "sinusoid", "odor": 3}')


def test_the_layout_follows_the_size_of_a_task():
    light = choose(SMALL)
    heavy = choose(SMALL.replace(hidden=(256, 256), shots=50, meta_batch=8))
    assert light == (1, None)
    assert heavy.chunk == 1
    assert choose(SMALL.replace(devices=3, chunk=2)) == (3, 2)


@pytest.mark.parametrize(("tasks", "hidden"), [("sinusoid", (40, 40)), ("table:x.csv", (64, 64))])
def test_the_layout_is_that_of_the_widths_a_network_has(tasks, hidden, monkeypatch):
    monkeypatch.setattr(layout, "cores", lambda: 2)
    plain = Experiment("mtnet", tasks)
    assert choose(plain) == choose(plain.replace(hidden=hidden))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by what Linux tells")
def test_light_tasks_start_jax_with_one_thread(tmp_path):
    script = """
import contextlib, glob, os
from fewstep.machine import layout
layout.prepare(layout.Layout(1, None), explicit=False)
layout.jax.devices()
names = []
for path in glob.glob("/proc/self/task/*/comm"):
    with contextlib.suppress(OSError), open(path) as file:  # a thread may end meanwhile
        names.append(file.read().strip())
print(sum("XLAEigen" in name for name in names), "PJRT_NPROC" in os.environ)
"""
    told = lambda **more: subprocess.run(
        [sys.executable, "-c", script], env=os.environ | more, capture_output=True, text=True, check=True
    ).stdout.split()
    assert told() == ["1", "False"]
    assert told(PJRT_NPROC="3") == ["3", "True"]  # the user's own number stands


def test_images_are_never_tried_all_at_once():
    images = Experiment("maml", "omniglot", meta_batch=8)
    assert Layout(1, None) not in autotune.candidates(images, Layout(2, 1))


def test_a_long_training_of_heavy_tasks_is_tried_out_once_and_keeps_its_layout(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    tried, said = [], []

    def rate(experiment, places):
        tried.append(places)
        return 10.0 if places == Layout(1, 2) else None if places.chunk is None else 5.0

    monkeypatch.setattr(autotune, "_rate", rate)
    monkeypatch.setattr(layout, "cores", lambda: 1)
    heavy = Experiment("maml", "sinusoid", hidden=(200, 200), shots=50, queries=50, steps=autotune.LONG)
    assert autotune.fastest(heavy, said.append) == Layout(1, 2)
    assert autotune.fastest(heavy.replace(seed=4), said.append) == Layout(1, 2)
    assert len(tried) == 4  # chunks of 1, 2 and 4 of the four tasks, and all of them; nothing the second time
    assert len(said) == 1
    short = heavy.replace(steps=100)
    asked = heavy.replace(chunk=3)
    assert autotune.fastest(short, said.append) == Layout(1, 1)
    assert autotune.fastest(asked, said.append) == Layout(1, 3)
    assert len(tried) == 4


@pytest.mark.slow
def test_a_layout_is_tried_in_a_process_of_its_own():
    heavy = Experiment("maml", "sinusoid", hidden=(4,), shots=2, queries=2)
    assert autotune._rate(heavy, Layout(1, 2)) > 0
