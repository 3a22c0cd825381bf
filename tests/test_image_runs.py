"""Runs on images as a user types them: a folder, other ways, learners, adapting to pictures, reproductions."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import DATA, bars, needs_omniglot, output
from PIL import Image

from fewstep import Experiment, FewstepError, data
from fewstep.cli import main
from fewstep.experiments import build
from fewstep.models import adapt, evaluate_model, load_pretrained, pretrained
from fewstep.problems import Plan
from fewstep.reports import scores, write_report
from fewstep.reproduce import STUDIES, Results, Watch, main_table, read_result, reproduce, write_figure
from fewstep.reproduce._folder import command, gather, row_command
from fewstep.reproduce._measurement import read_measurement
from fewstep.runs import Progress, load, open_run
from fewstep.tasks import batch

pytestmark = pytest.mark.xdist_group("images")  # what one test trains, others use
PLAIN = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
SIZES = ("--queries", "2", "--validation-tasks", "4")
STEPS = ("--steps", "4", "--validate-every", "2", "--log-every", "2", "--meta-batch", "2")
SMALL = (
    "--ways",
    "3",
    "--filters",
    "4",
    "--blocks",
    "1",
    "--image-size",
    "16",
    "--queries",
    "2",
    "--validation-tasks",
    "4",
)


def command(photos):
    return ("train", "anil", f"folder:{photos}", *STEPS, *SMALL)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of twenty classes with six images each, in a place of its own for what is prepared."""
    home = tmp_path_factory.mktemp("photos")
    os.environ["FEWSTEP_CACHE"] = str(home / "cache")
    for number in range(20):
        (home / "images" / f"c{number:02d}").mkdir(parents=True)
        for turn in range(6):
            Image.fromarray(bars(number, turn % 3)).save(home / "images" / f"c{number:02d}" / f"{turn}.png")
    yield home / "images"
    del os.environ["FEWSTEP_CACHE"]


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "x"
    assert main([*command(photos), *SIZES, "--run", str(path), "--no-report"]) == 0
    models = {"anil": load(path)}
    write_report(path / "report.html", models, scores(models, n_tasks=4))
    return path


def test_a_run_on_a_folder_keeps_its_split_and_shows_episodes(run, photos):
    classes = open_run(run).experiment.classes
    assert {part: len(some) for part, some in classes.items()} == {"train": 13, "validation": 3, "test": 4}
    page = (run / "report.html").read_text()
    assert page.count("data:image/png;base64") == 4 * 6
    assert "statistics of the query" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_split_stays_when_the_folder_grows(run, photos, capsys):
    (photos / "c99").mkdir()
    Image.fromarray(bars(3)).save(photos / "c99" / "0.png")
    before = open_run(run).experiment.classes
    code, out, err = output(
        capsys, *command(photos), *SIZES, "--run", run, "--no-report", "--json"
    )
    (photos / "c99" / "0.png").unlink()
    (photos / "c99").rmdir()
    assert (code, json.loads(out)["step"]) == (0, 4), err
    assert open_run(run).experiment.classes == before


def test_eval_tells_both_ways_of_normalizing_and_takes_fewer_ways(run, capsys):
    code, out, _ = output(
        capsys, "eval", run, "--ways", 2, "--inner-steps", 1, "--n-tasks", 4, "--split", "train", "--json"
    )
    assert code == 0
    rows = json.loads(out)["rows"]
    assert [(row["ways"], row["norm"], row["transductive"], row["metric"], row["split"]) for row in rows] == [
        (2, "transductive", True, "accuracy", "train"), (2, "support", False, "accuracy", "train"),
    ]  # fmt: skip
    assert all(0 <= row["mean"] <= 1 for row in rows)
    code, _, err = output(capsys, "eval", run, "--ways", 4)
    assert code == 2
    assert "A task has 4 classes and the network 3 outputs" in err
    assert "--ways is 0" in output(capsys, "eval", run, "--ways", 0)[2]
    with pytest.raises(FewstepError, match="Unknown split 'tset'"):
        evaluate_model(load(run), Plan((1,), split="tset"), steps=(1,))


@pytest.mark.slow
def test_prototypes_are_tested_at_more_ways_than_they_were_trained_at(photos, tmp_path, capsys):
    command = ("train", "prototypes", f"folder:{photos}", *SMALL, *SIZES, "--steps", 1, "--no-report")
    assert output(capsys, *command, "--run", tmp_path / "p")[0] == 0
    code, out, _ = output(capsys, "eval", tmp_path / "p", "--ways", 4, "--n-tasks", 3, "--json")
    assert code == 0
    assert [(row["ways"], row["inner_steps"]) for row in json.loads(out)["rows"]] == [(4, 0), (4, 0)]
    code, _, err = output(capsys, "eval", tmp_path / "p", "--inner-steps", 1)
    assert (code, "--inner-steps does not apply: prototypes has none" in err) == (2, True)
    code, _, err = output(capsys, "inspect", tmp_path / "p")
    assert code == 2
    assert "no mask and no metric" in err


def test_a_start_that_fails_leaves_no_folder_in_the_way(photos, tmp_path, capsys):
    for wrong, said in ((("--queries", 9), "fewer images"), (("--validation-ways", 4), "4 classes")):
        code, _, err = output(
            capsys, *command(photos), *wrong, "--run", tmp_path / "x"
        )
        assert code == 2
        assert said in err
        assert not (tmp_path / "x").exists()


def test_adapting_to_pictures_names_their_classes(run, photos, tmp_path, capsys):
    support = tmp_path / "known"
    for name in ("c00", "c01"):
        (support / name).mkdir(parents=True)
        (support / name / "a.png").write_bytes((photos / name / "0.png").read_bytes())
    code, out, _ = output(capsys, "adapt", run, "--support", support, "--query", photos / "c00")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["image"] for row in rows] == sorted(str(p) for p in (photos / "c00").iterdir())
    assert {row["prediction"] for row in rows} <= {"c00", "c01"}
    for row in rows:
        assert abs(float(row["probability of c00"]) + float(row["probability of c01"]) - 1) < 1e-3
    asked = ("adapt", run, "--support", support, "--query", photos / "c00", "--inner-steps", 0, "--json", "--norm")
    assert output(capsys, *asked, "transductive")[1] != output(capsys, *asked, "support")[1]
    code, out, _ = output(capsys, "adapt", run, "--support", support, "--query", photos / "c00" / "0.png", "--json")
    assert (code, len(json.loads(out)["prediction"])) == (0, 1)
    (support / "c01" / "a.png").unlink()
    assert "needs at least two" in output(capsys, "adapt", run, "--support", support, "--query", photos / "c00")[2]
    assert "holds no image" in output(capsys, "adapt", run, "--support", photos, "--query", support / "c01")[2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"method": "prototypes", "tasks": "sinusoid"}, "needs classes of images"),
        ({"method": "prototypes", "inner_lr": 0.1}, "`inner_lr` does not apply"),
        ({"method": "mtnet", "hidden": (4,)}, "`hidden` does not apply"),
        ({"method": "mtnet", "order": 2}, "`order` does not apply"),
        ({"method": "mtnet", "full_context": True}, "`full_context` does not apply"),
        ({"method": "mtnet", "color": "gray"}, "`color` does not apply"),
        ({"method": "mtnet", "tasks": "sinusoid", "ways": 5}, "`ways` does not apply"),
        ({"method": "mtnet", "tasks": "omniglott"}, "Did you mean 'omniglot'"),
        ({"method": "prototype"}, "Did you mean 'prototypes'"),
        ({"method": "mtnet", "norm": "transductive", "image_size": 0}, "`image_size` is 0"),
        ({"method": "prototypes", "inner_steps": 0}, "`inner_steps` does not apply"),
        ({"method": "mtnet", "split_seed": 0}, "`split_seed` does not apply"),
        ({"method": "reptile"}, "`adapt_norm"),
    ],
)
def test_options_that_do_not_apply_are_refused(given, said):
    with pytest.raises(FewstepError, match=said):
        build(Experiment(**({"tasks": "omniglot"} | given)))


def test_sizes_come_from_the_tasks():
    sizes = lambda e: (e.steps, e.meta_batch, e.shots, e.queries)
    assert sizes(Experiment("mtnet", "sinusoid")) == (60_000, 4, 10, 10)
    assert sizes(Experiment("mtnet", "omniglot")) == (40_000, 32, 1, 1)
    assert sizes(Experiment("prototypes", "cifar-fs")) == (40_000, 2, 1, 5)
    kept = Experiment("mtnet", "folder:x", classes={"train": ("a",), "validation": ("b",), "test": ("c",)})
    assert Experiment.from_json(kept.to_json()) == kept


@pytest.mark.slow
def test_thousands_of_steps_on_two_devices_do_not_stall(photos, tmp_path):
    """One execution in flight: steps sent one by one to two devices on two cores starve each other's threads."""
    command = [
        sys.executable, "-m", "fewstep", "train", "anil", f"folder:{photos}", "--ways", "2", "--filters", "1",
        "--image-size", "16", "--down", "stride", "--queries", "1", "--steps", "5000", "--meta-batch", "2",
        "--devices", "2", "--chunk", "1", "--validate-every", "2500", "--validation-tasks", "2", "--log-every", "500",
        "--no-report", "--run", str(tmp_path / "run"),
    ]  # fmt: skip
    done = subprocess.run(command, env=PLAIN, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "run").step == 5000


@pytest.fixture(scope="module")
def mini(photos, tmp_path_factory):
    """A folder as of miniImageNet: images in one place, and the lists of Ravi & Larochelle."""
    home = tmp_path_factory.mktemp("mini")
    for part, numbers in (("train", range(5)), ("val", range(5)), ("test", range(5))):
        lines = ["filename,label"]
        for number in numbers:
            for turn in range(16):
                label = f"{part[0]}{number:08d}"
                lines.append(f"{label}{turn:08d}.jpg,{label}")
                Image.fromarray(bars(number, turn % 3)).save(home / f"{label}{turn:08d}.jpg")
        (home / f"{part}.csv").write_text("\n".join(lines) + "\n")
    return home


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
    assert main_table("", read_result(result).rows).body[0][1].endswith(f"{steps:,} steps, statistics of the query")
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
    data._places._asked.clear()


def _trained_as(cells, method):
    """Makes the row of another method of that of prototypes."""
    shutil.copytree(cells / "prototypes-1shot", cells / f"{method}-1shot")
    config = cells / f"{method}-1shot" / "config.json"
    config.write_text(config.read_text().replace('"method": "prototypes"', f'"method": "{method}"'))


def test_a_row_that_was_trained_otherwise_is_not_told_as_the_studys(tmp_path):
    study = STUDIES["omniglot"]
    cell = study.cells(study.full)[0]
    other = dataclasses.replace(cell.plan.experiment, outer_lr=0.001, steps=7)
    (tmp_path / "cells" / cell.name).mkdir(parents=True)
    config = {"fewstep": "0.1.0", "experiment": dataclasses.asdict(other)}
    (tmp_path / "cells" / cell.name / "config.json").write_text(json.dumps(config))
    with pytest.raises(FewstepError, match=r"trained otherwise .*: outer_lr is 0.001 there and 0.002 here\."):
        gather(study, tmp_path, study.full)


def test_a_row_that_diverged_is_told_and_drawn(tmp_path):
    study = STUDIES["cifar-fs"]
    (cell,) = (cell for cell in study.cells(study.full) if cell.name == "maml-5shot")
    lost = {"seconds": 1.0, "steps_per_second": None, "diverged_at": 3, "diverged_seeds": 1, "errors": []}
    lost |= {"training": [{"step": 1, "errors": [0.5]}], "times": [(1, 2.0), (3, 2.5)], "episodes": []}
    results = Results(study.full, [(cell, read_measurement(lost))])
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
    data._places._asked.clear()


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


@needs_omniglot
def test_the_model_of_the_package_tells_unseen_characters_apart():
    data.look_in(DATA)
    characters = data.load("omniglot", "test", size=28, named="maml")
    data.look_in(None)
    ink = [1 - characters.of(name) / 255 for name in characters.names[::80][:5]]
    support = batch(np.concatenate([images[:1] for images in ink]), np.arange(5))
    asked = np.concatenate([images[1:11] for images in ink])
    made = adapt(load("omniglot-mtnet-5way"), support, norm="transductive").answer(asked).mean
    assert (made.argmax(axis=1) == np.repeat(np.arange(5), 10)).mean() > 0.9


def test_models_that_come_with_the_package():
    assert "omniglot-mtnet-5way" in pretrained()
    for name in pretrained():
        model = load_pretrained(name)
        assert model.step > 0
        assert np.isfinite(np.asarray(model.meta()["weights"]["dense"]["kernel"])).all()
        assert load(name).step == model.step
    with pytest.raises(FewstepError, match="Did you mean the package's model 'omniglot-mtnet-5way'"):
        load("omniglot-mtnet")
    with pytest.raises(FewstepError, match="Unknown model"):
        load_pretrained("nothing")
