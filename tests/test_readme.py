"""The README keeps its word: its example runs, its links lead somewhere, its table lists every rule."""

import re
from pathlib import Path

import pytest

from fewstep import rules
from fewstep.runs.build import ALIASES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.splitlines()) <= 25
    scope = {}
    exec(compile(code.replace("steps=2000", "steps=50"), "README.md", "exec"), scope)
    assert "after 5 steps" in capsys.readouterr().out
    assert scope["mine"].name == "metric+mask+rates"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_method_is_in_the_table_and_has_a_page():
    table = README.split("## Methods")[1]
    pages = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    for name in [*rules.RULES, *ALIASES]:
        assert f"`{name}`" in table
    assert {name.removesuffix("_full") for name in rules.RULES} <= pages


def test_commands_of_the_readme_exist():
    from fewstep.cli._main import COMMANDS

    used = re.findall(r"^fewstep (\w+) ", "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)), re.MULTILINE)
    assert len(used) == 4
    assert set(used) <= set(COMMANDS)
