"""Who speaks how: the library names arguments as Python spells them, and the command line prints them as its flags."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from helpers import output

import fewstep
from fewstep import Experiment, FewstepError, data, tasks
from fewstep.cli._show import flags
from fewstep.experiments import build

PACKAGE = Path(fewstep.__file__).parent
LIBRARY = ("rules", "learners", "networks", "tasks", "tables", "data", "estimators", "inspection", "interop")
FILES = [*PACKAGE.glob("_*.py"), PACKAGE / "losses.py", *(f for name in LIBRARY for f in (PACKAGE / name).glob("*.py"))]


def said(file):
    """The texts of the errors that a file raises, without commands that are meant for a shell."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Raise):
            parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            yield re.sub(r"(fewstep [a-z]+|command line)[^;.]*", "", "".join(p for p in parts if isinstance(p, str)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_error_of_the_library_names_a_flag(file):
    assert [text for text in said(file) if re.search(r"--[a-z]|experiment\.[a-z]", text)] == []


def classes(count):
    return data.make_set({str(label): np.zeros((4, 4, 4, 1), np.uint8) for label in range(count)})


@pytest.mark.parametrize(
    ("make", "python", "shell"),
    [
        (lambda: tasks.images(classes(3), ways=9), "Use `ways=3` or fewer", "Use --ways 3 or fewer"),
        (lambda: Experiment("maml", "sinusoid", inner_lr=-1), "`inner_lr` is -1. It", "--inner-lr is -1. It"),
        (lambda: Experiment("maml", "sinusoid", hidden=(0,)), "`hidden` is (0,)", "--hidden is (0,)"),
        (
            lambda: build(Experiment("mtnet", "omniglot", outer="reptile")),
            "too: `adapt_norm=True`.", "too: --adapt-norm.",
        ),
        (
            lambda: build(Experiment("maml", "sinusoid", network="a.py:f", hidden=(3,))),
            "`hidden` does not apply: `network` brings", "--hidden does not apply: --network brings",
        ),
    ],
)  # fmt: skip
def test_a_message_in_python_and_on_the_command_line(make, python, shell):
    with pytest.raises(FewstepError) as caught:
        make()
    assert python in str(caught.value)
    assert "--" not in str(caught.value)
    assert shell in flags(str(caught.value))


def test_names_that_are_no_flags_stay_as_they_are():
    assert flags("Leave it out of `layers`, or of `frozen`.") == "Leave it out of `layers`, or of `frozen`."
    assert flags("Train with `missing='mean'`.") == "Train with --missing mean."
    assert flags("Look there: `fewstep.data.look_in(FOLDER)`.") == "Look there: --data-dir FOLDER."


def test_the_command_line_prints_its_flags(capsys, tmp_path):
    code, _, told = output(capsys, "train", "maml", "sinusoid", "--ways", 3, "--run", tmp_path / "run")
    assert code == 2
    assert "--ways does not apply to fewstep train maml sinusoid. Leave it out." in told
    assert "`" not in told
