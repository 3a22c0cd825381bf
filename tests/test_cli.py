"""Each command, as a user types it; and each mistake: exit code 2, one clear message, no traceback."""

import csv
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers import assert_equal, output

from fewstep.cli import main
from fewstep.runs import load, open_run

pytestmark = pytest.mark.xdist_group("cli")  # one worker makes what they share
TRAIN = ["train", "mtnet", "sinusoid", "--steps", "40", "--hidden", "6", "--validate-every", "20"]
# Real processes see none of the tests' switches: they are what a user has.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "x"
    assert main([*TRAIN, "--run", str(path), "--no-report"]) == 0
    return path


def test_train_again_is_done_at_once_writes_a_report_and_prints_json(run, capsys):
    code, out, _ = output(capsys, *TRAIN, "--run", run, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["step"] == 40
    assert [row["inner_steps"] for row in result["rows"]] == [0, 1, 5]
    page = (run / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "http" not in page.replace("http://www.w3.org", "")
    assert open_run(run).experiment.steps == 40


def test_eval_prints_the_shape_that_scripts_rely_on(run, capsys):
    code, out, _ = output(capsys, "eval", run, "--shots", 5, 10, "--inner-steps", 1, 5, "--n-tasks", 20, "--json")
    assert code == 0
    result = json.loads(out)
    assert {"run", "rule", "tasks", "rows"} <= result.keys()
    assert [(row["shots"], row["inner_steps"]) for row in result["rows"]] == [(5, 1), (5, 5), (10, 1), (10, 5)]
    assert all({"split", "metric", "mean", "interval95", "n_tasks"} <= row.keys() for row in result["rows"])


def test_eval_prints_a_table_and_takes_other_masks(run, capsys):
    code, out, _ = output(
        capsys, "eval", run, "--n-tasks", 20, "--inner-steps", 1, "--draw", "threshold", "--checkpoint", "best"
    )
    assert code == 0
    assert "mse" in out
    assert "± 95%" in out


def test_inspect(run, capsys):
    code, out, _ = output(capsys, "inspect", run)
    assert code == 0
    assert "dense_0" in out
    assert "expected updated fraction" in out
    code, out, _ = output(capsys, "inspect", run, "--json")
    layers = json.loads(out)["layers"]
    assert np.shape(layers[0]["metric"]) == (6, 6)
    assert len(layers[0]["probabilities"]) == 6


def test_adapt_reads_and_writes_csv_and_npz(run, capsys, tmp_path):
    (tmp_path / "known.csv").write_text("time,value\n0.5,1.0\n1.0,1.5\n2.0,0.3\n")
    (tmp_path / "asked.csv").write_text("0\n1\n\n2\n")
    code, out, _ = output(capsys, "adapt", run, "--support", tmp_path / "known.csv", "--query", tmp_path / "asked.csv")
    assert code == 0
    rows = list(csv.reader(out.splitlines()))
    assert rows[0] == ["x", "prediction"]
    assert [float(row[0]) for row in rows[1:]] == [0, 1, 2]
    np.savez(tmp_path / "known.npz", x=[0.5, 1.0, 2.0], y=[1.0, 1.5, 0.3])
    np.savez(tmp_path / "asked.npz", x=[0, 1, 2])
    made = tmp_path / "made.npz"
    code, out, _ = output(
        capsys, "adapt", run, "--support", tmp_path / "known.npz", "--query", tmp_path / "asked.npz", "--out", made
    )
    assert (code, out) == (0, "")
    np.testing.assert_allclose(np.load(made)["prediction"][:, 0], [float(row[1]) for row in rows[1:]], rtol=1e-6)
    code, out, _ = output(
        capsys, "adapt", run, "--support", tmp_path / "known.npz", "--query", tmp_path / "asked.npz", "--json"
    )
    assert np.shape(json.loads(out)["prediction"]) == (3, 1)


def test_json_has_null_for_what_is_not_finite(capsys):
    from fewstep.cli._show import print_json

    print_json({"rows": [{"mean": float("inf"), "interval95": float("nan"), "n": 3}]})
    assert json.loads(capsys.readouterr().out) == {"rows": [{"mean": None, "interval95": None, "n": 3}]}


def test_two_columns_of_x_do_not_fit_a_run_of_one(run, capsys, tmp_path):
    (tmp_path / "known.csv").write_text("1,2,3\n")
    (tmp_path / "asked.csv").write_text("1,2\n")
    code, _, error = output(
        capsys, "adapt", run, "--support", tmp_path / "known.csv", "--query", tmp_path / "asked.csv"
    )
    assert code == 2
    assert "has 2 columns of x beside y, and the run takes 1" in error


FILES = {
    "good.csv": "1,2\n3,4\n",
    "one.csv": "1\n2\n",
    "empty.csv": "",
    "names.csv": "x,y\n",
    "text.csv": "x,y\n1,2\n3,tree\n",
    "ragged.csv": "1,2\n3\n",
    "nan.csv": "1,nan\n",
    "three.csv": "1,2,3\n",
}


@pytest.mark.parametrize(
    ("support", "query", "words"),
    [
        ("missing.csv", "one.csv", "No such file"),
        ("empty.csv", "one.csv", "no rows of numbers"),
        ("names.csv", "one.csv", "no rows of numbers"),
        ("text.csv", "one.csv", "Line 3 of"),
        ("ragged.csv", "one.csv", "Line 2 of"),
        ("nan.csv", "one.csv", "holds nan at row 1"),
        ("one.csv", "one.csv", "needs columns of x and, last, one of y"),
        ("good.csv", "good.csv", "without y"),
        ("binary.csv", "one.csv", "not text in UTF-8"),
        ("broken.npz", "one.csv", "Cannot read"),
        ("pickled.npz", "one.csv", "Cannot read"),
        ("nameless.npz", "one.csv", "no array named x and y"),
        (".", "one.csv", "Is a directory"),
    ],
)
def test_files_that_cannot_be_used(run, capsys, tmp_path, support, query, words):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)))
    (tmp_path / "broken.npz").write_text("not an archive")
    np.savez(tmp_path / "pickled.npz", x=np.array([{"a": 1}], dtype=object), y=np.ones(1))
    np.savez(tmp_path / "nameless.npz", np.ones(3))
    code, out, error = output(capsys, "adapt", run, "--support", tmp_path / support, "--query", tmp_path / query)
    assert (code, out) == (2, "")
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "mtnett", "sinusoid"], "Did you mean 'mtnet'"),
        (["train", "mtnet", "sinusiod"], "Did you mean 'sinusoid'"),
        (["train", "maml", "sinusoid", "--inner-lr", "-1"], "--inner-lr is -1"),
        (["train", "maml", "sinusoid", "--order", "2"], "does not apply"),
        (["train", "maml", "sinusoid", "--shots", "0"], "fewstep: --shots is 0. It must be at least 1."),
        (["train", "maml", "growth.csv", "--task", "child"], "For a table, write table:growth.csv"),
        (["train", "mtnet", "sinusoid", "--outer", "reptile", "--run", "new"], "Reptile cannot train this rule"),
        (["eval", "nowhere"], "There is no run folder nowhere"),
        (["inspect", "nowhere"], "There is no run folder nowhere"),
        (["eval", "FOREIGN"], "not a run folder of fewstep"),
        (["train", "maml", "sinusoid", "--run", "FOREIGN"], "not a run folder of fewstep"),
        (["train", "maml", "sinusoid", "--run", "RUN"], "holds another experiment"),
        (["eval", "RUN", "--shots", "0"], "--shots is (0,)"),
        (["eval", "RUN", "--inner-steps", "-1"], "--inner-steps is (-1,)"),
        (["eval", "RUN", "--n-tasks", "1"], "--n-tasks is 1"),
        (["eval", "RUN", "--split", "train"], "--split train does not apply: sinusoid is drawn anew"),
        (["inspect", "RUN", "--seed", "9"], "The run has no seed 9"),
        (["train", "maml", "sinusoid", "--run", "/proc/x"], "Cannot write"),
    ],
)
def test_mistakes_end_with_code_2_and_one_message(run, capsys, tmp_path, monkeypatch, args, words):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    given = [{"FOREIGN": str(foreign), "RUN": str(run)}.get(arg, arg) for arg in args]
    code, out, error = output(capsys, *given)
    assert (code, out) == (2, "")
    assert words in error
    assert "Traceback" not in error
    assert (foreign / "notes.txt").read_text() == "mine"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "args", [["train"], ["train", "maml", "sinusoid", "--shots"], ["eval", "x", "--shots", "five"], ["data", "lst"]]
)
def test_the_parsers_own_messages(args, capsys):
    code, out, error = output(capsys, *args)
    assert (code, out) == (2, "")
    assert "Traceback" not in error


@pytest.mark.parametrize("command", ["train", "eval", "adapt", "inspect", "data", "reproduce"])
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert f"fewstep {command} " in printed.split("Examples")[1]


def command(path, steps, *more):
    args = [sys.executable, "-m", "fewstep", "train", "mtnet", "sinusoid", "--steps", str(steps), "--hidden", "8"]
    return [*args, "--no-report", "--run", str(path), "--validate-every", "700", *more]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "y"
    subprocess.run(command(path, STEPS), capture_output=True, timeout=600, check=True)
    return path


STEPS = 2000


@pytest.mark.xdist_group("processes")
def test_a_training_that_is_killed_half_way_goes_on_to_the_same_bits(tmp_path, undisturbed):
    """A real process, ended in the middle; the same command again; against one that was never disturbed.

    Ctrl-C is tried inside of a process in test_runs, and on a real one in test_reproduce.
    """
    path = tmp_path / "x"
    begun = command(path, STEPS, "--save-every", "0.1")
    process = subprocess.Popen(begun, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 600
    while not list((path / "checkpoints").glob("0*")):
        assert time.monotonic() < deadline, "no checkpoint came"
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=600)
    assert process.returncode == -9
    stopped = max(int(folder.name) for folder in (path / "checkpoints").glob("0*"))
    assert 0 < stopped < STEPS
    done = subprocess.run(command(path, STEPS), capture_output=True, text=True, timeout=600, check=True)
    assert f"Going on from step {stopped}" in done.stderr
    assert_equal(load(path).metas, load(undisturbed).metas)
    assert (path / "metrics.csv").read_text() == (undisturbed / "metrics.csv").read_text()
