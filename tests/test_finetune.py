"""Fine-tuning a classifier with a new last layer: of any network whose last linear layer is its head."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DATA, needs_omniglot, output

import fewstep
from fewstep import learners, losses, networks, rules

KEY, IMAGE = jax.random.key(0), (8, 8, 1)

OWN = """
import jax
import jax.numpy as jnp
import fewstep

def make(x, outputs):
    size = x[0].size

    def init(key):
        first, last = jax.random.split(key)
        return [jax.random.normal(first, (size, 6)) / size**0.5, {"w": jnp.zeros((6, outputs)), "b": jnp.ones(outputs)}]

    def apply(params, x):
        hidden = jax.nn.relu(x.reshape(x.shape[0], -1) @ params[0])
        return hidden @ params[1]["w"] + params[1]["b"][None]

    return fewstep.network(init, apply, x)
"""


def own(outputs, x=jnp.ones((2, *IMAGE))):  # noqa: B008
    scope = {}
    exec(OWN, scope)
    return scope["make"](x, outputs)


NETWORKS = {
    "conv4": lambda outputs: networks.conv4(IMAGE, outputs, filters=3, blocks=2),
    "own": own,
    "mlp": lambda outputs: flat(networks.mlp(64, outputs, hidden=(6,), std=None)),
}


def flat(network):
    apply = lambda params, state, x, weight: network.apply(params, state, x.reshape(x.shape[0], -1), weight)
    return network._replace(apply=apply)


def some_support(ways=3, shots=2):
    """Images that are bright in the rows of their class."""
    labels = jnp.arange(ways).repeat(shots)
    bright = (jnp.arange(8)[None] // 3 == labels[:, None]).astype(float)
    x = 0.2 * jax.random.uniform(KEY, (ways * shots, *IMAGE)) + bright[:, :, None, None]
    return fewstep.Batch(x, labels, jnp.ones(ways * shots))


@pytest.mark.parametrize("classes", [7, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_head_of_any_network_is_replaced(name, classes):
    make = NETWORKS[name]
    each = learners.finetune(make(classes), make(3), rules.maml(0.1))
    meta, support = each.init(KEY), some_support()
    both = jax.jit(lambda: each.adapt(meta, KEY, support, (0, 20)))()
    before, after = (jax.tree.map(lambda leaf, n=n: leaf[n], both) for n in (0, 1))
    np.testing.assert_array_equal(each.predict(meta, before, support.x), 0)  # no class is favored at the start
    assert losses.cross_entropy(each.predict(meta, after, support.x), support) < 0.9 * np.log(3)


def test_a_network_whose_last_layer_is_not_all_of_its_head_is_refused():
    def scaled(outputs):
        init = lambda key: {"w": jnp.ones((64, outputs)), "scale": jnp.ones(outputs)}
        apply = lambda params, x: x.reshape(x.shape[0], -1) @ params["w"] * params["scale"][None]
        return fewstep.network(init, apply, jnp.ones((2, *IMAGE)))

    with pytest.raises(fewstep.FewstepError, match=r"last linear layer, 'w', but scale too depends on the number"):
        learners.finetune(scaled(7), scaled(3), rules.maml(0.1))
    bare = learners.nothing_but_x(64)
    with pytest.raises(fewstep.FewstepError, match="this network has no linear layer"):
        learners.finetune(bare, bare, rules.maml(0.1))


@pytest.mark.slow
@needs_omniglot
def test_a_network_of_ones_own_is_finetuned_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEWSTEP_DATA", str(DATA))
    (tmp_path / "mine.py").write_text(OWN)
    args = ("train", "finetune", "omniglot", "--steps", 2, "--network", f"{tmp_path / 'mine.py'}:make", "--ways", 3)
    code, _, told = output(capsys, *args, "--run", tmp_path / "run", "--no-report", "--validation-tasks", 2)
    assert code == 0, told
    code, shown, told = output(capsys, "eval", tmp_path / "run", "--n-tasks", 2, "--json")
    assert code == 0, told
    assert '"accuracy"' in shown
