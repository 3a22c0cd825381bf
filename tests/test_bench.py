"""The bench: systems as processes of their own, what is compared and counted, and compiled programs on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from fewstep._errors import FewstepError
from fewstep.cli import main
from fewstep.machine import compilation
from fewstep_studies.bench import Choice, _measure, _report, _roofline, _run, _workloads, table_rows
from fewstep_studies.bench._problem import write_images, write_problem
from fewstep_studies.bench._system import SYSTEMS, Process, System, SystemFailed, is_installed, start

PEERS = Path(__file__).resolve().parents[1] / ".venv-bench" / "bin" / "python"
WORK = _workloads.sine(1, tasks=3).replace(hidden=(6,), shots=4, queries=4)
LOOK = _measure.Effort(turns=2, seconds=0.01, calls=3)
NO_PEERS = "the other libraries are not installed: make bench sets them up in .venv-bench"


def silent(message):
    pass


def test_ours_answers_and_agrees_with_itself(tmp_path):
    rows = _measure.measure(WORK, list(SYSTEMS[:1]), tmp_path, None, LOOK, silent)
    assert [row.system for row in rows] == ["fewstep"]
    (row,) = rows
    assert row.agrees
    assert row.ratio_to_fewstep == 1
    assert row.spread[0] <= row.steps_per_s <= row.spread[1]
    assert row.peak_mb > 50
    assert table_rows(rows)[0][:2] == [WORK.name, "fewstep"]


@pytest.mark.skipif(not PEERS.exists(), reason=NO_PEERS)
@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS[2:], ids=[system.name for system in SYSTEMS[2:]])
@pytest.mark.parametrize("work", [WORK, _workloads.omniglot(2, tasks=2).replace(filters=4)], ids=["sine", "images"])
def test_the_others_have_the_same_gradient(work, system, tmp_path):
    if not is_installed(system, PEERS):
        pytest.skip(f"{system.needs} not installed")
    write_images(tmp_path)
    rows = _measure.measure(work, [SYSTEMS[0], system], tmp_path, PEERS, LOOK, silent)
    assert rows[1].system == system.name
    assert rows[1].gradient_differs < 1e-4
    assert rows[1].loss_differs < 1e-5


def test_a_system_that_fails_says_why(tmp_path):
    problem = write_problem(WORK, tmp_path)
    missing = System("missing", "torch_func.py")
    with pytest.raises(SystemFailed, match="torch"), start(missing, problem, Path(sys.executable)):
        pass
    rows = _measure.measure(WORK, [missing], tmp_path, Path(sys.executable), LOOK, silent)
    assert rows[0].steps_per_s is None
    assert "torch" in _report.table_rows(rows)[0][2]


def test_another_gradient_is_not_taken_for_the_same():
    here, there = {"w": np.ones(3)}, {"w": np.asarray([1.0, 1.0, 1.01])}
    assert _measure._difference(2.0, here, 2.0, here).agrees
    assert not _measure._difference(2.0, here, 2.0, there).agrees
    assert not _measure._difference(2.0, here, 2.1, here).agrees


def test_operations_are_counted_where_no_loop_hides_them():
    one = _roofline.step_gflop(WORK)
    assert _roofline.step_gflop(WORK.replace(tasks=6)) == pytest.approx(2 * one)
    assert _roofline.step_gflop(WORK.replace(method="mtnet")) > 1.2 * one
    assert _roofline.step_gflop(WORK.replace(inner_steps=2)) is None
    passes = 4 * (6 + 6) * 2  # products and sums of one pass of four points through 1-6-1
    assert 6 * passes < one / 3 * 1e9 < 60 * passes


@pytest.mark.slow
def test_bench_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_run, "WORKLOADS", {"sine-1": WORK})
    monkeypatch.setattr(_run, "_QUICK", LOOK)
    monkeypatch.setattr(_run, "write_images", lambda folder: "none")
    out = tmp_path / "bench"
    words = ["bench", "--workloads", "sine-1", "--systems", "fewstep MT-net", "--quick", "--out", str(out), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["system"] for row in told["rows"]} == {"fewstep", "fewstep MT-net"}
    assert {"workload", "system", "steps_per_s", "spread", "compile_s", "peak_mb", "ratio_to_fewstep"} <= set(
        told["rows"][0]
    )
    assert told["matmul_gflops"] > 0
    assert json.loads((out / "result.json").read_text())["quick"]
    assert "quick" in (out / "report.html").read_text()
    assert (out / "figures" / "speed.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workloads", "cosine"], "cosine"),
        (["--systems", "tensorflow"], "tensorflow"),
        (["--systems", "higher", "--peers", "/nowhere/python"], "make bench"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, said, capsys, tmp_path):
    assert main(["bench", *words, "--out", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


def test_systems_that_are_absent_are_told():
    lines = []
    names, systems = _run._select(Choice(), lines.append)
    assert len(names) == 5
    assert [system.name for system in systems] == ["fewstep", "fewstep MT-net"]
    assert "jax-meta" in lines[0]
    assert "make bench" in lines[0]
    with pytest.raises(FewstepError, match="higher cannot be measured"):
        _run._select(Choice(systems=("higher",)), lines.append)


def test_a_gradient_that_is_not_a_number_does_not_agree():
    ours, theirs = {"w": np.ones(2)}, {"w": np.asarray([1.0, np.nan])}
    assert _measure._difference(1.0, ours, 1.0, ours).agrees
    assert not _measure._difference(1.0, ours, 1.0, theirs).agrees


@pytest.mark.slow
def test_a_system_that_fails_on_the_way_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    """The second of two fails when it is asked to take steps, as one that the system kills does."""
    broken = System("broken", changes=(("seed", 1),))
    ask = Process._ask

    def asked(self, do, **more):
        if do == "steps" and self is systems[1]:
            self._process.kill()
        return ask(self, do, **more)

    systems, begin = [], Process.__init__
    monkeypatch.setattr(Process, "__init__", lambda self, *args: (begin(self, *args), systems.append(self))[0])
    monkeypatch.setattr(Process, "_ask", asked)
    rows = _measure.measure(WORK, [SYSTEMS[0], broken], tmp_path, None, _measure.Effort(2, 0.01, 2), lambda said: None)
    assert [row.system for row in rows] == ["fewstep", "broken"]
    assert rows[0].steps_per_s > 0
    assert (rows[1].steps_per_s, rows[1].error) == (None, "it ended with code -9")


@pytest.mark.slow
def test_compiled_programs_are_found_again(tmp_path):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    told = {"JAX_DEBUG_LOG_MODULES": "jax._src.compiler", "FEWSTEP_CACHE": str(tmp_path / "cache"), "XLA_FLAGS": ""}
    found = []
    for number in range(2):
        words = ["train", "maml", "sinusoid", "--steps", "2", "--no-report", "--run", str(tmp_path / f"run{number}")]
        command = [sys.executable, "-m", "fewstep", *words]
        done = subprocess.run(command, env=plain | told, check=True, capture_output=True, text=True)
        found.append("cache hit for 'jit_segment'" in done.stderr)
    assert found == [False, True]


def test_a_users_own_folder_of_programs_stands():
    assert jax.config.jax_compilation_cache_dir  # the tests' own
    assert compilation.keep_compiled() is None


def test_the_oldest_programs_go_first(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}-cache").write_bytes(b"x" * 10)
        os.utime(tmp_path / f"{number}-cache", (number, number))
    compilation._forget_oldest(tmp_path, most=25)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["2-cache", "3-cache"]
