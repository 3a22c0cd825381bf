"""Layer-wise networks from the command line, and the poster's table."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers import output
from sklearn.datasets import load_wine
from sklearn.model_selection import KFold

from fewstep import data
from fewstep.cli import main
from fewstep.layerwise.tables import to_labels
from fewstep.tables import Frame
from fewstep_studies.reproduce import STUDIES, Result, read_record, tables_of
from fewstep_studies.reproduce.layerwise import _grid, _methods, _sets, _sgd
from fewstep_studies.reproduce.layerwise._rows import ALL, FoldScore, summary

pytestmark = pytest.mark.xdist_group("layerwise tables")  # one worker makes what they share
POSTER = Path(__file__).parents[2] / "shared" / "data" / "layerwise"


@pytest.fixture(scope="module")
def wine(tmp_path_factory: Any) -> Path:
    """A table of three classes by name, few rows."""
    path = tmp_path_factory.mktemp("tables") / "wine.csv"
    x, y = load_wine(return_X_y=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["alcohol", "acid", "ash", "color, deep", "cultivar"])
        writer.writerows([[*row[[0, 1, 6]], row[9], "abc"[label]] for row, label in zip(x[::2], y[::2], strict=True)])
    return path


@pytest.fixture(scope="module")
def model(wine: Path) -> Path:
    folder = wine.parent / "model"
    args = ["layerwise", "fit", str(wine), "--target", "cultivar", "--folds", "2", "--max-layers", "2"]
    assert main([*args, "--out", str(folder)]) == 0
    return folder


class TestCommandLine:
    def test_fit_tells_layers_and_held_out_accuracy(self, model: Path) -> None:
        told = json.loads((model / "fit.json").read_text())
        assert told["columns"] == ["alcohol", "acid", "ash", "color, deep"]
        assert len(told["layers"]) == 2
        assert len(told["cross_validation"]["folds"]) == 2
        assert told["cross_validation"]["mean"] > 0.8

    def test_predict_finds_columns_by_name(self, model: Path, wine: Path, tmp_path: Path, capsys: Any) -> None:
        with wine.open(newline="") as file:
            rows = list(csv.DictReader(file))
        mixed = tmp_path / "mixed.csv"
        with mixed.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["ash", "more", "color, deep", "acid", "alcohol"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows([{**row, "more": "text"} for row in rows])
        code, out, _ = output(capsys, "layerwise", "predict", str(model), str(mixed))
        assert code == 0
        answers = list(csv.DictReader(out.splitlines()))
        assert np.mean([a["prediction"] == b["cultivar"] for a, b in zip(answers, rows, strict=True)]) > 0.85
        code, out, _ = output(capsys, "layerwise", "predict", str(model), str(wine), "--json")
        assert [row["prediction"] for row in answers] == json.loads(out)["prediction"]

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["fit", "WINE"], "Say which column holds the labels"),
            (["fit", "WINE", "--target", "cultivars"], "Did you mean 'cultivar'?"),
            (["fit", "WINE", "--target", "alcohol"], "holds 'a' in the column 'cultivar', which is not a number"),
            (["fit", "WINE", "--target", "alcohol", "--drop", "cultivar"], "different labels in"),
            (["predict", "MODEL", "WINE", "--out", "WINE"], "the table itself, which would be lost"),
            (["fit", "WINE", "--target", "cultivar", "--folds", "60"], "the smallest class has 24 rows. Give 2 to 24"),
            (["fit", "WINE", "--target", "cultivar", "--out", "MODEL"], "Replace it with --overwrite"),
            (["fit", "missing.csv", "--target", "x"], "Cannot read missing.csv"),
            (["fit", "WINE", "OTHER", "--target", "cultivar"], "fit takes one table"),
            (["fit", "WINE", "--target", "cultivar", "--drop", "acids"], "Did you mean 'acid'?"),
            (["fit", "HOLES", "--target", "b"], "Line 4 of"),
            (["fit", "ALONE", "--target", "b"], "The class y has one row"),
            (
                ["fit", "WINE", "--target", "cultivar", "--seed", "-1"],
                "--seed is -1. scikit-learn takes 0 to",
            ),
            (["predict", "MODEL", "WINE", "--target", "cultivar"], "--target does not apply"),
            (["predict", "MODEL", "WINE", "--drop", "acid"], "--drop does not apply to predict"),
            (["predict", "MODEL", "WINE", "--method", "embedding"], "--method does not apply to predict"),
            (["predict", "MODEL", "WINE", "--folds", "2"], "--folds does not apply to predict"),
            (["predict", "MODEL", "WINE", "--max-layers", "2"], "--max-layers does not apply to predict"),
            (["predict", "MODEL", "WINE", "--seed", "1"], "--seed does not apply to predict"),
            (["predict", "MODEL", "WINE", "--overwrite"], "--overwrite does not apply to predict"),
            (["predict", "MODEL"], "Give the model and the table"),
            (["predict", "nowhere", "WINE"], "There is no file nowhere"),
            (["predict", "MODEL", "OTHER"], "has no column 'alcohol', which the model was fitted with"),
        ],
    )
    def test_mistakes(
        self, args: list[str], message: str, wine: Path, model: Path, tmp_path: Path, capsys: Any
    ) -> None:
        (tmp_path / "other.csv").write_text("a,b\n1,2\n")
        (tmp_path / "holes.csv").write_text("a,b\n1,x\n\n,y\n")
        (tmp_path / "alone.csv").write_text("a,b\n1,x\n2,x\n3,y\n")
        places = {
            "HOLES": str(tmp_path / "holes.csv"),
            "ALONE": str(tmp_path / "alone.csv"),
            "WINE": str(wine),
            "MODEL": str(model),
            "OTHER": str(tmp_path / "other.csv"),
        }
        code, out, error = output(capsys, "layerwise", *(places.get(word, word) for word in args))
        assert (code, out) == (2, "")
        assert message in error
        assert "Traceback" not in error

    def test_fit_shows_the_calibration_too(self, wine: Path, tmp_path: Path, capsys: Any) -> None:
        args = ("--target", "cultivar", "--folds", "0", "--max-layers", "1", "--out", str(tmp_path / "model"))
        code, _, error = output(capsys, "layerwise", "fit", str(wine), *args)
        assert code == 0
        assert "calibration, layer 1: HSIC" in error

    @pytest.mark.parametrize(
        ("cells", "labels"),
        [
            (["1", "-2"], [1, -2]),
            (["01", "1"], ["01", "1"]),
            (["1", "x"], ["1", "x"]),
            (["1", "9" * 20], ["1", "9" * 20]),
        ],
    )
    def test_labels_stay_apart(self, cells: list[str], labels: list[Any]) -> None:
        found = to_labels(Frame("t.csv", {"y": np.asarray(cells, object)}), "y")
        assert found.tolist() == labels
        assert found.dtype != object


class TestTable:
    def test_published_values_are_whole(self) -> None:
        assert len([key for key in ALL if key[0] == "poster"]) == 8 * 4
        assert len([key for key in ALL if key[0] == "later"]) == 8
        assert ALL["poster", "wine", "ism"].values["test"] == (0.97, 0.05)

    def test_the_networks_learn_and_end(self) -> None:
        rng = np.random.default_rng(0)
        codes = np.arange(40) % 2
        x = rng.standard_normal((40, 3)) + 4 * codes[:, None]
        for loss in ("ce", "mse"):
            trained = _sgd.train(x, codes, 1, loss, 0, epochs=60)  # type: ignore[arg-type]
            assert np.mean(_sgd.predict(trained, x) == codes) == 1.0
            assert trained.losses[-1] < trained.losses[0]
            assert "epoch" in trained.why

    def test_epochs_after_the_end_take_no_time(self, monkeypatch: Any) -> None:
        """Ten run at a time; if the first is enough, the seconds are those of one."""
        monkeypatch.setattr(_sgd, "_ENOUGH", 1e9)
        monkeypatch.setattr(_sgd.time, "perf_counter", iter((100.0, 120.0)).__next__)
        trained = _sgd.train(np.zeros((20, 2)), np.arange(20) % 2, 1, "ce", 0)
        assert trained.why.endswith("after epoch 1")
        assert (len(trained.losses), trained.seconds) == (1, 2.0)

    def test_a_verdict_holds_rows_to_the_poster(self) -> None:
        entry = _sets.Entry(lambda: pytest.fail("not read"), "UCI wine", "wine", True)
        authors = {"H*": 0.98, "MSE": 0.01, "CE": 0.07, "C": 0.04, "T": 0.02}
        near = FoldScore(0.99, 0.96, 1.0, layers=6, sigma=0.4, authors=authors)
        verdict = lambda **change: summary("wine", "ism", entry, [near._replace(**change)] * 10, 10).verdict
        assert verdict() == "meets"
        assert verdict(test=0.8) == "misses test"
        assert verdict(layers=12) == "misses L"
        assert summary("wine", "ism", entry, [near] * 3, 10).verdict == "not judged"

    def test_quick_runs_stops_and_goes_on(self, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
        monkeypatch.setattr(data, "folders", list)
        out = tmp_path / "table"
        args = ("reproduce", "layerwise", "--folds", "2", "--only", "random-svm", "random-forest", "--out", str(out))
        calls = []

        def known(fold: Any) -> FoldScore:
            calls.append(fold)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return _methods.METHODS["svm"](fold)

        short = {"svm": _methods.METHODS["svm"], "forest": known}
        monkeypatch.setattr(_grid, "METHODS", short)
        code, _, error = output(capsys, *args)
        assert code == 130
        assert "--resume" in error
        assert len(json.loads((out / "cells" / "random-forest" / "folds.json").read_text())) == 1
        code, _, error = output(capsys, *args)
        assert code == 2
        assert "Continue with --resume" in error
        code, shown, _ = output(capsys, *args, "--resume", "--json")
        assert code == 0
        result = json.loads(shown)
        assert [row["folds"] for row in result["rows"]] == [2, 2]
        assert len(calls) == 3
        assert (out / "report.html").exists()
        assert all(
            {"mean", "metric", "seed_std", "published", "verdict", "seconds"} <= row.keys() for row in result["rows"]
        )
        (scores,) = (
            t for t in tables_of(STUDIES["layerwise"], read_record(Result, result)) if t.mark == "layerwise scores"
        )
        assert scores.body[0][:2] == ["random", "RBF SVM"]
        code, _, error = output(capsys, "reproduce", "layerwise", "--only", "wines", "--out", str(tmp_path / "b"))
        assert code == 2
        assert "Did you mean 'wine'?" in error
        code, _, error = output(capsys, "reproduce", "layerwise", "--seed", "-1", "--out", str(tmp_path / "c"))
        assert code == 2
        assert "--seed is -1. It must be at least 0." in error
        code, _, error = output(capsys, "reproduce", "layerwise", "--seed", "9999999", "--out", str(tmp_path / "c"))
        assert code == 2
        assert "--seed is 9999999. Give 0 to 2147483" in error
        code, _, error = output(capsys, "reproduce", "layerwise", "--seeds", "3")
        assert "--seeds does not apply" in error

    @pytest.mark.skipif(not POSTER.exists(), reason="the poster's sets are not beside the project")
    def test_the_posters_sets(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(data, "folders", lambda: [POSTER.parent])
        shapes = {name: entry.read().x.shape for name, entry in _sets.entries().items()}
        assert shapes == {
            "random": (60, 3), "adversarial": (80, 2), "spiral": (1200, 2), "wine": (178, 13), "cancer": (615, 9),
            "car-leaked": (1728, 6), "car": (1728, 6), "face": (624, 960), "divorce": (170, 54),
        }  # fmt: skip
        leaked = _sets.entries()["car-leaked"].read()
        assert len(np.unique(np.stack([leaked.x[:, 5], leaked.y], 1), axis=0)) == 3

    @pytest.mark.slow
    @pytest.mark.skipif(not POSTER.exists(), reason="the poster's sets are not beside the project")
    def test_both_networks_are_near_the_poster_on_wine(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(data, "folders", lambda: [POSTER.parent])
        table = _sets.entries()["wine"].read()
        codes = np.unique(table.y, return_inverse=True)[1]
        train, test = next(iter(KFold(10, shuffle=True, random_state=0).split(table.x)))
        fold = _methods.Fold("wine", table.x[train], codes[train], table.x[test], codes[test], 0, 4, 10)
        with jax.enable_x64(False):
            for method in ("ism", "ws"):
                score = _methods.METHODS[method](fold)
                assert score.train > 0.96
                assert score.test > 0.85
                assert score.authors["H*"] > 0.78
                assert set(score.ours) == {"H*", "CKA", "MSE", "CE", "C", "T"}


def test_without_scikit_learn_the_command_says_what_to_install(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("fewstep.layerwise")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    shutil.copy(Path(__file__), tmp_path / "table.csv")
    code, _, error = output(capsys, "layerwise", "fit", str(tmp_path / "table.csv"), "--target", "x")
    assert code == 2
    assert "pip install 'fewstep[layerwise]'" in error
