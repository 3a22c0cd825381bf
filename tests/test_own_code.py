"""A user's own code from the command line, each in one file: rules, links, learners, tasks, outer gradients, losses,
networks and whole kinds; the run's copy of it serves when the file is gone."""

import json
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_equal, output

from fewstep import Experiment
from fewstep.experiments import build
from fewstep.runs import load

pytestmark = pytest.mark.xdist_group("own")
TINY = ["--hidden", 6, "--shots", 3, "--queries", 3, "--validation-tasks", 2, "--meta-batch", 2]
MINE = '''
from typing import Annotated

import jax
import jax.numpy as jnp

import fewstep
from fewstep import networks, rules


def rule(inner_lr=0.01, *, damping: Annotated[float, "Share of a step that is left out"] = 0.1):
    """MAML with smaller steps."""
    return rules.maml(inner_lr * (1 - damping))


def link(*, begin: Annotated[float, "Where the rates begin"] = 0.02):
    """Learned rates."""
    return rules.rates(begin)


def learner(network, loss, *, inner_steps: Annotated[int, "Gradient steps on a task"] = 1, size: float = 0.05):
    """Gradient steps of one size."""
    return fewstep.gradient_learner(network, rules.maml(size), loss, steps=inner_steps)


def tasks(shots, queries, *, steepest: Annotated[float, "Largest slope"] = 2.0):
    """Straight lines through the origin."""
    def sample(data, key):
        of_slope, of_x = jax.random.split(key)
        slope = data["steepest"] * jax.random.uniform(of_slope, minval=-1.0)
        x = jax.random.uniform(of_x, (shots + queries, 1), minval=-1.0)
        rows = fewstep.Batch(x, slope * x, jnp.ones(shots + queries))
        part = lambda begin, end: jax.tree.map(lambda leaf: leaf[begin:end], rows)
        return fewstep.Episode(part(0, shots), part(shots, shots + queries))
    return fewstep.Tasks({"steepest": jnp.asarray(steepest)}, sample)


def outer(learner):
    """The outer gradient of FOMAML."""
    return fewstep.first_order(learner)


def loss(prediction, batch):
    """Half of the usual loss."""
    return 0.5 * fewstep.losses.squared_error(prediction, batch)


def network(x, outputs):
    """A narrow perceptron."""
    return networks.mlp(x.shape[1], outputs, hidden=(5,))
'''
# What of the file is used, and an option of its own.
USES = {
    "rule": (["MINE:rule", "sinusoid", "--damping", 0.3], {"damping": 0.3}),
    "link": (["mtnet+MINE:link", "sinusoid", "--begin", 0.03], {"begin": 0.03}),
    "learner": (["MINE:learner", "sinusoid", "--inner-steps", 2, "--size", 0.1], {"inner_steps": 2, "size": 0.1}),
    "tasks": (["maml", "MINE:tasks", "--steepest", 3.0], {"steepest": 3.0}),
    "outer": (["maml", "sinusoid", "--outer", "MINE:outer"], {}),
    "loss": (["maml", "sinusoid", "--loss", "MINE:loss"], {}),
    "network": (["maml", "sinusoid", "--network", "MINE:network"], {}),
    "all": (
        ["mtnet+MINE:link", "MINE:tasks", "--outer", "MINE:outer", "--loss", "MINE:loss", "--network", "MINE:network",
         "--begin", 0.03, "--steepest", 3.0],
        {"begin": 0.03, "steepest": 3.0},
    ),
}  # fmt: skip


def words(use, file, *more):
    given = [str(word).replace("MINE", str(file)) for word in USES[use][0]]
    sizes = TINY[2:] if use in ("network", "all") else TINY
    return ["train", *given, *sizes, *more]


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    (tmp_path / "known.csv").write_text("0.5,1.0\n1.0,1.5\n")
    (tmp_path / "asked.csv").write_text("0\n1\n")
    return folder / "mine.py"


# One run takes every name but the learner's from the file; the rule's file is changed, not gone.
ALONE = ("rule", "learner", "link", "tasks", "outer", "loss", "network")


@pytest.mark.parametrize("use", [pytest.param(use, marks=pytest.mark.slow if use in ALONE else ()) for use in USES])
def test_it_trains_and_the_runs_copy_serves_when_the_file_is_gone(use, mine, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(mine.parent)
    code, printed, said = output(capsys, *words(use, "mine.py", "--steps", 2, "--run", tmp_path / "run", "--json"))
    assert code == 0, said
    assert json.loads(printed)["step"] == 2
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["experiment"]
    assert USES[use][1].items() <= settings.items()
    assert str(tmp_path) not in (tmp_path / "run" / "report.html").read_text()
    if use == "rule":
        mine.write_text("raise SystemExit('changed')\n")
    else:
        mine.unlink()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, printed, said = output(capsys, "eval", "../run", "--n-tasks", 2, "--inner-steps", 1, "--json")
    assert code == 0, said
    assert np.isfinite(json.loads(printed)["rows"][0]["mean"])
    code, printed, said = output(capsys, "adapt", "../run", "--support", "../known.csv", "--query", "../asked.csv")
    assert code == 0, said
    assert printed.splitlines()[0] == "x,prediction"
    if use != "learner":
        assert output(capsys, "inspect", "../run", "--json")[0] == 0
    code, _, said = output(capsys, "export", "../run", "--out", "made", "--format", "npz", "--no-score")
    assert code == 0, said
    assert str(tmp_path) not in (tmp_path / "elsewhere" / "made" / "description.json").read_text()


def test_a_rule_with_its_own_step_refuses_options_of_the_usual_one(mine, tmp_path, capsys):
    mine.write_text(MINE + "\n\ndef fixed(*, size: float = 0.1):\n    return rules.maml(size)\n")
    train = ["train", f"{mine}:fixed", "sinusoid", *TINY, "--steps", "1", "--run", tmp_path / "run", "--no-report"]
    for option in (("--inner-lr", 0.5), ("--inner-optimizer", "adam"), ("--inner-clip", 1.0)):
        code, _, said = output(capsys, *train, *option)
        assert code == 2
        assert option[0] in said
    assert output(capsys, *train, "--size", 0.2)[0] == 0


def test_tasks_of_ones_own_can_be_evaluated_elsewhere(mine, tmp_path, capsys):
    assert output(capsys, *words("tasks", mine, "--steps", 2, "--run", tmp_path / "run", "--no-report"))[0] == 0
    evaluate = ("eval", tmp_path / "run", "--n-tasks", 20, "--inner-steps", 0, "--json")
    mean = lambda *more: json.loads(output(capsys, *evaluate, *more)[1])["rows"][0]["mean"]
    assert mean("--steepest", 30.0) > 10 * mean()


def test_a_changed_file_does_not_resume(mine, tmp_path, capsys):
    train = words("rule", mine, "--run", tmp_path / "run", "--no-report")
    assert output(capsys, *train, "--steps", 2)[0] == 0
    mine.write_text(MINE + "\n# another\n")
    code, _, said = output(capsys, *train, "--steps", 4)
    assert code == 2
    assert f"mine.py has changed since {tmp_path / 'run'} was begun with it" in said
    assert f"a copy of it as it was is in {tmp_path / 'run' / 'code'}" in said
    assert "--overwrite" in said
    assert load(tmp_path / "run").step == 2
    mine.write_text(MINE)
    assert output(capsys, *train, "--steps", 4)[0] == 0
    assert load(tmp_path / "run").step == 4


def test_an_option_of_its_own_is_in_the_help_and_checked(mine, tmp_path, capsys):
    code, printed, _ = output(capsys, *words("rule", mine)[:3], "--help")
    assert code == 0
    assert "--damping FLOAT" in printed
    assert "Share of a step that is left out (default: 0.1)" in " ".join(printed.replace("│", " ").split())
    code, _, said = output(capsys, *words("rule", mine)[:3], "--steepest", 3)
    assert code == 2
    assert "--steepest" in said
    train = words("rule", mine, "--steps", 2, "--run", tmp_path / "run", "--no-report")
    assert output(capsys, *train)[0] == 0
    code, _, said = output(capsys, *train, "--damping", 0.5)
    assert code == 2
    assert "holds another experiment: --damping is 0.3 there and 0.5 here" in said


def test_a_rule_of_ones_own_decides_how_far_a_step_goes(mine):
    def moved(**options):
        rule = build(Experiment(f"{mine}:rule", "sinusoid", **options)).rule
        step = rule.update((), {}, jax.random.key(0))
        fast = {"w": jnp.ones(1)}
        return step.update(fast, step.init(fast), fast)[0]["w"]

    np.testing.assert_allclose(moved(inner_lr=0.1, damping=0.5), [-0.05])
    np.testing.assert_allclose(moved(inner_lr=0.1, damping=0.0), [-0.1])


@pytest.mark.parametrize(
    ("train", "words"),
    [
        (["MINE:nothing", "sinusoid"], "mine.py has no nothing"),
        (["none.py:rule", "sinusoid"], "There is no file none.py"),
        (["maml", "MINE:nothing"], "mine.py has no nothing"),
        (["MINE:loss", "sinusoid"], "mine.py:loss"),
        (["maml", "MINE:outer"], "mine.py:outer"),
        (["maml", "sinusoid", "--outer", "MINE:nothing"], "mine.py has no nothing. Write one: def nothing(learner)"),
        (["MINE:three", "sinusoid"], "three in"),
        (["maml+MINE:wrong", "sinusoid"], "returns a int. Let it return a fewstep.Rule"),
        (["MINE:broken", "sinusoid"], "fails with KeyError: 'depth'"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(train, words, mine, tmp_path, capsys):
    mine.write_text(MINE + "\nthree = 3\ndef wrong(): return 3\ndef broken(): raise KeyError('depth')\n")
    given = [word.replace("MINE", str(mine)) for word in train]
    code, out, said = output(capsys, "train", *given, "--steps", 2, "--run", tmp_path / "run")
    assert (code, out) == (2, "")
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_training_of_ones_own_code_that_is_killed_goes_on_to_the_same_bits(mine, tmp_path):
    """A real process, killed; the same command again, against one that was never disturbed."""
    steps = 3000

    def command(name, *more):
        given = words("link", "mine.py", "--steps", steps, "--no-report", "--run", tmp_path / name, *more)
        return [sys.executable, "-m", "fewstep", *map(str, given)]

    how = {"cwd": mine.parent, "text": True}
    subprocess.run(command("whole"), capture_output=True, timeout=600, check=True, **how)
    process = subprocess.Popen(command("killed", "--save-every", 0.05), stderr=subprocess.PIPE, **how)
    deadline = time.monotonic() + 600
    while not list((tmp_path / "killed" / "checkpoints").glob("0*")):
        assert time.monotonic() < deadline, "no checkpoint came"
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=600)
    assert process.returncode == -9
    reached = max(int(folder.name) for folder in (tmp_path / "killed" / "checkpoints").glob("0*"))
    assert 0 < reached < steps
    done = subprocess.run(command("killed"), capture_output=True, timeout=600, check=True, **how)
    assert f"Going on from step {reached}" in done.stderr
    mine.unlink()
    assert_equal(load(tmp_path / "killed").metas, load(tmp_path / "whole").metas)
    assert (tmp_path / "killed" / "metrics.csv").read_text() == (tmp_path / "whole" / "metrics.csv").read_text()


SPRINGS = """
import dataclasses

import jax
import jax.numpy as jnp

import fewstep
from fewstep import problems


@dataclasses.dataclass(frozen=True)
class Options:
    shots: int = problems.option(3, "Measurements of a spring that are learned from.", min=1)
    queries: int = problems.option(8, "Measurements that it is evaluated on.", min=1)
    stiffest: float = problems.option(4.0, "Largest stiffness.", min=0.0, changes=True)


def problem(tasks, options, network):
    def make(shots, queries, split="train", ways=None):
        def sample(data, key):
            of_spring, of_x = jax.random.split(key)
            stiffness = jax.random.uniform(of_spring, minval=0.5, maxval=data["stiffest"])
            x = jax.random.uniform(of_x, (shots + queries, 1))
            rows = fewstep.Batch(x, stiffness * x, jnp.ones(shots + queries))
            part = lambda begin, end: jax.tree.map(lambda leaf: leaf[begin:end], rows)
            return fewstep.Episode(part(0, shots), part(shots, shots + queries))

        return fewstep.Tasks({"stiffest": jnp.asarray(options.stiffest)}, sample)

    return problems.points_problem(make, network)


def write(problem, query, answer):
    return problems.Written({"pull": query.x[:, 0].tolist(), "force": answer.mean[:, 0].tolist()})


KIND = problems.kind(
    "spring", problem, options=lambda tasks: Options, write=write,
    defaults=lambda tasks, method, given: {"inner_steps": 2, "steps": 3},
)
"""


def test_a_kind_of_ones_own_in_one_file(mine, tmp_path, monkeypatch, capsys):
    file = mine.with_name("springs.py")
    file.write_text(SPRINGS)
    monkeypatch.chdir(file.parent)
    train = ("train", "mtnet", "springs.py:KIND", "--hidden", 6, "--validation-tasks", 2, "--meta-batch", 2)
    code, printed, _ = output(capsys, *train, "--help")
    assert code == 0
    assert "Largest stiffness." in printed
    assert "--amplitude" not in printed
    code, _, said = output(capsys, *train, "--stiffest", -1)
    assert code == 2
    assert "--stiffest is -1.0. It must be finite and not negative" in said
    code, printed, said = output(capsys, *train, "--stiffest", 6, "--log-every", 1, "--run", tmp_path / "run", "--json")
    assert code == 0, said
    assert json.loads(printed)["step"] == 3
    page = (tmp_path / "run" / "report.html").read_text()
    assert "springs.py:KIND" in page
    assert "stiffest=6.0" in page
    assert page.count("<svg") == 3
    file.unlink()
    monkeypatch.chdir(tmp_path)
    code, printed, said = output(capsys, "eval", "run", "--shots", 1, 3, "--stiffest", 60, "--n-tasks", 20, "--json")
    assert code == 0, said
    far = json.loads(printed)
    assert [(row["shots"], row["inner_steps"]) for row in far["rows"]] == [(s, n) for s in (1, 3) for n in (0, 1, 5)]
    near = json.loads(output(capsys, "eval", "run", "--n-tasks", 20, "--json")[1])
    assert far["rows"][0]["mean"] > 5 * near["rows"][0]["mean"]
    code, printed, _ = output(capsys, "eval", "run", "--help")
    assert "--stiffest FLOAT" in printed
    code, printed, said = output(capsys, "adapt", "run", "--support", "known.csv", "--query", "asked.csv")
    assert code == 0, said
    assert printed.splitlines()[0] == "pull,force"
    code, _, said = output(capsys, "export", "run", "--out", "made", "--no-score", "--support", 4)
    assert code == 0, said
