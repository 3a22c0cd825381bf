"""The wheels build, are pure Python, and hold their package and nothing else."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import fewstep

ROOT = Path(__file__).resolve().parents[1]


def wheel_of(project: Path, folder: Path) -> zipfile.ZipFile:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel)


def test_the_wheel_is_pure_python(tmp_path):
    wheel = wheel_of(ROOT, tmp_path)
    assert Path(str(wheel.filename)).name == f"fewstep-{fewstep.__version__}-py3-none-any.whl"
    names = wheel.namelist()
    assert "fewstep/py.typed" in names
    assert {"fewstep/data/omniglot-sample.npz", "fewstep/data/omniglot-LICENSE.txt"} <= set(names)
    assert all(name.startswith(("fewstep/", "fewstep-")) for name in names)


def test_the_wheel_of_the_studies_offers_their_commands(tmp_path):
    wheel = wheel_of(ROOT / "studies", tmp_path)
    names = wheel.namelist()
    assert {"fewstep_studies/reproduce/studies.toml", "fewstep_studies/reproduce/layerwise/published.csv"} <= set(names)
    assert all(name.startswith(("fewstep_studies/", "fewstep_studies-")) for name in names)
    (entries,) = (wheel.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    assert "reproduce = fewstep_studies.cli.reproduce:reproduce_command" in entries


def test_the_studies_are_of_the_same_version():
    ours, studies = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in (ROOT, ROOT / "studies")
    )
    assert studies["version"] == ours["version"] == fewstep.__version__
    assert f"fewstep=={ours['version']}" in studies["dependencies"]
    assert ours["optional-dependencies"]["studies"] == [f"fewstep-studies=={ours['version']}"]


def test_the_top_level_is_small_and_documented():
    names = re.findall(r" as ([a-zA-Z]\w*)$", Path(fewstep.__file__).read_text(), re.MULTILINE)
    assert len(names) <= 50
    assert all(getattr(fewstep, name).__doc__ for name in names if callable(getattr(fewstep, name)))


_ABSENT = (
    "orbax",
    "tensorstore",
    "tensorboardX",
    "tyro",
    "PIL",
    "scipy",
    "matplotlib",
    "rich",
    "pandas",
    "sklearn",
    "fewstep.encoders",
)


def test_the_library_loads_nothing_of_a_run_a_plot_or_a_command_line():
    code = f"import sys, fewstep; print([name for name in {_ABSENT} if name in sys.modules]); fewstep.Experiment"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="'fewstep' has no attribute 'experiment'"):
        _ = fewstep.experiment


def test_private_modules_are_private():
    """What another package needs is exported by the package's `__init__`; the floors are import-linter's to check."""
    reached = []
    for folder in (ROOT / "fewstep", ROOT / "studies" / "fewstep_studies"):
        for path in sorted(folder.rglob("*.py")):
            own = f"{folder.name}.{path.relative_to(folder).parts[0]}"
            for other, module in re.findall(r"from (fewstep(?:_studies)?\.\w+)\.(_\w+)", path.read_text()):
                if other != own:
                    reached.append(f"{path.relative_to(ROOT)}: {other}.{module}")
    assert reached == []


def test_only_kinds_ask_what_kind_a_problem_is():
    question = re.compile(r"has_images|has_table|\bkind\.name\s*==|==\s*[\"']omniglot[\"']")
    asking = [
        str(path.relative_to(ROOT)) for path in sorted((ROOT / "fewstep").rglob("*.py"))
        if "problems" not in path.parts and question.search(path.read_text())
    ]  # fmt: skip
    assert asking == []
