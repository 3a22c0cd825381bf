"""Models out again: used without fewstep, in a process that cannot import it; parameters; the card."""

import json
import struct

import numpy as np
import pytest
from helpers import output, used

import fewstep
from fewstep.export.export import safetensors
from fewstep.models import adapt
from fewstep.runs import create_run, load, train_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = create_run(
        tmp_path_factory.mktemp("export") / "run",
        fewstep.Experiment("mtnet", "sinusoid", steps=2, hidden=(6,), shots=3, seeds=2, validation_tasks=2),
    )
    train_run(made)
    return made.path


@pytest.mark.xdist_group("export")
class TestExport:
    def test_the_functions_answer_as_adapt_does(self, run, tmp_path, capsys):
        code, told, _ = output(capsys, "export", run, "--out", tmp_path / "e", "--no-score", "--support", 8, "--json")
        assert code == 0
        assert "load.py" in json.loads(told)["files"]
        x, y = [[0.0], [1.0], [2.0]], [[0.5], [1.0], [0.3]]
        asked = np.linspace(-5, 5, 130)[:, None].tolist()  # more than one chunk
        made, count = used(tmp_path / "e", [x, y], asked)
        expected = adapt(load(run), fewstep.batch(x, y)).answer(np.asarray(asked, np.float32)).mean
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-6)
        assert count == 130

    @pytest.mark.parametrize("form", ["npz", "safetensors"])
    def test_parameters(self, run, form, tmp_path, capsys):
        assert output(capsys, "export", run, "--out", tmp_path / "e", "--no-score", "--format", form)[0] == 0
        path = tmp_path / "e" / f"parameters.{form}"
        wanted = np.asarray(load(run).metas[1]["weights"]["dense_0"]["kernel"])
        if form == "npz":
            with np.load(path, allow_pickle=False) as file:
                found = file["seed_1/weights/dense_0/kernel"]
        else:
            found = _read(path.read_bytes())["seed_1/weights/dense_0/kernel"]
        np.testing.assert_array_equal(found, wanted)

    @pytest.mark.slow
    def test_the_card_says_what_it_is(self, run, tmp_path, capsys):
        assert output(capsys, "export", run, "--out", tmp_path / "e", "--format", "npz")[0] == 0
        text = (tmp_path / "e" / "README.md").read_text()
        assert "mtnet, 2 outer steps, 1 inner steps, 2 seeds" in text
        assert "| 3 | 1 | mse |" in text

    def test_mistakes(self, run, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        code, _, told = output(capsys, "export", run, "--out", tmp_path / "file", "--no-score")
        assert (code, "is a file" in told) == (2, True)
        code, _, told = output(capsys, "export", run, "--support", 0)
        assert (code, "at least 1" in told) == (2, True)


def _read(content):
    """A reader of the format of its own, to hold the writer to it."""
    (size,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + size]), content[8 + size :]
    assert size % 8 == 0
    return {
        name: np.frombuffer(body[slice(*told["data_offsets"])], "<f4").reshape(told["shape"])
        for name, told in header.items() if told["dtype"] == "F32"
    }  # fmt: skip


def test_safetensors_hold_every_array_after_the_other():
    made = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones((), np.float32)}
    found = _read(safetensors(made))
    assert found["a"].tolist() == made["a"].tolist()
    assert found["b"] == 1
