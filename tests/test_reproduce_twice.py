"""Every reproduction as a command, twice with the same words: the second finds what the first has done."""

import dataclasses

import numpy as np
import pytest
from helpers import DATA, needs_omniglot, output
from PIL import Image

from fewstep.cli import main
from fewstep_studies.reproduce import STUDIES
from fewstep_studies.reproduce._folder import held, identity_of

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real data are not beside the project")
TINY = ["--quick", "--steps", "1", "--n-tasks", "2"]
COMMANDS = {
    "sinusoid": [*TINY, "--only", "maml"],
    "polynomial": [*TINY, "--only", "order-2"],
    "step-size": [*TINY, "--only", "maml-1"],
    "more-steps": [*TINY, "--only", "maml"],
    "five-steps": [*TINY, "--only", "10-shots"],
    "depth": [*TINY, "--only", "maml-1"],
    "out-of-range": [*TINY, "--only", "sine-maml"],
    "random-start": TINY,
    "omniglot": [*TINY, "--only", "prototypes-1shot", "--shots", "1"],
    "cifar-fs": [*TINY, "--only", "prototypes-1shot", "--shots", "1"],
    "miniimagenet": [*TINY, "--only", "prototypes-1shot", "--images", "images"],
    "layerwise": ["--quick", "--folds", "2", "--only", "random-svm", "--data-dir", "."],
    "universality": ["--quick", "--bins", "2", "--target", "ridge"],
    "neural-processes": ["--quick", "--steps", "2", "--n-tasks", "32", "--only", "np"],
    "curves": ["--quick", "--steps", "1", "--only", "growth", "ridge"],
    "pretrained": [*TINY, "--only", "clinc150-metric-1shot"],
    "family": [*TINY, "--only", "sine-5steps-mtnet"],
}
QUICK = ("layerwise",)  # the rest take long; test_reproduce has sinusoid twice


def each():
    marks = {"random-start": needs_omniglot, "omniglot": needs_omniglot, "cifar-fs": needs_data, "curves": needs_data,
             "pretrained": needs_data}  # fmt: skip
    for name in COMMANDS:
        slow = [] if name in QUICK else [pytest.mark.slow]
        yield pytest.param(name, marks=[*slow, *([marks[name]] if name in marks else [])])


def test_none_is_left_out():
    assert set(COMMANDS) == set(STUDIES)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, with the images that one of the reproductions is given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    (tmp_path / "images").mkdir()
    for part in ("train", "val", "test"):
        names = [f"{part}{label}{number:02d}.jpg,{part}{label}" for label in range(5) for number in range(16)]
        (tmp_path / "images" / f"{part}.csv").write_text("\n".join(["filename,label", *names]) + "\n")
        for number, name in enumerate(names):
            shade = np.full((84, 84, 3), number, np.uint8)
            Image.fromarray(shade).save(tmp_path / "images" / name.partition(",")[0])
    return tmp_path


@pytest.mark.parametrize("name", list(each()))
def test_every_reproduction_runs_twice(name, here, capsys):
    command = ("reproduce", name, *COMMANDS[name], "--out", "out")
    code, _, error = output(capsys, *command)
    assert code == 0, error
    before = {path: path.stat().st_mtime_ns for path in here.rglob("checkpoints/*")}
    code, _, error = output(capsys, *command, "--resume")
    assert code == 0, error
    assert {path: path.stat().st_mtime_ns for path in here.rglob("checkpoints/*")} == before  # nothing is trained again


def identities():
    """What the folder of each reproduction is known by, of settings that JSON does not keep as they are."""
    for name, study in STUDIES.items():
        more = {"only": ("maml", "mtnet"), "shots": (1, 5), "budget": 60.0, "target": ("ridge",)}
        more = {key: value for key, value in more.items() if hasattr(study.quick, key)}
        yield name, identity_of(study, dataclasses.replace(study.quick, **more))


@pytest.mark.parametrize(("name", "identity"), list(identities()))
def test_a_reproduction_knows_its_own_folder(name, identity, tmp_path):
    for resume in (False, True):
        with held(identity, tmp_path / "out", resume=resume, overwrite=False):
            pass


@pytest.mark.parametrize("name", STUDIES)
def test_help_shows_what_applies_and_the_rest_is_refused(name, capsys, tmp_path):
    with pytest.raises(SystemExit):
        main(["reproduce", name, "--help"])
    shown = capsys.readouterr().out
    options = {
        "seeds",
        "steps",
        "n-tasks",
        "budget",
        "shots",
        "images",
        "folds",
        "untimed",
        "target",
        "bins",
        "examples",
        "minutes",
    }
    own = {field.name.replace("_", "-") for field in dataclasses.fields(STUDIES[name].full)} | {*STUDIES[name].places}
    for option in options:
        assert (f"--{option} " in shown or f"--{option}," in shown) == (option in own), option
        if option not in own:
            code, _, error = output(capsys, "reproduce", name, f"--{option}", "3", "--out", tmp_path / "x")
            assert (code, f"--{option} does not apply to {name}" in error) == (2, True)
    assert not (tmp_path / "x").exists()


def test_a_name_is_asked_for(capsys):
    code, _, error = output(capsys, "reproduce", "--quick")
    assert (code, "Say what to reproduce" in error) == (2, True)
