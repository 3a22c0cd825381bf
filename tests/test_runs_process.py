"""Runs that several processes want at once, and runs whose files were changed between two of them."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from fewstep import Experiment, FewstepError
from fewstep.cli import main
from fewstep.runs import checkpoint as checkpoints
from fewstep.runs import create_run, load, open_run, train_run
from fewstep.runs.train import silent

pytestmark = pytest.mark.xdist_group("runs")
SMALL = Experiment("maml", "sinusoid", steps=20, hidden=(4,), shots=3, queries=3, log_every=5, validation_tasks=4)
SIZES = ["--hidden", "4", "--shots", "3", "--queries", "3", "--log-every", "5", "--no-report", "--no-tune"]


def fewstep(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "fewstep", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    run = create_run(tmp_path_factory.mktemp("runs") / "x", SMALL)
    train_run(run)
    return run


@pytest.fixture
def copy(finished, tmp_path):
    """A finished run that a test may spoil."""
    shutil.copytree(finished.path, tmp_path / "copy")
    return open_run(tmp_path / "copy")


def test_a_run_in_progress_is_neither_replaced_nor_reconfigured(tmp_path, capsys):
    path = tmp_path / "run"
    trainer = fewstep("train", "maml", "sinusoid", *SIZES, "--steps", 10**7, "--run", path, "--save-every", "0.2")
    try:
        deadline = time.monotonic() + 600
        while not checkpoints.checkpoint_steps(path / "checkpoints") and time.monotonic() < deadline:
            time.sleep(0.05)
        config = (path / "config.json").read_text()
        for others in (["--steps", 10**7, "--seed", 5, "--overwrite"], ["--steps", 99]):
            assert main(["train", "maml", "sinusoid", *map(str, (*SIZES, *others, "--run", path))]) == 2
            assert f"Another process is training {path}" in capsys.readouterr().err
            assert (path / "config.json").read_text() == config
    finally:
        trainer.send_signal(signal.SIGINT)
        said = trainer.communicate(timeout=600)[1]
    assert trainer.returncode == 130, said
    assert load(path).step == checkpoints.checkpoint_steps(path / "checkpoints")[-1]  # still the first one's, and whole


def test_a_run_that_was_replaced_meanwhile_is_not_trained(tmp_path):
    first = create_run(tmp_path / "run", SMALL)
    create_run(tmp_path / "run", SMALL.replace(shots=4), overwrite=True)
    with pytest.raises(FewstepError, match=r"replaced .* meanwhile: `shots` is 4 there and 3 here"):
        train_run(first)


def test_steps_cannot_be_taken_back(copy, capsys):
    config = (copy.path / "config.json").read_text()
    words = ["train", "maml", "sinusoid", *SIZES, "--validation-tasks", "4", "--run", str(copy.path)]
    assert main([*words, "--steps", "11"]) == 2
    assert "has reached step 20 and --steps is 11" in capsys.readouterr().err
    assert (copy.path / "config.json").read_text() == config


def test_a_damaged_checkpoint_is_refused_before_the_configuration_changes(copy):
    config = (copy.path / "config.json").read_text()
    (copy.checkpoints / "000000020" / "checksums.json").unlink()
    with pytest.raises(FewstepError, match=r"No checkpoint of .* is whole"):
        train_run(create_run(copy.path, SMALL.replace(steps=40)))
    assert (copy.path / "config.json").read_text() == config


@pytest.mark.parametrize("command", ["eval", "adapt"])
def test_a_configuration_that_did_not_make_the_checkpoints_is_refused(copy, command, tmp_path, capsys):
    config = json.loads((copy.path / "config.json").read_text())
    config["experiment"]["inner_lr"] = 0.5  # of no shape: only the digest can tell
    (copy.path / "config.json").write_text(json.dumps(config))
    (tmp_path / "support.csv").write_text("x,y\n0,1\n1,2\n")
    files = ["--support", str(tmp_path / "support.csv"), "--query", str(tmp_path / "support.csv")]
    assert main([command, str(copy.path), *(files if command == "adapt" else [])]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "was made by another experiment than config.json describes" in said
    assert "--inner-lr is 0.01 there and 0.5 here" in said
    with pytest.raises(FewstepError, match="another experiment"):
        train_run(open_run(copy.path))


OLD = {
    "method": "mtnet", "tasks": "sinusoid", "steps": 3, "hidden": [4], "shots": 3, "start": "he", "inner_lr": None,
    "inner_optimiser": "adam", "remat": False, "amplitude": [1.0, 2.0], "classes": None, "validation_tasks": 4,
}  # fmt: skip


@pytest.mark.parametrize(("command", "has_checkpoints"), [("eval", True), ("train", False)])
def test_a_run_of_an_older_version_is_refused_with_the_command_that_makes_it_anew(
    copy, command, has_checkpoints, capsys
):
    (copy.path / "config.json").write_text(json.dumps({"fewstep": "0.1", "experiment": OLD}))
    if not has_checkpoints:
        shutil.rmtree(copy.checkpoints)
    words = {"eval": ["eval", str(copy.path)], "train": ["train", "maml", "sinusoid", "--run", str(copy.path)]}
    assert main(words[command]) == 2
    said = capsys.readouterr().err
    assert "was made by an older version of fewstep, 0.1" in said
    _, _, anew = said.strip().partition("Train it anew: fewstep ")
    assert main([*shlex.split(anew), "--no-report"]) == 0
    experiment = load(copy.path).experiment
    assert (experiment.method, experiment.steps, experiment.init, experiment.inner_optimizer) == (
        "mtnet", 3, "he", "adam",
    )  # fmt: skip
    assert (experiment.hidden, experiment.amplitude) == ((4,), (1.0, 2.0))


def test_a_run_of_a_newer_version_is_refused(copy, capsys):
    config = json.loads((copy.path / "config.json").read_text())
    assert config["version"] == 2
    text = json.dumps(config | {"version": 3, "fewstep": "9.0"})
    (copy.path / "config.json").write_text(text)
    assert main(["eval", str(copy.path)]) == 2
    assert "was made by a newer version of fewstep, 9.0. Update fewstep: pip install -U" in capsys.readouterr().err
    assert (copy.path / "config.json").read_text() == text


def test_a_planned_number_of_steps_belongs_to_what_made_a_checkpoint(tmp_path):
    run = create_run(tmp_path / "run", SMALL.replace(steps=4, schedule="cosine"))
    train_run(run)
    config = json.loads((run.path / "config.json").read_text())
    config["experiment"]["steps"] = 8
    (run.path / "config.json").write_text(json.dumps(config))
    with pytest.raises(FewstepError, match="`steps` is 4 there and 8 here"):
        load(run.path)


@pytest.mark.parametrize("spoil", ["deleted", "truncated"])
def test_a_log_that_was_lost_is_written_anew(finished, copy, spoil):
    text = copy.metrics.read_bytes()
    copy.metrics.unlink()
    if spoil == "truncated":
        copy.metrics.write_bytes(text[: len(text) // 2])
    train_run(create_run(copy.path, SMALL.replace(steps=25)))
    assert copy.metrics.read_bytes().startswith(text)
    assert [int(line[0]) for line in copy.log()] == [5, 10, 15, 20, 25]


def test_a_log_that_an_older_checkpoint_cannot_restore_is_reported(copy):
    checkpoint = copy.checkpoints / "000000020"
    for name in ("metrics.csv", "experiment.json"):  # as an earlier version wrote it
        (checkpoint / name).unlink()
    sums = json.loads((checkpoint / "checksums.json").read_text())
    kept = {name: digest for name, digest in sums.items() if (checkpoint / name).exists()}
    (checkpoint / "checksums.json").write_text(json.dumps(kept))
    said = []
    train_run(create_run(copy.path, SMALL), silent()._replace(say=said.append))
    assert not said
    copy.metrics.unlink()
    train_run(create_run(copy.path, SMALL), silent()._replace(say=said.append))
    assert any("has lost rows up to step 20" in message for message in said)


DEVICES = """
import sys
import jax
from fewstep.cli import main
from fewstep.experiments import Built
inner = Built.train
def watched(*args, mesh=None, **more):
    print("devices", 1 if mesh is None else mesh.size)
    return inner(*args, mesh=mesh, **more)
Built.train = watched
print("code", main(sys.argv[1:]))
"""
TABLE = "task,x,y\n" + "".join(f"t{task},{row},{task * row}\n" for task in range(12) for row in range(12))
KINDS = {
    "asked": (["sinusoid", "--devices", "2"], 2),
    "table": (["table:t.csv", "--task", "task", "--x", "x", "--y", "y"], 2),
    "images": (["folder:photos", "--ways", "2", "--image-size", "8", "--filters", "2", "--blocks", "1"], 2),
}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has nothing to spread tasks over")
@pytest.mark.parametrize(
    "kind", ["asked", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("table", "images"))]
)
def test_a_new_process_uses_its_devices(kind, tmp_path):
    """The number of devices in use, for each kind of tasks, chosen and asked for."""
    from PIL import Image

    (tmp_path / "t.csv").write_text(TABLE)
    for number in range(12 if kind == "images" else 0):
        (tmp_path / "photos" / f"class{number}").mkdir(parents=True)
        for shade in range(8):
            Image.new("RGB", (8, 8), (number * 20, shade * 30, 0)).save(
                tmp_path / "photos" / f"class{number}" / f"{shade}.png"
            )
    words, devices = KINDS[kind]
    command = ["train", "maml", *words, "--steps", "1", "--validation-tasks", "2", "--no-report", "--no-tune"]
    process = subprocess.run(
        [sys.executable, "-c", DEVICES, *command, "--run", "run"], cwd=tmp_path, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert process.stdout.split() == ["devices", str(devices), "code", "0"], process.stderr


def test_devices_that_cannot_be_made_any_more_are_reported(tmp_path, monkeypatch):
    heavy = SMALL.replace(hidden=(400, 400), shots=50, meta_batch=64, steps=1)
    monkeypatch.setattr("fewstep.machine.layout.cores", lambda: 64)  # more than JAX has started with
    said = []
    train_run(create_run(tmp_path / "run", heavy), silent()._replace(say=said.append))
    assert any("of 64 devices: JAX had started before they could be made" in message for message in said)


def test_a_budget_of_time_sets_the_steps_and_a_resumed_run_keeps_them(tmp_path, capsys):
    words = ["train", "maml", "sinusoid", *SIZES, "--validation-tasks", "4", "--run", str(tmp_path / "run")]
    assert main([*words, "--budget", "1s", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["step"]
    assert 1 <= first < SMALL.steps * 1000
    assert open_run(tmp_path / "run").experiment.steps == first
    assert main([*words, "--budget", "1s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"] == first
    assert main([*words, "--budget", "1s", "--steps", "5"]) == 2
    assert "Keep one" in capsys.readouterr().err
    assert main([*words, "--budget", "soon"]) == 2
    assert "Give a time such as" in capsys.readouterr().err
