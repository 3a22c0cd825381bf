"""README and docs: their links lead somewhere, and they list every method. `test_docs` runs their code."""

import importlib
import re
from pathlib import Path

import pytest
from helpers import ALONE

from fewstep import learners, rules
from fewstep.cli import main
from fewstep.outers import OUTERS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
METHODS = (*rules.RULES, *ALONE, *learners.LEARNERS)


def test_the_example_is_short():
    _, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(code.splitlines()) <= 25


@pytest.mark.slow
def test_your_own_data(tmp_path, monkeypatch, capsys):
    """The section's commands, one after the other as a new user would, with fewer steps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    section = README.split("## Your own data")[1].split("\n## ")[0]
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    make, train, adapt = commands.strip().splitlines()
    assert make == "python examples/sensors.py"
    importlib.import_module("sensors").main()
    fewer = ["--effort", "0.01", "--member-seeds", "1", "--hidden", "8"]
    assert main([*train.split()[1:], *fewer]) == 0
    capsys.readouterr()
    assert main(adapt.split()[1:]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "hour,prediction,low,high"


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_in_the_readme_and_has_a_page_that_trains_it(name):
    (row,) = (line for line in README.splitlines() if re.match(rf"\|[^|]*`{name}`", line))
    pages = re.findall(r"\]\((docs/methods/\w+\.md)\)", row)
    assert any(f"`{name}`" in text or f"fewstep train {name} " in text for text in map(read, pages)), pages


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_every_page_of_a_method_is_listed(page):
    assert f"](methods/{page.name})" in read("docs/index.md")
    assert f"](docs/methods/{page.name})" in README


@pytest.mark.parametrize("name", [*rules.LINKS, *OUTERS])
def test_every_link_and_outer_gradient_has_a_page_that_shows_it(name):
    shows = re.compile(rf"`{name}`|[.`]{name}\(|[+ ]{name}[+ ]")
    assert any(shows.search(page.read_text()) for page in (ROOT / "docs" / "methods").glob("*.md"))


def read(page: str) -> str:
    return (ROOT / page).read_text()
