"""The README keeps its word: its example runs, its links lead somewhere, its table lists every rule."""

import importlib
import re
from pathlib import Path

import jax
import pytest

from fewstep import rules
from fewstep.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(capsys):
    _, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.splitlines()) <= 25
    scope = {}
    exec(compile(code.replace("steps=2000", "steps=50"), "README.md", "exec"), scope)
    assert "after 5 steps" in capsys.readouterr().out
    assert scope["mine"].name == "metric+mask+rates"


@pytest.mark.slow
def test_your_own_data(tmp_path, monkeypatch, capsys):
    """The section's commands and its code, one after the other as a new user would, with fewer steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    section = README.split("## Your own data")[1].split("\n## ")[0]
    (commands,), (code,) = (re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL) for kind in ("sh", "python"))
    make, train, adapt = commands.strip().splitlines()
    assert make == "python examples/sensors.py"
    importlib.import_module("sensors").main()
    fewer = ["--steps", "4", "--validation-tasks", "4", "--seeds", "1", "--hidden", "8", "--inner-steps", "2"]
    assert main([*train.split()[1:], *fewer]) == 0
    capsys.readouterr()
    assert main(adapt.split()[1:]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "hour,prediction,low,high"
    exec(compile(code.replace("shots=5", "'ridge', shots=5, steps=20, seeds=1"), "README.md", "exec"), {})
    assert "prediction" in capsys.readouterr().out


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_rule_has_a_page():
    pages = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert {name.removesuffix("_full") for name in rules.RULES} <= pages


NAMES = ("concepts", "bring-your-model", "add-a-method", "methods/mtnet", "images", "layerwise")
SLOW = (
    "bring-your-model",
    "concepts",
    "methods/mtnet",
    "add-a-method",
    "layerwise",
    "images",
)  # other tests do what they show
PAGES = [pytest.param(ROOT / "docs" / f"{name}.md", marks=pytest.mark.slow if name in SLOW else ()) for name in NAMES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_the_docs_runs(page):
    """Every Python block, in order, in one scope; long trainings are cut short."""
    scope = {"__name__": page.stem}
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        short = re.sub(r"steps( ?= ?)\d{3,}", r"steps\g<1>20", code)
        with jax.numpy_rank_promotion("allow"):  # a reader's own code may be less strict than ours
            exec(compile(short, page.name, "exec"), scope)


def test_commands_of_the_readme_exist():
    from fewstep.cli._main import COMMANDS

    used = re.findall(r"^fewstep (\w+) ", "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)), re.MULTILINE)
    assert len(used) == 15
    assert set(used) <= set(COMMANDS)
