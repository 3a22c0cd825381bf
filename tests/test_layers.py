"""Layers found in the traced program, in models of every framework; T and mask on them do what they should."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import assert_close, learner, shaken
from hypothesis import given, settings
from hypothesis import strategies as st

import fewstep
from fewstep import rules
from fewstep.interop import equinox as from_equinox
from fewstep.interop import linen as from_linen
from fewstep.interop import nnx as from_nnx
from fewstep.rules._metric import times

KEY = jax.random.key(0)


class Awkward(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.Embed(10, 8)(x)
        h = nn.MultiHeadDotProductAttention(2, name="attention")(h)
        h = nn.LayerNorm(name="norm")(h)
        h = nn.Conv(8, (3,), feature_group_count=2, name="grouped")(h)
        return nn.Dense(3, name="head")(h.mean(axis=1))


def table(network):
    return {layer.path: layer for layer in network.layers}


def test_attention_norms_groups_and_embeddings():
    found = table(from_linen.network(Awkward(), jnp.zeros((5, 6), int)))
    query = found["attention/query"]
    assert (query.width, query.leaves[0].axes, query.leaves[1].axes) == (8, (1, 2), (0, 1))
    assert found["attention/out"].leaves[0].axes == (2,)
    assert (found["head"].width, found["head"].skip) == (3, "")
    assert "embedding" in found["Embed_0/embedding"].skip
    assert "groups" in found["grouped/kernel"].skip
    assert "mul" in found["norm/scale"].skip
    paths = [layer.path for layer in from_linen.network(Awkward(), jnp.zeros((5, 6), int)).layers]
    assert paths.index("attention/query") < paths.index("norm/scale") < paths.index("head")


def test_layers_come_in_the_order_of_the_calls_not_of_their_names():
    class Deep(nn.Module):
        @nn.compact
        def __call__(self, x):
            for _ in range(12):
                x = nn.Dense(4)(x)
            return x

    network = from_linen.network(Deep(), jnp.ones((2, 4)))
    assert [layer.path for layer in network.layers] == [f"Dense_{n}" for n in range(12)]
    assert set(rules.anil().start(network.layers, {}, fewstep._network.flatten(network.init(KEY)))) == {
        "Dense_11/kernel", "Dense_11/bias",
    }  # fmt: skip


def test_equinox_keeps_output_units_first():
    found = table(from_equinox.network(lambda key: eqx.nn.MLP(2, 3, 4, 1, key=key), jnp.ones((5, 2))))
    assert [(layer.width, layer.leaves[0].axes) for layer in found.values()] == [(4, (0,)), (3, (0,))]


def test_nnx_with_dropout():
    make = lambda rngs: nnx.Sequential(
        nnx.Linear(1, 4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)
    )
    network = from_nnx.network(make, jnp.ones((5, 1)))
    assert [layer.width for layer in network.layers] == [4, 1]
    each = learner(rules.mtnet(), network)
    meta = each.init(KEY)
    adapted = each.adapt(meta, KEY, fewstep.batch([1.0, 2.0], [1.0, 2.0]), 1)
    assert_close(each.predict(meta, adapted, jnp.ones((2, 1))), each.predict(meta, adapted, jnp.ones((2, 1))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_linen.network(
            nn.Sequential([nn.Dense(3), nn.BatchNorm(use_running_average=False)]), jnp.ones((5, 1))
        ),
        lambda: from_nnx.network(lambda rngs: nnx.BatchNorm(3, rngs=rngs), jnp.ones((5, 3))),
    ],
    ids=["linen", "nnx"],
)
def test_running_statistics_are_refused(make):
    with pytest.raises(fewstep.FewstepError, match="besides its parameters"):
        make()


def test_tied_unused_and_scaled_arrays_say_why():
    def init(key):
        return {
            "w": jnp.ones((2, 2)),
            "b": jnp.zeros(2),
            "twice": jnp.ones((2, 2)),
            "idle": jnp.ones(3),
            "gain": jnp.ones(()),
        }

    def apply(params, x):
        x = jnp.tanh(x @ params["w"] + params["b"][None])
        return (x @ params["twice"] + jnp.tanh(x) @ params["twice"].T) * params["gain"]

    found = table(fewstep.network(init, apply, jnp.ones((3, 2))))
    assert [leaf.path for leaf in found["w"].leaves] == ["w", "b"]
    assert found["twice"].skip == "tied: used 2 times"
    assert found["idle"].skip == "the network does not use it"
    assert "mul" in found["gain"].skip


def test_layers_inside_jit_and_checkpoint_are_found():
    block = jax.checkpoint(jax.jit(lambda w, x: jnp.tanh(jnp.einsum("bi,io->bo", x, w))))
    network = fewstep.network(
        lambda key: [jnp.ones((2, 3)), jnp.ones((3, 1))], lambda p, x: block(p[1], block(p[0], x)), jnp.ones((4, 2))
    )
    assert [(layer.path, layer.width, layer.leaves[0].axes) for layer in network.layers] == [
        ("0", 3, (1,)),
        ("1", 1, (1,)),
    ]


def test_loops_hide_their_layers():
    def apply(params, x):
        return jax.lax.scan(lambda h, _: (jnp.tanh(h @ params), None), x, None, length=3)[0]

    network = fewstep.network(lambda key: jnp.ones((2, 2)), apply, jnp.ones((4, 2)))
    assert "loop" in network.layers[0].skip
    with pytest.raises(fewstep.FewstepError, match="No layer of this network can take a metric"):
        learner(rules.tnet(), network).init(KEY)


def test_naming_a_layer_that_cannot_take_one_is_an_error():
    network = from_linen.network(Awkward(), jnp.zeros((5, 6), int))
    with pytest.raises(fewstep.FewstepError, match="'norm/scale' cannot take a metric: neither kernel nor bias"):
        learner(rules.tnet(layers=("norm/scale",)), network).init(KEY)
    assert set(learner(rules.tnet(), network).init(KEY)["metric"]) == {
        "attention/query", "attention/key", "attention/value", "attention/out", "head",
    }  # fmt: skip


def test_frozen_names_must_exist():
    with pytest.raises(fewstep.FewstepError, match="frozen names 'nothing'"):
        fewstep.network(
            lambda key: {"w": jnp.ones((2, 2))}, lambda p, x: x @ p["w"], jnp.ones((3, 2)), frozen=("nothing",)
        )


def test_describe_prints_the_table(capsys):
    fewstep.describe(from_linen.network(Awkward(), jnp.zeros((5, 6), int), frozen=("norm",)))
    printed = capsys.readouterr().out
    assert "attention/query" in printed
    assert "kernel (1, 2), bias (0, 1)" in printed
    assert "no: looked up by index" in printed
    assert "not adapted by the inner loop: norm/bias, norm/scale" in printed


def test_the_t_net_of_attention_is_attention_with_t_on_its_outputs():
    """Fused T on a kernel with two output axes: the layer's flattened output times T."""
    layer = nn.DenseGeneral((2, 3))
    network = from_linen.network(layer, jnp.ones((4, 5)))
    each = fewstep.gradient_learner(network, rules.tnet(), lambda p, b: jnp.mean((p - b.y) ** 2))
    meta = shaken(each.init(KEY))
    x = jax.random.normal(KEY, (4, 5))
    support = fewstep.Batch(x, jnp.zeros((4, 2, 3)), jnp.ones(4))
    made = each.predict(meta, each.adapt(meta, KEY, support, 0), x)
    plain = layer.apply({"params": meta["weights"]}, x).reshape(4, 6)
    (matrix,) = meta["metric"].values()
    np.testing.assert_allclose(made.reshape(4, 6), plain @ matrix, rtol=1e-5, atol=1e-6)


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, data=st.data())
@pytest.mark.slow
def test_times_is_a_product_along_any_axes(shape, data):
    axes = tuple(data.draw(st.permutations(range(len(shape))))[: data.draw(st.integers(1, len(shape)))])
    width = int(np.prod([shape[axis] for axis in axes]))
    rng = np.random.default_rng(0)
    array, matrix = rng.normal(size=shape), rng.normal(size=(width, width))
    made = times(jnp.asarray(array, jnp.float32), jnp.asarray(matrix, jnp.float32), fewstep.Leaf("w", axes))
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(array, axes, last)
    expected = np.moveaxis((moved.reshape(-1, width) @ matrix).reshape(moved.shape), last, axes)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-4)


trees = st.recursive(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, min_size=1),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_flatten_and_unflatten_are_inverse_for_any_pytree(tree):
    params = jax.tree.map(lambda shape: jnp.ones(shape), tree, is_leaf=lambda node: isinstance(node, tuple))
    flat = fewstep._network.flatten(params)
    assert len(flat) == len(jax.tree.leaves(params))
    again = fewstep._network.unflatten(params, {path: leaf * 2 for path, leaf in flat.items()})
    assert jax.tree.structure(again) == jax.tree.structure(params)
    assert all((leaf == 2).all() for leaf in jax.tree.leaves(again))


@settings(max_examples=8, deadline=None)
@given(
    widths=st.lists(st.integers(1, 5), max_size=3),
    shots=st.integers(1, 6),
    inputs=st.integers(1, 3),
    outputs=st.integers(1, 3),
)
@pytest.mark.slow
def test_every_shape_of_perceptron_adapts(widths, shots, inputs, outputs):
    network = fewstep.networks.mlp(inputs, outputs, hidden=tuple(widths), std=0.5)
    each = learner(rules.mtnet(0.01), network)
    rng = np.random.default_rng(0)
    support = fewstep.batch(rng.normal(size=(shots, inputs)), rng.normal(size=(shots, outputs)))

    def all_of_it():
        meta = each.init(KEY)
        adapted = each.adapt(meta, KEY, support, 1)
        return meta, adapted, each.predict(meta, adapted, jnp.ones((2, inputs)))

    meta, adapted, made = jax.jit(all_of_it)()
    assert made.shape == (2, outputs)
    assert jnp.isfinite(made).all()
    assert {path: leaf.shape for path, leaf in adapted.fast.items()} == {
        path: leaf.shape for path, leaf in fewstep._network.flatten(meta["weights"]).items()
    }
