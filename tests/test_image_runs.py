"""Runs on images as a user types them: a folder, other ways, learners, adapting to pictures."""

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
from fewstep.runs import load, open_run
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
    code, out, err = output(capsys, *command(photos), *SIZES, "--run", run, "--no-report", "--json")
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
        code, _, err = output(capsys, *command(photos), *wrong, "--run", tmp_path / "x")
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
    done = subprocess.run(command, env=PLAIN, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "run").step == 5000


@needs_omniglot
def test_the_model_of_the_package_tells_unseen_characters_apart():
    data.look_in(DATA)
    characters = data.load("omniglot", "test", size=28, partition="maml")
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
