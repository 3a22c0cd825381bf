"""`auto` where tasks are drawn anew: the best of several methods on the validation tasks, chosen once."""

import json
import math
import shutil

import jax
import numpy as np
import pytest
from encoded_files import write_files
from helpers import assert_equal
from serving import SINE, ask, service

from fewstep import Experiment, FewstepError
from fewstep.cli import main
from fewstep.experiments import build
from fewstep.machine import distributed
from fewstep.models import Choice, Trial
from fewstep.reports import scores, write_report
from fewstep.runs import Run, create_run, load, open_run, train_run
from fewstep.runs.budget import Pace
from fewstep.runs.outcome import Outcome, silent
from fewstep.runs.pick import _part, _steps_within, _validated, _whole, pick_run
from fewstep.serve import Client
from fewstep.training import NotFinite

OFF = '''
import fewstep

def off(network, loss):
    """A learner whose answers are far off."""
    own = fewstep.gradient_learner(network, fewstep.rules.maml(0.01), loss)
    return own._replace(predict=lambda *args: own.predict(*args) + 50.0)
'''
EFFORT = 0.0004  # 24 steps of 60,000


class Killed(BaseException):
    """What nothing in the package catches."""


def experiment(*members, **options):
    return Experiment("auto", "sinusoid", members=members, hidden=(4,), shots=3, queries=3, effort=EFFORT, **options)


def trainer(errors, calls, stops=()):
    """A function that trains as `train_run` does, but only writes the errors of eight validations into the log."""

    def train(run, progress, *, save_seconds, built, until):
        method, begun = run.experiment.public_method, len(run.log())
        calls.append((method, begun, until))
        if not begun:
            run.restore_log(0)
        if (method, until) in stops:
            raise stops.pop((method, until))
        lines = [[str(3 * n), "0", "1.0", "1.0", str(error)] for n, error in enumerate(errors[method], 1)]
        run.append(lines[begun : until // 3])
        if not math.isfinite(errors[method][until // 3 - 1]):
            raise NotFinite(until, "It has no limit.")
        return Outcome(None, until, False, False)

    return train


def pick(path, errors, calls, stops=()):
    run = create_run(path, experiment(*errors))
    return pick_run(run, silent(), trainer(errors, calls, stops), 15.0)


A, B, C, D = "maml", "mtnet", "meta_sgd", "tnet"
# Errors at every eighth of the way: after a quarter C and D are ahead, and D is best at once.
ERRORS = {
    A: [5, 4, 0, 0, 0, 0, 0, 0],
    B: [5, 3, 0, 0, 0, 0, 0, 0],
    C: [9, 2, 2, 2, 2, 2, 2, 2],
    D: [1, 9, 9, 9, 9, 9, 9, 9],
}


class TestTheRace:
    @pytest.fixture(autouse=True)
    def _nothing_is_built(self, monkeypatch):
        """What takes most of the time, and a fake training needs not."""
        monkeypatch.setattr("fewstep.runs.create._check", lambda experiment: None)
        monkeypatch.setattr(Run, "build", lambda run: None)

    def test_all_go_a_quarter_of_the_way_and_the_best_two_to_the_end(self, tmp_path):
        calls = []
        assert pick(tmp_path / "x", ERRORS, calls).step == 24
        assert calls == [(A, 0, 6), (B, 0, 6), (C, 0, 6), (D, 0, 6), (D, 2, 24), (C, 2, 24)]
        assert open_run(tmp_path / "x").choice == Choice(
            D, (Trial(A, 6, 24, 4), Trial(B, 6, 24, 3), Trial(C, 24, 24, 2), Trial(D, 24, 24, 1))
        )

    def test_of_two_both_go_to_the_end(self, tmp_path):
        calls = []
        pick(tmp_path / "x", {A: ERRORS[A], B: ERRORS[B]}, calls)
        assert calls == [(A, 0, 24), (B, 0, 24)]
        assert open_run(tmp_path / "x").choice.method == A

    def test_stopped_and_killed_it_ends_as_in_one_go(self, tmp_path):
        calls, stops = [], {(B, 6): Killed(), (C, 24): KeyboardInterrupt()}
        for end in (Killed, KeyboardInterrupt):
            with pytest.raises(end):
                pick(tmp_path / "x", ERRORS, calls, stops)
            with pytest.raises(FewstepError, match="has not chosen its method yet: its training was stopped"):
                load(tmp_path / "x")
        pick(tmp_path / "x", ERRORS, calls, stops)
        pick(tmp_path / "y", ERRORS, [])
        assert open_run(tmp_path / "x").choice == open_run(tmp_path / "y").choice
        for name in ERRORS:
            assert open_run(tmp_path / "x/members" / name).log() == open_run(tmp_path / "y/members" / name).log()
        assert [call for call in calls if call[1] * 3 < call[2]] == [  # nothing is trained twice
            (A, 0, 6), (B, 0, 6), (B, 0, 6), (C, 0, 6), (D, 0, 6), (D, 2, 24), (C, 2, 24), (C, 2, 24)
        ]  # fmt: skip

    def test_those_that_diverge_are_left_out(self, tmp_path):
        errors = ERRORS | {C: [9, math.nan, *[math.nan] * 6], D: [1, 9, *[math.nan] * 6]}
        pick(tmp_path / "x", errors, [])
        choice = open_run(tmp_path / "x").choice
        assert (choice.method, [trial.error for trial in choice.trials]) == (B, [4, 0, math.inf, math.inf])
        with pytest.raises(FewstepError, match=r"None of mtnet, tnet was trained without diverging"):
            pick(tmp_path / "y", {B: [1, *[math.nan] * 7], D: errors[D]}, [])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run whose first member is far off."""
    folder = tmp_path_factory.mktemp("pick")
    (folder / "own.py").write_text(OFF)
    outcome = train_run(create_run(folder / "run", experiment(f"{folder}/own.py:off", "maml")))
    assert (outcome.step, outcome.interrupted) == (24, False)
    return folder / "run"


def test_the_best_on_the_validation_tasks_is_kept_and_answers(trained, tmp_path, capsys):
    choice = open_run(trained).choice
    off, maml = choice.trials
    assert (choice.method, off.method, off.step) == ("maml", "own.py:off", 24)
    assert off.error > 1000 > maml.error
    assert {path.name for path in (trained / "members").iterdir()} == {"own.py-off", "maml"}
    assert maml.error == min(float(row[4]) for row in open_run(trained / "members" / "maml").log())
    moved = shutil.copytree(trained, tmp_path / "moved")
    model, member = load(moved), load(trained / "members" / "maml")
    assert (model.experiment.method, model.choice, member.choice) == ("maml", choice, None)
    assert_equal(model.stacked, member.stacked)
    before = (trained / "members" / "maml" / "metrics.csv").stat().st_mtime_ns
    assert main(["eval", str(trained), "--n-tasks", "4", "--inner-steps", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["choice"] == choice.to_json()
    assert json.loads(out)["rule"] == "maml"
    assert "Chosen by the error on the validation tasks: maml" in err
    assert (trained / "members" / "maml" / "metrics.csv").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_training_in_pieces_is_one_in_one_go_to_the_bit(tmp_path, monkeypatch):
    made = []

    def create_or_die(path, *args, **more):
        made.append(path.name)
        if len(made) in (2, 7):  # a member of the first part, and the second of those that go on
            raise Killed
        return create_run(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr("fewstep.runs.members.create_run", create_or_die)
        for _ in range(2):
            with pytest.raises(Killed):
                train_run(create_run(tmp_path / "run", experiment(A, B, C, member_seeds=2)))
    train_run(create_run(tmp_path / "run", experiment(A, B, C, member_seeds=2)))
    assert len(open_run(tmp_path / "run").choice.trials) == 3
    for name in made[-2:]:
        run = open_run(tmp_path / "run" / "members" / name)
        whole = create_run(tmp_path / name, run.experiment)
        state, there = train_run(whole).state, run.state(run.build())[0]
        assert int(there.step) == 24
        for one, other in ((state, there), (state.best, there.best)):
            assert_equal((one.meta, one.step), (other.meta, other.step))
        assert jax.random.key_data(state.key).tolist() == jax.random.key_data(there.key).tolist()
        assert whole.log() == run.log()


def test_what_was_chosen_is_said_and_read_back():
    trials = (Trial("a", 5, 5, 0.25), Trial("b", 1, 5, math.inf), Trial("c", 5, 5, 0.5), Trial("d", 1, 5, 2.0))
    choice = Choice("a", trials)
    assert Choice.from_json(json.loads(json.dumps(choice.to_json()))) == choice
    assert choice.sentence == (
        "Chosen by the error on the validation tasks: a 0.25 (c 0.5; stopped early: b diverged, d 2)."
    )
    assert Choice("a", trials[:1]).sentence == "Chosen by the error on the validation tasks: a 0.25."


def test_members_share_the_tasks_and_keep_their_own_defaults(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n")
    whole = Experiment("auto", f"text:{tmp_path}/a.csv", shots=3, encoder_depth=1, center=(1.0, 2.0))
    parts = whole.parts
    assert list(parts) == list(whole.kind.members) == ["metric", "prototypes", "ridge", "mtnet"]
    assert all(repr(part.kind_options) == repr(whole.kind_options) for part in parts.values())
    for name, part in parts.items():
        usual = Experiment(name, whole.tasks)
        assert (part.keep, part.seeds, part.scale, part.steps) == ("best", 1, usual.scale, usual.steps)
    assert {part.scale for part in whole.replace(scale=3.0).parts.values()} == {3.0}


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 24, 100, 999, 60_000])
def test_every_part_of_a_training_ends_with_a_validation(steps):
    experiment = _validated(Experiment("maml", "sinusoid"), steps)
    assert experiment.steps % experiment.validate_every == _part(experiment) % experiment.validate_every == 0
    assert steps - experiment.validate_every < experiment.steps <= steps
    assert _part(experiment) <= max(1, 0.3 * experiment.steps)


def test_a_budget_is_divided_by_how_fast_members_are(monkeypatch):
    assert [_whole(count) for count in (1, 2, 4, 6)] == [1, 2, 2.5, 3]
    seconds = {"maml": (0.0, 1e-3), "mtnet": (1.0, 1e-2), "meta_sgd": (0.0, 1e-6)}  # of a validation, of a step
    paces = {name: Pace(0.0, 0.0, *each) for name, each in seconds.items()}
    monkeypatch.setattr("fewstep.runs.pick.pace_of", lambda part, seconds: paces[part.method])
    parts = {name: Experiment(name, "sinusoid") for name in paces}
    said = []
    steps = _steps_within(parts, 225.0, said.append)  # 100 seconds for each that goes to its end
    assert steps["maml"] == 60_000
    assert steps["mtnet"] == pytest.approx(9090, abs=10)
    assert _steps_within(parts, 11.25, said.append)["mtnet"] == pytest.approx(100, abs=5)  # 4 of 5 s for validations
    assert steps["meta_sgd"] == 60_000  # its own number
    assert len(said) == 6


@pytest.mark.parametrize(("seconds", "members"), [(1.0, 1), (8.9, 2), (40.0, 3)])
def test_members_that_a_budget_does_not_allow_are_left_out(seconds, members, monkeypatch):
    now, said = [0.0], []

    def measure(part, seconds):
        now[0] += 1.0
        return Pace(0.9, 0.1, 0.0, 0.01)

    monkeypatch.setattr("fewstep.runs.pick.pace_of", measure)
    monkeypatch.setattr("fewstep.runs.pick.time.monotonic", lambda: now[0])
    parts = {name: Experiment(name, "sinusoid") for name in (A, B, C)}
    steps = _steps_within(parts, seconds, said.append)
    assert list(steps) == [A, B, C][:members]
    assert ("Left out" in said[-1]) == (members < 3)
    each = (seconds - members - 0.1 * members) / _whole(members)
    assert steps[A] == pytest.approx(max(4, each / 0.01), abs=1)


@pytest.mark.parametrize(("members", "message"), [
    (("mamml",), "Did you mean 'maml'"), (("maml", "auto"), "`members` has auto itself"),
    (("prototypes",), "prototypes needs classes of images"), (("trees",), "`members` has trees"),
])  # fmt: skip
def test_members_that_do_not_fit_are_refused_before_a_folder_is_made(members, message, tmp_path):
    with pytest.raises(FewstepError, match=message):
        create_run(tmp_path / "x", Experiment("auto", "sinusoid", members=members))
    assert not (tmp_path / "x").exists()


def test_what_does_not_apply_is_said(monkeypatch, tmp_path):
    for option in ("steps", "inner_lr", "refit", "outer_lr"):
        if option != "steps":  # which a fit has, hidden
            with pytest.raises(FewstepError, match=f"`{option}` does not apply to auto on sinusoid"):
                Experiment("auto", "sinusoid", **{option: 1})
    with pytest.raises(FewstepError, match="auto keeps the best of several methods on such tasks"):
        build(Experiment("auto", "sinusoid"))
    monkeypatch.setattr(distributed, "several", lambda: True)
    with pytest.raises(FewstepError, match="in a single process"):
        create_run(tmp_path / "x", Experiment("auto", "sinusoid"))


@pytest.mark.slow
def test_it_is_exported_served_and_reported(trained, tmp_path):
    path = trained
    model = load(path)
    assert main(["export", str(path), "--out", str(tmp_path / "out"), "--no-score"]) == 0
    assert f"# {model.choice.method} on sinusoid" in (tmp_path / "out" / "README.md").read_text()
    write_report(tmp_path / "report.html", {"auto": model}, scores({"auto": model}, n_tasks=4))
    page = (tmp_path / "report.html").read_text()
    assert "The methods that were tried" in page
    assert all(trial.method in page for trial in model.choice.trials)
    with service([path], watch=path.parent) as (url, _), Client(url, seconds=150) as client:
        adapted = client.adapt(path.name, **SINE, steps=1, seed=3)
        answer = client.predict(path.name, adapter=adapted["adapter"], x=[[0.0]])["y"]
        assert np.isfinite(answer).all()
        assert [(run["name"], run["step"], run["steps"]) for run in ask(url, "GET", "/v1/runs")[1]["runs"]] == [
            ("run", 24, 24)
        ]


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "encoder", "members"), [
    ("folder:{}/photos", (), ("--members", "prototypes", "meta_sgd", "--filters", "4", "--image-size", "16")),
    ("folder:{}/photos", ("--encoder", "{}/own.py:colors"), ("--members", "metric", "ridge")),
    ("text:{}/texts.csv", ("--encoder", "{}/own.py:words"), ()),
])  # fmt: skip
def test_images_and_texts(tasks, encoder, members, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    folder = write_files(tmp_path)
    place = [word.format(folder) for word in (tasks, *encoder)]
    effort = "0.0002" if not encoder else "0.02"
    sizes = ("--ways", "2", "--validation-ways", "2", "--queries", "2", "--effort", effort)
    words = ["train", "auto", *place, *sizes, *members, "--run", str(tmp_path / "run"), "--no-report", "--json"]
    assert main(words) == 0
    choice = json.loads(capsys.readouterr().out)["choice"]
    tried = [trial["method"] for trial in choice["trials"]]
    assert tried == ([*members[1:3]] or ["metric", "prototypes", "ridge", "mtnet"])
    assert (
        choice["method"]
        == min(choice["trials"], key=lambda trial: (trial["step"] < trial["steps"], trial["error"]))["method"]
    )
    assert main(["eval", str(tmp_path / "run"), "--n-tasks", "4", "--no-baselines", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows["choice"] == choice
    support, query = (
        (tmp_path / "photos",) * 2 if "folder" in tasks else (tmp_path / "support.csv", tmp_path / "query.csv")
    )
    if "folder" in tasks:
        support, query = tmp_path / "support", tmp_path / "photos" / "class 3"
        for name in ("class 3", "class 4"):
            shutil.copytree(tmp_path / "photos" / name, support / name)
    assert main(["adapt", str(tmp_path / "run"), "--support", str(support), "--query", str(query)]) == 0
    assert "Chosen by the error" in capsys.readouterr().err
