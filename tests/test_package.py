"""The wheel builds, is pure Python, and holds the package and nothing else."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fewstep

ROOT = Path(__file__).resolve().parents[1]


def test_the_wheel_is_pure_python(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"fewstep-{fewstep.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "fewstep/py.typed" in names
    assert {"fewstep/data/omniglot-sample.npz", "fewstep/data/omniglot-LICENSE.txt"} <= set(names)
    assert all(name.startswith(("fewstep/", "fewstep-")) for name in names)


def test_the_top_level_is_small_and_documented():
    source = Path(fewstep.__file__).read_text()  # other tests import more of the package, which then shows here too
    names = [name for name in vars(fewstep) if not name.startswith("_") and re.search(rf"\b{name}\b", source)]
    assert len(names) <= 50
    assert all(getattr(fewstep, name).__doc__ for name in names if callable(getattr(fewstep, name)))


_ABSENT = ("orbax", "tensorstore", "tensorboardX", "tyro", "PIL", "scipy", "matplotlib", "rich", "pandas", "sklearn")


def test_the_library_loads_nothing_of_a_run_a_plot_or_a_command_line():
    code = f"import sys, fewstep; print([name for name in {_ABSENT} if name in sys.modules]); fewstep.Experiment"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="'fewstep' has no attribute 'experiment'"):
        _ = fewstep.experiment
