"""The networks of the examples through every step of a training, and what is said of those that do not fit."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import output

import fewstep
from fewstep import FewstepError, losses, rules
from fewstep.compute import light
from fewstep.problems._own import find_loss, own_network

NETWORKS = Path(__file__).resolve().parents[1] / "examples" / "networks"
# Of each, rows it takes and the rule its page names.
EXAMPLES = {
    "perceptron": ((6, 2), rules.mtnet(0.01)), "cnn": ((4, 16, 16, 1), rules.mtnet(0.01)),
    "residual": ((6, 3), rules.mtnet(0.01)), "lstm": ((6, 8), rules.anil(0.01)),
    "transformer": ((6, 5), rules.mtnet(0.01)),
}  # fmt: skip


QUICK = ("residual", "lstm")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES]
)
def test_an_example_learns_a_task(name):
    shape, rule = EXAMPLES[name]
    x = jax.random.normal(jax.random.key(0), shape)
    network = own_network(f"{NETWORKS / name}.py:make", x, 2)
    batch = fewstep.batch(x, np.arange(shape[0]) % 2)
    learner = fewstep.gradient_learner(network, rule, losses.cross_entropy, steps=1)
    meta = learner.init(jax.random.key(1))
    loss = lambda meta: learner.loss(meta, jax.random.key(2), fewstep.Episode(batch, batch))
    both = jax.jit(jax.value_and_grad(loss), compiler_options=light())
    before, slopes = both(meta)
    after, _ = both(jax.tree.map(lambda leaf, slope: leaf - 1e-3 * slope, meta, slopes))
    assert after < before  # a step of the outer loop helps
    adapted = jax.eval_shape(lambda: learner.adapt(meta, jax.random.key(2), batch, 1))
    if name == "lstm":
        assert all(path.startswith("head") for path in adapted.fast)
    else:
        assert any(layer.skip == "" and layer.width > 2 for layer in network.layers)


@pytest.mark.slow
def test_a_file_with_a_class_trains_and_is_loaded_again(tmp_path, capsys):
    mine = tmp_path / "mine.py"
    mine.write_text((NETWORKS / "lstm.py").read_text())
    train = ("train", "anil", "sinusoid", "--steps", 2, "--network", f"{mine}:make", "--run", tmp_path / "run")
    assert output(capsys, *train, "--no-report")[0] == 0
    (tmp_path / "known.csv").write_text("0,0\n1,1\n")
    (tmp_path / "asked.csv").write_text("2\n")
    words = ("adapt", tmp_path / "run", "--support", tmp_path / "known.csv", "--query", tmp_path / "asked.csv")
    assert output(capsys, *words)[0] == 0
    mine.unlink()
    assert output(capsys, *words)[0] == 0  # the run has a copy
    copy = tmp_path / "run" / "code" / "mine.py"
    copy.write_text(copy.read_text().replace("width=24", "width=25"))
    code, _, said = output(capsys, *words)
    assert code == 2
    assert "holds other arrays than the run's network has now" in said
    assert "Has the file of --network changed?" in said


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def make(x, outputs): return 3", "returns a int. Let it return fewstep.network"),
        ("def make(x, outputs): raise KeyError('depth')", "fails with KeyError: 'depth'"),
        ("def other(x, outputs): pass", r"has no make. Write one: def make\(x, outputs\)"),
        ("import nothing_of_this_name", "cannot be run: ModuleNotFoundError"),
        (
            "import fewstep.networks as n\ndef make(x, outputs): return n.mlp(x.shape[1], 5)",
            r"gives shape \(4, 5\) for x of shape \(4, 2\). These tasks need \(4, 1\)",
        ),
    ],
)
def test_what_does_not_fit_is_said(source, said, tmp_path):
    (tmp_path / "mine.py").write_text(source)
    with pytest.raises(FewstepError, match=said):
        own_network(f"{tmp_path / 'mine.py'}:make", jnp.zeros((4, 2)), 1)


def test_a_loss_by_name_and_of_ones_own(tmp_path):
    own = "def double(prediction, batch): return 2 * (batch.weight[:, None] * (prediction - batch.y)).mean()"
    (tmp_path / "mine.py").write_text(own)
    batch = fewstep.batch([[0.0]], [[1.0]])
    assert find_loss(f"{tmp_path / 'mine.py'}:double", 1, classes=False)(jnp.zeros((1, 1)), batch) == -2
    assert find_loss("huber", 1, classes=False) is losses.huber
    with pytest.raises(FewstepError, match="Did you mean 'huber'"):
        find_loss("hubr", 1, classes=False)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("return (prediction - batch.y) ** 2", r"must be one number: the weighted mean"),
        ("return batch.missing", "fails with AttributeError"),
    ],
)
def test_a_loss_that_does_not_fit_is_said(source, said, tmp_path, capsys):
    (tmp_path / "mine.py").write_text(f"def mine(prediction, batch): {source}")
    args = ("train", "maml", "sinusoid", "--steps", 2, "--loss", f"{tmp_path / 'mine.py'}:mine")
    code, _, told = output(capsys, *args, "--run", tmp_path / "x")
    assert code == 2
    assert re.search(said, told.replace("\n", " "))


def test_a_network_of_ones_own_from_the_command_line(tmp_path, capsys):
    args = ("train", "tnet", "sinusoid", "--steps", 2, "--network", f"{NETWORKS / 'perceptron.py'}:make", "--shots", 3)
    code, _, told = output(capsys, *args, "--run", tmp_path / "run", "--no-report", "--validation-tasks", 2)
    assert code == 0, told
    assert "layer  arrays (output axes)  width  T and mask" in told
    code, printed, _ = output(capsys, "inspect", tmp_path / "run")
    assert code == 0
    assert "body" in printed
    assert "head" in printed
    code, _, told = output(capsys, *args, "--hidden", 4, "--run", tmp_path / "no")
    assert code == 2
    network = f"--network {NETWORKS / 'perceptron.py'}:make"
    assert f"--hidden does not apply to fewstep train tnet sinusoid {network}. Leave it out." in told
