"""The command line as a whole: its names, its options, what a terminal sees, Ctrl-C, completion."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import output

import fewstep
from fewstep import Experiment
from fewstep.cli import show_progress
from fewstep.cli._commands import commands, load
from fewstep.cli._parse import _options
from fewstep.files import locked
from fewstep.machine.meter import time_left
from fewstep.runs import create_run
from fewstep.training import Row

FEWSTEP = [sys.executable, "-m", "fewstep"]


def in_terminal(*args, **environment):
    """What a real process writes to a terminal, on stdout and stderr together."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*FEWSTEP, *args], stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"} | environment
    )
    os.close(theirs)
    written = b""
    try:
        while block := os.read(ours, 65_536):
            written += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=600) == 0, written.decode()
    return written.decode()


def test_the_version(capsys):
    assert output(capsys, "--version") == (0, f"fewstep {fewstep.__version__}\n", "")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["trian"], "Unknown command 'trian'. Did you mean 'train'? Known: adapt, attack, bench, data, eval"),
        ([], "No command is given. Commands: train, eval"),
        (["train", "--foo", "maml", "sinusoid"], "fewstep train has no option --foo."),
        (["train", "maml", "--stpes=5", "sinusoid"], "has no option --stpes. Did you mean --steps?"),
        (["train", "maml", "sinusoid", "-x"], "fewstep train has no option -x."),
        (["train", "maml", "sinusoid", "--no_reprot"], "has no option --no-reprot. Did you mean --no-report?"),
        (
            ["launch", "--procesess", "2", "train"],
            "fewstep launch has no option --procesess. Did you mean --processes?",
        ),
        (["--tyro-print-completion", "fsh"], "needs a shell (bash, zsh, fish)"),
        (["--tyro-write-completion", "bash"], "and a file"),
        (["--tyro-write-completion", "bash", "/proc/none/x"], "Cannot write /proc/none/x"),
    ],
)
def test_names_that_do_not_exist_are_one_clear_line(args, words, capsys):
    code, out, error = output(capsys, *args)
    assert (code, out) == (2, "")
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "maml", "sinusoid", "--steps", "abc"], "--steps: 'abc' is not a whole number, such as 5."),
        (["train", "maml", "sinusoid", "--seed", "1.5"], "--seed: '1.5' is not a whole number, such as 5."),
        (["train", "maml", "sinusoid", "--inner-lr", "x"], "--inner-lr: 'x' is not a number, such as 0.01."),
        (["train", "maml", "sinusoid", "--hidden", "4", "b"], "--hidden: 'b' is not a whole number, such as 5."),
        (["train", "maml", "sinusoid", "--phase", "0", "pi"], "--phase: 'pi' is not a number, such as 0.01."),
        (["train", "maml", "sinusoid", "--phase", "0"], "Missing value for argument '--phase'. Expected 2 values."),
        (
            ["train", "maml", "sinusoid", "--outer", "none"],
            "Unknown outer 'none'. Did you mean 'unrolled'?",
        ),
        (["train", "maml"], "TASKS"),
    ],
)
def test_wrong_values_are_named_by_their_option(args, words, capsys):
    code, out, error = output(capsys, *args)
    shown = " ".join(re.sub("[│|]", " ", error).split())
    assert (code, out) == (2, "")
    assert words in shown
    for name in ("experiment.", "NoneType", "<class", "{None}", "tuple[", "int()"):
        assert name not in shown


def listed(shown):
    """The options that a help text lists, by the title of their group."""
    groups = re.split(r"^ (\S.*options) *\n -+ *$", shown, flags=re.MULTILINE)
    flags = lambda text: re.findall(r"^  (--[a-z][a-z-]*)", text, re.MULTILINE)
    return {title: flags(text) for title, text in zip(groups[1::2], groups[2::2], strict=True)}


@pytest.mark.parametrize(
    ("words", "applies", "does_not"),
    [
        (["mtnet", "sinusoid"], ["--amplitude", "--temperature", "--hidden", "--inner-steps"],
         ["--ways", "--minibatch", "--filters", "--task", "--full-context"]),
        (["maml", "sinusoid"], ["--amplitude", "--inner-steps"], ["--temperature", "--draw", "--minibatch"]),
        (["reptile", "sinusoid"], ["--minibatch"], ["--temperature", "--ways"]),
        (["maml", "sinusoid", "--outer", "reptile"], ["--minibatch"], ["--ways"]),
        (["prototypes", "omniglot"], ["--ways", "--filters"], ["--inner-steps", "--inner-lr", "--outer", "--hidden"]),
        (["mtnet", "polynomial"], ["--order"], ["--amplitude", "--ways"]),
        (["mtnet", "table:x.csv"], ["--task", "--x", "--y", "--temperature"], ["--ways", "--amplitude"]),
    ],
)  # fmt: skip
def test_the_help_of_a_training_shows_only_what_applies(words, applies, does_not, capsys):
    code, shown, _ = output(capsys, "train", *words, "--help")
    assert code == 0
    groups = listed(shown)
    flags = [flag for some in groups.values() for flag in some]
    assert set(applies) <= set(flags)
    assert not set(does_not) & set(flags)
    assert len(set(flags)) == len(flags)
    assert any("outer-step" in title for title in groups)
    assert any("training" in title for title in groups)
    assert "--steps" in next(some for title, some in groups.items() if "training" in title)


def test_what_does_not_apply_is_refused_with_where_to_look(capsys):
    code, _, error = output(capsys, "train", "mtnet", "sinusoid", "--ways", 3)
    assert code == 2
    assert error == (
        "fewstep: --ways does not apply to fewstep train mtnet sinusoid. Leave it out. What applies is listed by: "
        "fewstep train mtnet sinusoid --help\n"
    )


@pytest.mark.parametrize(
    "words", [["maml", "--steps", "0", "sinusoid"], ["--steps=0", "--no-report", "maml", "sinusoid"]]
)
def test_options_may_stand_before_the_tasks(words, tmp_path, capsys):
    assert output(capsys, "train", *words, "--hidden", 4, "--no-report", "--run", tmp_path / "x")[0] == 0


@pytest.mark.parametrize("name", commands())
def test_every_option_in_the_help_is_known(name, capsys):
    code, shown, _ = output(capsys, name, "--help")
    found = re.findall(r"^[│ ] {0,3}(--[a-z][a-z-]*)(?:, (--no-[a-z-]+))?", shown, re.MULTILINE)
    assert code == 0
    assert {flag for pair in found for flag in pair if flag} == set(_options(load(commands()[name], ["--help"])))
    assert "None" not in shown


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "--help"], "METHOD"),
        (["data", "list"], "omniglot"),
        (["train", "maml", "sinusoid", "--steps", "0", "--hidden", "4", "--no-report"], "Trained 0 steps"),
    ],
)
def test_no_color_means_no_escape_sequence(args, words, tmp_path):
    more = ["--run", str(tmp_path / "run")] if "maml" in args else []
    written = in_terminal(*args, *more, NO_COLOR="1")
    assert words in written
    assert "\x1b" not in written


def test_a_terminal_has_color_otherwise():
    assert "\x1b[" in in_terminal("data", "list")


def until_it_imports(process):
    """Waits until a process loads numpy: Python itself has started, and our imports are under way."""
    deadline = time.monotonic() + 600
    while "numpy" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert time.monotonic() < deadline, "nothing is imported"
        assert process.poll() is None
        time.sleep(0.005)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the maps of a process are Linux's")
@pytest.mark.parametrize("delay", [0.0, 0.2, 0.5, 0.9])
def test_ctrl_c_while_importing_is_one_line(delay, tmp_path):
    script = tmp_path / "fewstep"  # as an installer writes it
    script.write_text("import sys\nfrom fewstep.cli import script\nsys.exit(script())\n")
    for command in (FEWSTEP, [sys.executable, str(script)]):
        process = subprocess.Popen(
            [*command, "train", "maml", "sinusoid", "--steps", "1000000", "--run", str(tmp_path / "run")],
            stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
        try:
            until_it_imports(process)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            _, error = process.communicate(timeout=600)
        finally:
            process.kill()
        assert "Traceback" not in error
        assert "fewstep: Stopped" in error or "Stopped at step" in error
        assert process.returncode == 130


def test_importing_the_library_leaves_ctrl_c_alone(tmp_path):
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT); import fewstep\n"
        "assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler"
    )
    (tmp_path / "mine.py").write_text(code)
    done = subprocess.run([sys.executable, "-m", "mine"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_completion_of_commands_and_options_in_a_real_shell(tmp_path, capsys):
    script = tmp_path / "completion"
    assert not output(capsys, "--tyro-write-completion", "bash", script)[0]
    ask = (
        f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_fewstep; echo "${{COMPREPLY[@]}}"; '
        "complete -p fewstep"
    )
    for words, offered in ((["fewstep", "tr"], "train"), (["fewstep", "train", "--inner-s"], "--inner-steps")):
        done = subprocess.run(["bash", "-c", ask, "bash", *words], capture_output=True, text=True, timeout=600)
        assert offered in done.stdout.split(), done.stderr
        assert "complete -F" in done.stdout


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s left"), (119, "119 s left"), (2099, "35 min left"), (3599, "1 h 0 min left"),
     (168_901, "46 h 55 min left")],
)  # fmt: skip
def test_times_left_are_in_hours_and_minutes(seconds, words):
    assert time_left(seconds) == words


def test_the_line_of_a_long_training_has_hours_and_minutes(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with show_progress("maml on photos") as progress:
        progress.begin(0, 1000)
        for number in (1, 2):
            now[0] += 169.0
            progress.step(number, Row(number, [0.5], [1.0], None))
    assert capsys.readouterr().err.splitlines() == [
        "maml on photos: step 0 of 1000, compiling",
        "maml on photos: step 1 of 1000, 0.00 steps/s, loss 0.5",
        "maml on photos: step 2 of 1000, 0.01 steps/s, 46 h 51 min left, loss 0.5",
    ]


@pytest.mark.parametrize("command", ["eval", "inspect"])
def test_a_run_without_a_checkpoint_says_whether_one_will_come(command, tmp_path, capsys):
    path = create_run(tmp_path / "x", Experiment("maml", "sinusoid", steps=5)).path
    code, out, error = output(capsys, command, path)
    assert (code, out) == (2, "")
    assert error == (
        f"fewstep: {path} has no checkpoint: its training ended before the first one was saved. Run the command that "
        f"began it again: fewstep train maml sinusoid ... --run {path}\n"
    )
    with locked(path, "busy"):  # as a training holds it
        code, _, error = output(capsys, command, path)
    assert code == 2
    assert error == (
        f"fewstep: {path} has no checkpoint yet: a process is training it now, and saves the first one some seconds "
        "after compiling. Wait for it, and run this command again.\n"
    )
    with locked(path, "busy"):  # looking did not keep the folder
        pass
