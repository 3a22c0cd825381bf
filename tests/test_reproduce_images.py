"""Reproductions on images as a user types them: rows, budgets, what was stopped or trained otherwise."""

import dataclasses
import html
import json
import os
import shutil
import signal

import pytest
from helpers import bars, output
from PIL import Image

from fewstep import FewstepError, data
from fewstep.runs import Progress, Run
from fewstep_studies.reproduce import STUDIES, Result, Results, Watch, main_table, read_record, reproduce, write_figure
from fewstep_studies.reproduce._folder import command, gather, row_command
from fewstep_studies.reproduce._measurement import Measurement

pytestmark = pytest.mark.xdist_group("reproduced images")


@pytest.fixture(scope="module")
def mini(tmp_path_factory):
    """A folder as of miniImageNet: images in one place, and the lists of Ravi & Larochelle."""
    home = tmp_path_factory.mktemp("mini")
    os.environ["FEWSTEP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    for part, numbers in (("train", range(5)), ("val", range(5)), ("test", range(5))):
        lines = ["filename,label"]
        for number in numbers:
            for turn in range(16):
                label = f"{part[0]}{number:08d}"
                lines.append(f"{label}{turn:08d}.jpg,{label}")
                Image.fromarray(bars(number, turn % 3)).save(home / f"{label}{turn:08d}.jpg")
        (home / f"{part}.csv").write_text("\n".join(lines) + "\n")
    yield home
    del os.environ["FEWSTEP_CACHE"]


@pytest.mark.slow
def test_miniimagenet_from_a_users_folder(mini, tmp_path, capsys):
    out = tmp_path / "out"
    command = ("reproduce", "miniimagenet", "--images", mini, "--quick", "--n-tasks", 3, "--out", out, "--json")
    code, told, err = output(capsys, *command, "--only", "prototypes-1shot", "--budget", "4s")
    assert code == 0, err
    result = json.loads(told)
    assert [row["setting"]["statistics"] for row in result["rows"]] == ["of the query", "of the support"]
    assert result["rows"][0]["published"] == 0.4942
    assert result["rows"][0]["steps"] >= 1
    assert "--budget 4s" in result["command"]
    # Another row, from another go, in the same folder: the result tells of both, and none is trained again.
    _trained_as(out / "cells", "neighbor")
    # A third one was stopped: it is told as under way, with its curve and how to go on.
    _trained_as(out / "cells", "matching")
    (out / "cells" / "matching-1shot" / "judged.json").unlink()
    code, told, err = output(capsys, *command, "--only", "neighbor-1shot", "--resume", "--budget", "4s")
    assert code == 0, err
    result = json.loads(told)
    assert {row["method"] for row in result["rows"]} == {"prototypes", "neighbor"}
    (open_row,) = result["unfinished"]
    steps = result["rows"][0]["steps"]
    assert (open_row["cell"], open_row["step"], open_row["steps"]) == ("matching-1shot", steps, steps)
    assert 0 <= open_row["validation_accuracy"] <= 1
    ending = f"--images FOLDER --quick --steps {steps} --n-tasks 3 --only "
    assert open_row["command"] == f"fewstep reproduce miniimagenet {ending}matching-1shot --resume"
    assert result["rows"][0]["command"] == f"fewstep reproduce miniimagenet {ending}prototypes-1shot"
    assert (
        main_table("", read_record(Result, result).rows)
        .body[0][1]
        .endswith(f"{steps:,} steps, statistics of the query")
    )
    assert "matching" in (out / "figures" / "accuracy-by-time.csv").read_text()
    assert "compiling" not in err
    pages = {name: (out / name).read_text() for name in ("report.html", "episodes.html")}
    assert "episodes.html" in pages["report.html"]
    assert pages["episodes.html"].count("<table>") == 2 * 4
    assert {p.name for p in (out / "figures").iterdir()} >= {"accuracy-by-time.png", "accuracy-by-time.csv"}
    assert json.loads((out / "result.json").read_text())["cost"][0]["training_minutes"] > 0


def test_a_row_that_was_stopped_is_told_with_its_curve(mini, tmp_path):
    study, out = STUDIES["miniimagenet"], tmp_path / "out"
    stop = Progress(lambda first, last: None, lambda step, row: signal.raise_signal(signal.SIGINT), lambda text: None)
    options = dataclasses.replace(study.quick, only=("prototypes-1shot",), steps=8, n_tasks=3)
    data.images_at("miniimagenet", mini)
    assert reproduce(study, out, options, Watch(lambda cells: lambda number: stop, print)) is None
    (row,) = json.loads((out / "result.json").read_text())["unfinished"]
    assert row["cell"] == "prototypes-1shot"
    assert row["command"].endswith("--only prototypes-1shot --resume")
    assert row["command"] in html.unescape((out / "report.html").read_text())
    data._places._folders.clear()


def _trained_as(cells, method):
    """Makes the row of another method of that of prototypes."""
    shutil.copytree(cells / "prototypes-1shot", cells / f"{method}-1shot")
    config = cells / f"{method}-1shot" / "config.json"
    config.write_text(config.read_text().replace('"method": "prototypes"', f'"method": "{method}"'))


def test_a_row_that_was_trained_otherwise_is_not_told_as_the_studys(tmp_path):
    study = STUDIES["omniglot"]
    cell = study.cells(study.full)[0]
    other = cell.plan.experiment.replace(outer_lr=0.001, steps=7)
    (tmp_path / "cells" / cell.name).mkdir(parents=True)
    Run(tmp_path / "cells" / cell.name, other).write_config()
    with pytest.raises(FewstepError, match=r"trained otherwise .*: outer_lr is 0.001 there and 0.002 here\."):
        gather(study, tmp_path, study.full)


def test_a_row_that_diverged_is_told_and_drawn(tmp_path):
    study = STUDIES["cifar-fs"]
    (cell,) = (cell for cell in study.cells(study.full) if cell.name == "maml-5shot")
    lost = {"seconds": 1.0, "steps_per_second": None, "diverged_at": 3, "diverged_seeds": 1, "errors": []}
    lost |= {"training": [{"step": 1, "errors": [0.5]}], "times": [(1, 2.0), (3, 2.5)], "episodes": []}
    results = Results(study.full, [(cell, read_record(Measurement, lost))])
    (row,) = study.rows(results)
    assert (row.verdict, row.published, row.mean) == ("diverged", 0.715, None)
    assert "diverged" in main_table("", [row]).body[0][2]
    (figure,) = (figure for figure in study.figures(results) if figure.panels)
    write_figure(tmp_path, figure, "")
    assert figure.data == [("5 ways, 5 shots", "MAML", 1 / 4 / 60, 0.5, 1, 2.0 / 60)]  # four steps a second
    assert "0 of 0 right" in study.pages(results)["episodes"]
    assert command(study, dataclasses.replace(study.full, shots=(1, 5), budget=90.0)).endswith(
        "--budget 90s --shots 1 5"
    )
    study = STUDIES["omniglot"]
    told = row_command(study, dataclasses.replace(study.full, budget=90.0), "mtnet-5way-5shot", 7, 5)
    assert told == "fewstep reproduce omniglot --steps 7 --shots 5 --only mtnet-5way-5shot"


def test_a_list_that_names_a_missing_image_is_said(mini, tmp_path, capsys):
    (tmp_path / "train.csv").write_text("filename,label\nn1.jpg,n\n")
    for name in ("val", "test"):
        (tmp_path / f"{name}.csv").write_text((mini / f"{name}.csv").read_text())
    command = ("reproduce", "miniimagenet", "--quick", "--out", tmp_path / "out", "--images")
    assert "has no n1.jpg" in output(capsys, *command, tmp_path)[2]
    (tmp_path / "train.csv").write_text("other\n1\n")
    code, _, err = output(capsys, *command, tmp_path, "--overwrite")
    assert code == 2
    assert "needs columns filename and label" in err
    data._places._folders.clear()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("omniglot", "--budget", "soon"), "--budget is 'soon'. Give a time such as"),
        (("omniglot", "--budget", "1m", "--steps", "5"), "both given"),
        (("omniglot", "--images", "."), "--images does not apply"),
        (("sinusoid", "--budget", "1m"), "--budget does not apply"),
        (("omniglot", "--only", "mtnet-5way"), "Did you mean 'mtnet-5way-1shot'"),
    ],
)
def test_mistakes_in_a_reproduction_of_images(given, said, capsys, tmp_path):
    code, _, err = output(capsys, "reproduce", *given, "--out", tmp_path / "out")
    assert code == 2
    assert said in err


def test_the_papers_rows_are_all_there():
    names = lambda study, **scale: {cell.name for cell in study.cells(dataclasses.replace(study.full, **scale))}
    omniglot = names(STUDIES["omniglot"])
    assert {f"{m}-{w}way-1shot" for m in ("mtnet", "tnet", "maml", "meta_sgd", "matching") for w in (5, 20)} <= omniglot
    assert {"prototypes-1shot", "mtnet-vinyals-5way-1shot"} <= omniglot
    cells = STUDIES["omniglot"].cells(STUDIES["omniglot"].full)
    assert {cell.label for cell in cells if cell.plan.experiment.split == "maml"} == {
        "MT-net",
        "T-net",
        "MAML",
        "Meta-SGD",
    }
    assert [cell.name for cell in cells if cell.ours] == ["mtnet-vinyals-5way-1shot", "mtnet-vinyals-20way-1shot"]
    assert all(cell.setting["split"] == cell.plan.experiment.split for cell in cells)
    assert "mtnet-5way-5shot" in names(STUDIES["omniglot"], shots=(5,))
    assert {"mtnet-1shot", "prototypes-5shot"} <= names(STUDIES["cifar-fs"])
