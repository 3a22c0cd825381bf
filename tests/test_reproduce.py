"""The reproductions, as real commands at a tiny size; a grid that is stopped and resumed; the report in a browser."""

import csv
import dataclasses
import html
import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fewstep import Experiment
from fewstep.cli import main
from fewstep.files import locked
from fewstep.runs.train import silent
from fewstep_studies.reproduce import STUDIES, Cell, Results, TrainingOptions, main_table, sinusoid, write_figure
from fewstep_studies.reproduce._folder import command
from fewstep_studies.reproduce._measurement import Measurement, Score, Training, error_row
from fewstep_studies.reproduce._rows import compare
from fewstep_studies.reproduce._speed import measure
from fewstep_studies.reproduce._training import curve_experiment, run

TINY = ["--quick", "--steps", "12", "--n-tasks", "4"]
# Two are quick runs, the third is not, and has two seeds.
SIZES = {"sinusoid": TINY, "step-size": ["--seeds", "2", "--steps", "12", "--n-tasks", "4"], "polynomial": TINY}
GRIDS = {
    "sinusoid": (
        ["maml"], 3,
        {"table-1", "adapted-curves", "error-by-inner-steps", "training-curves"},
    ),
    "step-size": (
        ["maml-1"], 1,
        {"error-by-alpha", "error-by-inner-steps", "training-curves", "adapted-curves"},
    ),
    "polynomial": (
        ["order-2"], 4,
        {"updated-fraction", "updated-by-layer", "adapted-curves", "error-by-inner-steps", "training-curves"},
    ),
}  # fmt: skip
CHROMIUM = shutil.which("chromium")


def on_one_worker(name):
    """All tests of one study go to one worker, which runs the study once."""
    return pytest.mark.xdist_group(f"reproduce-{name}")


EACH = [
    pytest.param(name, marks=[on_one_worker(name), *([] if name == "sinusoid" else [pytest.mark.slow])])
    for name in GRIDS
]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Each study's folder and what its command printed, made when first asked for."""
    found = {}

    def get(name, capsys):
        if name not in found:
            out = tmp_path_factory.mktemp("reproduce") / name
            assert main(["reproduce", name, *SIZES[name], "--only", *GRIDS[name][0], "--out", str(out), "--json"]) == 0
            found[name] = out, json.loads(capsys.readouterr().out)
        return found[name]

    return get


@pytest.mark.parametrize("name", EACH)
def test_the_result_has_the_shape_that_scripts_rely_on(name, made, capsys):
    out, result = made(name, capsys)
    assert result["name"] == name
    assert result["quick"] is ("--quick" in SIZES[name])
    assert "not the paper's size" in result["protocol"]
    assert {row["verdict"] for row in result["rows"]} == {"quick" if result["quick"] else "not judged"}
    assert len(result["rows"]) == GRIDS[name][1]
    fixed = {
        "method",
        "setting",
        "metric",
        "mean",
        "interval95",
        "seed_std",
        "seeds",
        "published",
        "verdict",
        "seconds",
    }
    assert all(fixed <= row.keys() for row in result["rows"])
    assert all(row["mean"] is not None and row["seconds"] > 0 for row in result["rows"])
    assert Path(result["report"]) == out / "report.html"
    stored = json.loads((out / "result.json").read_text())
    assert stored["rows"] == result["rows"]
    size = " ".join([f"fewstep reproduce {name}", *SIZES[name], "--only", *GRIDS[name][0]])
    assert stored["command"] == size
    assert {"jax", "numpy", "fewstep", "python"} <= stored["versions"].keys()


@pytest.mark.parametrize("name", EACH)
def test_every_plot_is_there_as_picture_and_as_data(name, made, capsys):
    out, _ = made(name, capsys)
    page = (out / "report.html").read_text()
    assert {path.stem for path in (out / "figures").glob("*.png")} == GRIDS[name][2]
    for figure in GRIDS[name][2]:
        assert f'<figure id="{figure}">' in page
        with (out / "figures" / f"{figure}.csv").open(newline="") as file:
            head, *rows = list(csv.reader(file))
        assert rows, figure
        assert all(len(row) == len(head) and row[-1].endswith("not the paper's size") for row in rows)
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "ot the paper's size: 12 steps" in html.unescape(page)


@on_one_worker("sinusoid")
@pytest.mark.slow
def test_sinusoid_tells_the_cost(made, capsys):
    _, result = made("sinusoid", capsys)
    (maml,) = result["cost"]
    assert maml["method"] == "MAML"
    assert maml["steps_to_maml_final_error"] <= 12
    assert maml["steps_per_second_all_seeds"] > 0


def test_speed_is_measured_side_by_side(tmp_path):
    experiment = Experiment("maml", "sinusoid", hidden=(4,))
    found = measure({"MAML": experiment}, "MAML", silent().say, seconds=0.01, repeats=2)
    assert found["MAML"].times_reference == 1
    assert found["MAML"].lowest <= found["MAML"].steps_per_second <= found["MAML"].highest
    results = Results(TrainingOptions(), [], speed={"alone": found})
    (figure,) = [made for made in sinusoid.figures(results) if made.name == "cost"]
    write_figure(tmp_path, figure, "")
    assert (tmp_path / "cost.png").exists()


@on_one_worker("sinusoid")
def test_a_finished_grid_is_refused_and_then_found_again(made, capsys):
    out, first = made("sinusoid", capsys)
    again = ["reproduce", "sinusoid", *SIZES["sinusoid"], "--only", *GRIDS["sinusoid"][0], "--out", str(out)]
    assert main(again) == 2
    assert "--resume" in capsys.readouterr().err
    before = _times(out)
    assert main([*again, "--resume"]) == 0
    shown = capsys.readouterr()
    assert "MAML" in shown.out
    assert "not the paper's size" in shown.err
    assert _times(out) == before
    assert json.loads((out / "result.json").read_text())["rows"] == first["rows"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["sinusiod"], "Did you mean 'sinusoid'?"),
        (["sinusoid", "--only", "mtnt"], "Did you mean 'mtnet'?"),
        (["sinusoid", "--seeds", "0"], "--seeds is 0"),
        (["sinusoid", "--steps", "0"], "--steps is 0"),
        (["sinusoid", "--n-tasks", "1"], "--n-tasks is 1"),
    ],
)
def test_mistakes_are_said_before_a_folder_is_made(given, said, tmp_path, capsys):
    assert main(["reproduce", *given, "--out", str(tmp_path / "x")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@on_one_worker("step-size")
def test_another_study_in_the_folder_is_kept(made, capsys, tmp_path):
    out, _ = made("step-size", capsys)
    assert main(["reproduce", "polynomial", *TINY, "--out", str(out), "--resume"]) == 2
    assert "study is step-size there and polynomial here" in capsys.readouterr().err
    (tmp_path / "mine").write_text("something else")
    assert main(["reproduce", "polynomial", *TINY, "--out", str(tmp_path), "--overwrite"]) == 2
    assert (tmp_path / "mine").exists()
    assert main(["reproduce", "polynomial", *TINY, "--out", str(out), "--resume", "--overwrite"]) == 2
    assert "Keep one of them" in capsys.readouterr().err
    with locked(out, "held"):
        assert main(["reproduce", "step-size", *TINY, "--only", "maml-1", "--out", str(out), "--resume"]) == 2
    assert "Another process works in" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stopped_grid_goes_on_and_trains_no_finished_cell_again(tmp_path):
    out = tmp_path / "grid"
    start = [sys.executable, "-m", "fewstep", "reproduce", "step-size", "--quick", "--steps", "2000", "--n-tasks", "4"]
    start += ["--only", "maml-1", "maml-0.01", "--out", str(out)]
    process = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    second = out / "cells" / "maml-0.01" / "metrics.csv"
    deadline = time.monotonic() + 600
    while not (second.exists() and len(second.read_text().splitlines()) > 2) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=600)[1]
    assert process.returncode == 130, said
    assert "--resume" in said
    finished = {name: at for name, at in _times(out).items() if "maml-1/" in name}
    assert any("judged.json" in name for name in finished)
    assert not (out / "cells" / "maml-0.01" / "trained.json").exists()
    ended = subprocess.run([*start, "--resume", "--json"], capture_output=True, text=True, check=True)
    assert "Going on from step" in ended.stderr
    assert len(json.loads(ended.stdout)["rows"]) == 2
    assert {name: at for name, at in _times(out).items() if "maml-1/" in name} == finished


@pytest.mark.slow
def test_a_cell_that_diverges_is_a_result(tmp_path):
    options = TrainingOptions(seeds=2, steps=5, n_tasks=4)
    experiment = curve_experiment(options, "maml", "sinusoid", inner_lr=1e30, hidden=(4,))
    cell = Cell("wild", "MAML", {"alpha": 10.0}, Training(experiment, (0, 1)))
    found = run(cell, tmp_path / "wild", options, silent())
    assert found.diverged_at == 1
    row = error_row(cell, found, 10, (171.92, 25.04))
    assert row.mean is None
    assert row.verdict == "diverged"
    assert row.diverged_seeds == 2
    for study in (STUDIES["sinusoid"], STUDIES["step-size"]):
        for figure in study.figures(Results(options, [(cell, found)])):
            assert not figure.panels or write_figure(tmp_path / "figures", figure, "")


def test_a_seed_that_diverged_alone_is_left_out_and_told():
    score = Score(0.5, 0.1, median=0.4, seed_std=0.2, n_tasks=4, shots=10, inner_steps=1)
    cell = Cell("mine", "MAML", {}, Training(curve_experiment(TrainingOptions(seeds=3), "maml", "sinusoid"), (1,)))

    def shown_of(score):
        found = Measurement(1.0, scores=[score], diverged_seeds=1)
        return main_table("", [error_row(cell, found, 10, (0.71, 0.07))]).body[0]

    assert shown_of(score)[2] == "0.500 ± 0.100 (1 of 3 seeds diverged)"
    shown = shown_of(score._replace(mean=None, interval95=None, diverged_tasks=2))
    assert shown[2].startswith("not finite on 2 of 4 tasks, median 0.400")
    assert shown[-1] == "misses"


def test_verdicts():
    assert compare(0.5, 0.05, (0.49, 0.05)) == "meets"
    assert compare(0.7, 0.05, (0.49, 0.05)) == "misses"
    assert compare(0.2, 0.05, None) == ""


@pytest.mark.parametrize("study", [STUDIES[name] for name in GRIDS], ids=GRIDS)
def test_the_full_grid_is_the_papers(study):
    cells = study.cells(study.full)
    assert (
        len({cell.name for cell in cells})
        == len(cells)
        == {"sinusoid": 10, "step-size": 24, "polynomial": 3}[study.name]
    )
    assert command(study, study.full) == f"fewstep reproduce {study.name}"
    for cell in cells:
        found = cell.plan.experiment
        assert (found.steps, found.seeds, found.shots, found.queries) == (60_000, 5, 10, 10)
        assert found.meta_batch == 4 or cell.ours


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [400, pytest.param(1400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", EACH)
def test_the_report_in_a_browser(name, width, made, capsys, browser):
    import browsing

    out, _ = made(name, capsys)
    page, noise = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("requestfailed", lambda request: noise.append(request.url))
    page.goto((out / "report.html").as_uri())
    assert noise == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in GRIDS[name][2]:
        boxes = [drawing.bounding_box() for drawing in page.locator(f"#{figure} svg").all()]
        assert boxes
        assert all(box["width"] >= 280 and box["height"] >= 180 for box in boxes), figure
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes), figure
    sizes = page.evaluate(
        "[...document.querySelectorAll('p, td, figcaption')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    )
    assert min(sizes) >= 12
    assert browsing.faults(page) == []
    page.close()


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


def _times(folder):
    return {str(path): path.stat().st_mtime_ns for path in folder.glob("cells/*/*") if path.is_file()}


def test_the_docs_show_what_is_committed():
    home = Path(__file__).parents[1]
    spec = importlib.util.spec_from_file_location("publish", home / "benchmarks" / "publish.py")
    publish = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(publish)
    for path in publish.PAGES:
        page = path.read_text()
        assert publish.with_tables(page) == page
    shown, full = publish.PAGES[1].read_text(), {**dataclasses.asdict(TrainingOptions()), "only": []}
    assert all(f"<!-- {name} -->" in shown for name in (*GRIDS, "omniglot"))
    result = json.loads((home / "benchmarks" / "results" / "omniglot" / "result.json").read_text())
    assert all(
        row["command"].startswith("fewstep reproduce omniglot") and row["n_tasks"] == 600 for row in result["rows"]
    )
    for name in GRIDS:
        result = json.loads((home / "benchmarks" / "results" / name / "result.json").read_text())
        assert result["scale"] == {key: value for key, value in full.items() if key in result["scale"]}
        assert result["command"] == f"fewstep reproduce {name}"
        assert re.fullmatch(r"[0-9a-f]{40}", result["commit"])
        assert [row["method"] for row in result["rows"]]
