"""Several processes that train one run: real ones, on this machine."""

import csv
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers import output

from fewstep import Experiment, FewstepError
from fewstep.cli import main
from fewstep.cli._launch import with_separator
from fewstep.machine import distributed
from fewstep.machine.cluster import Place, find_place, local_device
from fewstep.machine.devices import Layout
from fewstep.runs import checkpoint as checkpoints
from fewstep.runs import create_run, open_run, train_run

pytestmark = pytest.mark.xdist_group("launch")  # one worker makes what they share
# One experiment for all of them, because compiling is most of the time they take and a second one finds it compiled. A
# meta-batch of 5 does not divide by 2.
EXPERIMENT = Experiment(
    "mnet", "sinusoid", steps=6, meta_batch=5, hidden=(6,), shots=4, queries=4, log_every=4, validate_every=100,
    validation_tasks=10,
)  # fmt: skip
SMALL = ["--meta-batch", "5", "--hidden", "6", "--shots", "4", "--queries", "4", "--validation-tasks", "10"]
TRAIN = ["train", "mnet", "sinusoid", *SMALL, "--log-every", "4", "--validate-every", "100", "--no-report"]
RESUME = "Run the same command to go on from the last checkpoint."


def fewstep(*args):
    return subprocess.Popen(
        [sys.executable, "-m", "fewstep", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process, timeout=240):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()  # a launcher passes it on
        pytest.fail(f"still running: {process.communicate(timeout=30)}")
    return process.returncode, out, err


def column(path, name):
    with (path / "metrics.csv").open() as file:
        return np.array([float(row[name] or "nan") for row in csv.DictReader(file)])


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """A run of 200 steps by 2 processes with 1 device each."""
    path = tmp_path_factory.mktemp("launch") / "x"
    code, out, err = ended(fewstep("launch", "--processes", 2, *TRAIN, "--steps", 200, "--run", path))
    assert (code, out) == (0, ""), err
    assert err.count("step 0 of 200, compiling") == 1  # process 0 alone speaks
    assert "Gloo" not in err
    return path


def test_two_processes_give_the_losses_of_one_with_two_devices(two, tmp_path):
    options = ["--steps", "200", "--devices", "2", "--run", str(tmp_path / "y")]
    assert main([*TRAIN, *options]) == 0
    for name in ("loss", "gradient_norm", "validation"):
        assert len(column(two, name)) == 50
        np.testing.assert_allclose(column(two, name), column(tmp_path / "y", name), rtol=1e-5, atol=1e-5)


def test_a_run_of_two_processes_goes_on_in_one(two, capsys):
    code, _, err = output(capsys, *TRAIN, "--steps", 212, "--run", two)
    assert code == 0
    assert "Going on from step 200" in err
    assert column(two, "step").tolist() == [*range(4, 213, 4)]
    assert list((two / "tensorboard" / "seed_0").glob("events*"))


TOGETHER = """
import hashlib, json, sys
from pathlib import Path
import jax, numpy as np
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), cluster_detection_method="deactivate")
from fewstep.experiments import Experiment
from fewstep.runs import create_run, open_run, train_run

def digest(state):
    leaves = jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()

ours = create_run(Path(sys.argv[3]), Experiment.from_json(sys.argv[4]))
trained = train_run(ours).state
theirs = open_run(Path(sys.argv[5]))
print(json.dumps([jax.process_count(), digest(trained), digest(theirs.state(theirs.build())[0])]))
"""


def digest(state):
    leaves = jax.tree.leaves(state._replace(key=jax.random.key_data(state.key)))
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()


@pytest.mark.slow
def test_checkpoints_are_the_same_bits_for_any_number_of_processes(tmp_path):
    """What two processes wrote is read by one, and what one wrote by two."""
    alone = create_run(tmp_path / "one", EXPERIMENT)
    written = digest(train_run(alone).state)
    address = f"127.0.0.1:{free_port()}"
    given = [tmp_path / "two", EXPERIMENT.to_json(), tmp_path / "one"]
    both = [
        subprocess.Popen([sys.executable, "-c", TOGETHER, address, number, *given], stdout=subprocess.PIPE, text=True)
        for number in "01"
    ]
    told = [json.loads(ended(process)[1].splitlines()[-1]) for process in both]
    assert told[0] == told[1]
    assert told[0][0] == 2
    assert told[0][2] == written
    run = open_run(tmp_path / "two")
    state, messages = run.state(run.build())
    assert (digest(state), messages) == (told[0][1], [])
    folder = run.checkpoints / f"{checkpoints.checkpoint_steps(run.checkpoints)[-1]:09d}"
    assert {path.name for path in (folder / "state").glob("ocdbt.process_*")}  # by Orbax's way for several processes
    checkpoints.verify(folder)


def free_port():
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def children(process):
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def until(condition, process, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            process.send_signal(signal.SIGTERM)
            pytest.fail(str(ended(process)))
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
@pytest.mark.slow
@pytest.mark.parametrize("killed", [1, 0])
def test_one_killed_ends_the_others_and_the_run_goes_on_until_ctrl_c(tmp_path, killed):
    path = tmp_path / "x"
    command = ["launch", "--processes", 2, "--", *TRAIN, "--steps", 10**7, "--save-every", 0.5, "--run", path]
    process = fewstep(*command)
    until(lambda: checkpoints.checkpoint_steps(path / "checkpoints"), process)
    pids = children(process)
    assert len(pids) == 2
    os.kill(pids[killed], signal.SIGKILL)
    begin = time.monotonic()
    code, _, err = ended(process)
    assert code == 1
    assert time.monotonic() - begin < 30
    assert (
        f"fewstep: Process {killed} of 2 was ended by signal 9 (SIGKILL), so the others were ended too. {RESUME}" in err
    )
    assert err.count("fewstep:") == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    reached = checkpoints.checkpoint_steps(path / "checkpoints")[-1]
    again = fewstep(*command)
    until(lambda: checkpoints.checkpoint_steps(path / "checkpoints")[-1] > reached, again)
    again.send_signal(signal.SIGINT)
    code, _, err = ended(again)
    assert code == 130
    assert f"Going on from step {reached} of" in err
    (stopped,) = re.findall(r"Stopped at step (\d+), saved in", err)
    assert checkpoints.checkpoint_steps(path / "checkpoints")[-1] == int(stopped)
    assert column(path, "step").tolist() == [*range(4, int(stopped) + 1, 4)]


def by_hand(path, *options):
    address = f"127.0.0.1:{free_port()}"
    placed = lambda number: ["--coordinator", address, "--processes", 2, "--process", number]
    return [fewstep(*TRAIN, *options, "--run", path, *placed(number)) for number in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "line"), [(1, "Process 0 lost another process"), (0, "Process 1 of 2 was killed, or ")]
)
def test_without_a_launcher_the_others_end_with_a_line_too(tmp_path, killed, line):
    both = by_hand(tmp_path / "x", "--steps", 10**7, "--save-every", 0.5)
    until(lambda: checkpoints.checkpoint_steps(tmp_path / "x" / "checkpoints"), both[0])
    both[killed].kill()
    code, _, err = ended(both[1 - killed])
    assert code != 0
    assert f"fewstep: {line}" in err or "fewstep: Process 1 lost another process" in err
    assert "Start all of them again with the same command: the run goes on from its last checkpoint." in err
    ended(both[killed])


@pytest.mark.slow
def test_a_process_that_no_longer_answers_ends_the_others_within_a_minute(tmp_path):
    path = tmp_path / "x"
    process = fewstep("launch", "--processes", 2, *TRAIN, "--steps", 10**7, "--save-every", 0.5, "--run", path)
    until(lambda: checkpoints.checkpoint_steps(path / "checkpoints"), process)
    os.kill(children(process)[1], signal.SIGSTOP)
    stopped = time.monotonic()
    code, _, err = ended(process)
    assert time.monotonic() - stopped < 60
    assert code == 1
    assert f"Process 1 of 2 no longer answered, so the others were ended too. {RESUME}" in err


@pytest.mark.slow
def test_by_hand_ctrl_c_to_one_stops_all_and_a_result_is_printed_once(tmp_path):
    path = tmp_path / "x"
    both = by_hand(path, "--steps", 10**7)
    until(lambda: (path / "metrics.csv").is_file() and len(column(path, "step")) > 3, both[0])
    both[1].send_signal(signal.SIGINT)
    assert [ended(process)[0] for process in both] == [130, 130]
    both = by_hand(tmp_path / "y", "--steps", 20, "--report", "--json")
    (code, out, _), other = [ended(process) for process in both]
    assert code == 0
    assert json.loads(out)["step"] == 20
    assert (tmp_path / "y" / "report.html").is_file()
    assert other == (0, "", "")


@pytest.mark.slow
def test_processes_with_another_command_are_refused_in_all(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    both = [
        fewstep(*TRAIN, "--steps", 30 + n, "--run", tmp_path / "x", "--coordinator", address, "--processes", 2,
                "--process", n)
        for n in (0, 1)
    ]  # fmt: skip
    for code, _, err in [ended(process) for process in both]:
        assert code == 2
        assert "Process 1 was given another command than process 0" in err


def test_a_coordinator_that_does_not_answer_is_said():
    process = fewstep(*TRAIN, "--coordinator", "127.0.0.1:9", "--processes", 2, "--process", 1, "--wait-seconds", 0.2)
    code, out, err = ended(process)
    assert (code, out) == (2, "")
    assert err.startswith("fewstep: No process 0 answers at 127.0.0.1:9: waited 0.2 s.")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_processes_that_do_not_come_are_said(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    process = fewstep(*TRAIN, "--coordinator", address, "--processes", 2, "--process", 0, "--wait-seconds", 0.2)
    code, _, err = ended(process)
    assert code == 2
    assert err.startswith("fewstep: Not all of the 2 processes came within 0.2 s.")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["launch", "--processes", "0", "train", "maml", "sinusoid"], "--processes is 0"),
        (["launch", "train", "maml", "sinusoid"], "not told how many processes"),
        (["launch", "--processes", "2"], "no command"),
        (["launch", "--processes", "2", "eval", "runs/x"], "launch runs train, not 'eval'"),
        (["launch", "--processes", "2", "--devices-per-process", "0", "train"], "--devices-per-process is 0"),
        ([*TRAIN, "--coordinator", "h:1", "--processes", "2", "--process", "2"], "give 0 to 1"),
        ([*TRAIN, "--coordinator", "h:1", "--processes", "0", "--process", "0"], "--processes is 0"),
        ([*TRAIN, "--coordinator", "h:1", "--processes", "2"], "without --process"),
        ([*TRAIN, "--process", "1"], "without --coordinator and --processes"),
        ([*TRAIN, "--coordinator", "here", "--processes", "2", "--process", "1"], "must be HOST:PORT"),
    ],
)
def test_mistakes_are_said_in_one_line(args, words, capsys):
    code, out, err = output(capsys, *args)
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("fewstep: ")
    assert err.count("\n") == 1


def test_a_command_needs_no_separator():
    plain = ["launch", "--processes", "2", "--devices-per-process=1", "train", "maml", "--steps", "3"]
    marked = [*plain[:4], "--", *plain[4:]]
    assert with_separator(plain) == with_separator(marked) == marked
    assert with_separator(["eval", "x"]) == ["eval", "x"]
    assert with_separator(["launch", "--help"]) == ["launch", "--help"]


SLURM = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}
MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}


@pytest.mark.parametrize(
    ("flags", "environment", "place"),
    [
        ((None, None, None), {}, None),
        ((None, None, None), SLURM, None),  # a shell in an allocation of 4 tasks is no task of a step
        ((None, None, None), SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, None),
        ((None, None, None), SLURM | {"SLURM_STEP_NUM_TASKS": "4"}, Place(None, 4, 3)),
        (("none", None, None), SLURM | {"SLURM_STEP_NUM_TASKS": "4"}, None),
        ((None, None, None), MPI | {"OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:3"}, Place(None, 2, 1)),
        (("h:1", None, None), MPI, Place("h:1", 2, 1)),
        (("h:1", 3, 2), MPI, Place("h:1", 3, 2)),
        ((None, None, None), {"FEWSTEP_COORDINATOR": "h:1", "FEWSTEP_PROCESSES": "2", "FEWSTEP_PROCESS": "0"},
         Place("h:1", 2, 0)),
        ((None, None, 1), {"FEWSTEP_COORDINATOR": "h:1", "FEWSTEP_PROCESSES": "2"}, Place("h:1", 2, 1)),
        (("h:1", 1, 0), {}, None),
        (("auto", None, None), {}, Place(None, None, None)),
        ((None, None, None), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None),
    ],
)  # fmt: skip
def test_the_place_of_a_process(flags, environment, place):
    assert find_place(*flags, environment) == place


def test_one_process_for_each_device_of_a_machine():
    assert local_device(MPI | {"OMPI_COMM_WORLD_LOCAL_RANK": "1"}) == [1]
    assert local_device({}) is None
    assert local_device({"SLURM_LOCALID": "0"}) is None  # a shell in an allocation


def test_a_number_of_devices_that_is_none_is_said(monkeypatch):
    monkeypatch.setenv("FEWSTEP_DEVICES", "two")
    with pytest.raises(FewstepError, match="FEWSTEP_DEVICES is 'two'"):
        distributed.agreed_layout(Layout(1, None), explicit=False)


def test_environments_that_tell_too_little():
    with pytest.raises(FewstepError, match=r"mpirun started 2 processes .* --coordinator HOST:PORT"):
        find_place(None, None, None, MPI)
    with pytest.raises(FewstepError, match="FEWSTEP_PROCESSES is 'two'"):
        find_place(None, None, None, {"FEWSTEP_PROCESSES": "two"})
