"""The wheel builds, is pure Python, and holds the package and nothing else."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

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
    names = re.findall(r" as ([a-zA-Z]\w*)$", Path(fewstep.__file__).read_text(), re.MULTILINE)
    assert len(names) <= 40
    assert all(getattr(fewstep, name).__doc__ for name in names if callable(getattr(fewstep, name)))
