"""Images: tasks of them, the convolution, the normalizations, conv4, and the learners without an inner gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from helpers import IMAGE, LEARNERS, RULES, assert_close, dot, fused, linear, shaken, slope, tiny
from helpers import image_episode as some_episode

import fewstep
from fewstep import data, learners, losses, networks, rules, tasks
from fewstep._network import flatten
from fewstep.interop import nnx as from_nnx
from fewstep.tasks import distinct

KEY = jax.random.key(0)


def numbered(classes=7, each=6, size=4):
    """A set whose images can be told: the corner holds the number of the class, the pixel right of it the image's."""
    made = {}
    for label in range(classes):
        images = np.zeros((each, size, size, 1), np.uint8)
        images[:, 0, 0, 0], images[:, 0, 1, 0] = label + 1, np.arange(each) + 100
        made[f"class {label}"] = images
    return data.make_set(made)


def test_distinct_numbers_are_drawn_evenly():
    drawn = jax.vmap(lambda key: distinct(jax.random.uniform(key, (3,)), jnp.asarray(4)))(jax.random.split(KEY, 12_000))
    orders, counts = np.unique(np.asarray(drawn), axis=0, return_counts=True)
    assert len(orders) == 24
    assert abs(counts / 500 - 1).max() < 0.2
    many = distinct(jax.random.uniform(KEY, (40,)), jnp.asarray(41))  # in a loop, for it is not unrolled
    assert len(set(many.tolist())) == 40
    assert max(many.tolist()) < 41
    assert distinct(jnp.full(1, 0.99999999), jnp.asarray(600)).item() == 599  # rounding does not reach past the end


def test_no_class_and_no_image_is_there_twice():
    of = numbered()
    some = tasks.images(of, 2, 3, ways=5)
    episodes = jax.jit(jax.vmap(some.sample, (None, 0)))(some.data, jax.random.split(KEY, 300))
    seen = np.concatenate([np.asarray(part.x) for part in (episodes.support, episodes.query)], axis=1)
    labels = np.concatenate([episodes.support.y, episodes.query.y], axis=1)
    classes, numbers = (np.rint(255 * seen[:, :, 0, column, 0]).astype(int) for column in (0, 1))
    for task in range(300):
        assert len({*zip(classes[task].tolist(), numbers[task].tolist(), strict=True)}) == 5 * 5
        assert len({*zip(classes[task].tolist(), labels[task].tolist(), strict=True)}) == 5
    assert set(classes.ravel().tolist()) == set(range(1, 8))
    assert set(numbers.ravel().tolist()) == set(range(100, 106))


def test_classes_of_unequal_size_are_drawn_within_their_own():
    of = data.make_set({"a": numbered(1, 3).images, "b": numbered(1, 9).images, "c": numbered(1, 2).images})
    some = tasks.images(of, 1, 1, ways=3)
    episodes = jax.jit(jax.vmap(some.sample, (None, 0)))(some.data, jax.random.split(KEY, 200))
    numbers = np.rint(255 * np.asarray(episodes.query.x)[:, :, 0, 1, 0]).astype(int)
    assert numbers.min() == 100
    assert numbers.max() == 108


def test_a_rotation_is_that_of_the_class_in_its_episode():
    some = tasks.images(numbered(), 2, 1, ways=4, rotate="episode")
    episodes = jax.jit(jax.vmap(some.sample, (None, 0)))(some.data, jax.random.split(KEY, 60))
    support, query = (np.asarray(part.x)[..., 0] for part in episodes)
    corners = ((0, 0), (3, 0), (3, 3), (0, 3))  # of turns by 0, 90, 180 and 270 degrees
    turn = lambda images: np.stack([images[..., a, b] for a, b in corners]).argmax(0)
    turns = np.concatenate([turn(support).reshape(60, 4, 2), turn(query).reshape(60, 4, 1)], axis=2)
    assert (turns == turns[:, :, :1]).all()
    assert set(turns.ravel().tolist()) == {0, 1, 2, 3}
    for number in range(4):  # each is numpy's turn of the image
        task, row = (int(n[0]) for n in np.nonzero(turn(support) == number))
        back = np.rot90(support[task, row], -number)
        assert back[0, 0] > 0
        assert back[0, 1] > 0


def test_four_classes_are_made_of_each():
    some = tasks.images(numbered(2), 1, 1, ways=8, rotate="classes")
    episode = some.sample(jax.tree.map(jnp.asarray, some.data), KEY)
    found = {tuple(np.argwhere(np.asarray(x)[..., 0] > 0).ravel().tolist()) for x in episode.support.x}
    assert len(found) == 4
    with pytest.raises(fewstep.FewstepError, match="takes 9 classes and there are 8"):
        tasks.images(numbered(2), 1, 1, ways=9, rotate="classes")


def test_dark_becomes_bright_when_inverted():
    plain, inverted = (tasks.images(numbered(), 1, 1, invert=flag) for flag in (False, True))
    a, b = (some.sample(jax.tree.map(jnp.asarray, some.data), KEY).query.x for some in (plain, inverted))
    np.testing.assert_allclose(a + b, 1.0, rtol=1e-6)


def test_batches_of_all_classes_are_labeled_by_the_class():
    some = tasks.all_classes(numbered(), 50)
    batch = some.sample(jax.tree.map(jnp.asarray, some.data), KEY).query
    np.testing.assert_array_equal(np.rint(255 * np.asarray(batch.x)[:, 0, 0, 0]) - 1, batch.y)
    turned = tasks.all_classes(numbered(), 1000, rotate="classes")
    assert jnp.unique(turned.sample(jax.tree.map(jnp.asarray, turned.data), KEY).query.y).size == 28


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ways": 8}, "takes 8 classes and there are 7. Use `ways=7`"),
        ({"shots": 4, "queries": 3}, "'class 0' has 6"),
        ({"ways": 1}, "ways is 1"),
        ({"shots": 0}, "shots is 0"),
    ],
)
def test_tasks_that_cannot_be_made_are_refused(given, said):
    with pytest.raises(fewstep.FewstepError, match=said):
        tasks.images(numbered(), **given)


@pytest.mark.parametrize(("stride", "padding"), [(1, "SAME"), (2, "SAME"), ((2, 1), "VALID"), (1, ((2, 0), (1, 1)))])
def test_the_convolution_is_that_of_jax(stride, padding):
    x, kernel = jax.random.normal(KEY, (2, 7, 6, 3)), jax.random.normal(KEY, (3, 2, 3, 4))
    strides = (stride, stride) if isinstance(stride, int) else stride
    numbers = ("NHWC", "HWIO", "NHWC")
    plain = lambda x, k: jax.lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=numbers)
    ours = lambda x, k: networks.convolve(x, k, stride=stride, padding=padding)
    assert_close(ours(x, kernel), plain(x, kernel))
    slopes = [jax.grad(lambda x, k, f=f: jnp.sin(f(x, k)).sum(), (0, 1))(x, kernel) for f in (ours, plain)]
    assert_close(*slopes)
    given = {"window_strides": strides, "padding": padding, "dimension_numbers": numbers}
    assert_close(networks.conv_general_dilated(x, kernel, **given), plain(x, kernel))
    grouped = kernel[:, :, :1, :3]
    assert_close(
        networks.conv_general_dilated(x, grouped, **given, feature_group_count=3),
        jax.lax.conv_general_dilated(
            x, grouped, strides, padding, dimension_numbers=numbers, feature_group_count=3
        ),
    )  # fmt: skip


@pytest.mark.slow
def test_a_flax_model_with_our_convolution_is_a_tnet():
    class Model(nnx.Module):
        def __init__(self, rngs):
            conv = networks.conv_general_dilated
            self.conv = nnx.Conv(1, 4, (3, 3), strides=2, conv_general_dilated=conv, rngs=rngs)
            self.head = nnx.Linear(4, 3, rngs=rngs)

        def __call__(self, x):
            return self.head(nnx.relu(self.conv(x)).mean((1, 2)))

    network = from_nnx.network(lambda rngs: Model(rngs), jnp.ones((2, *IMAGE)))
    assert [(layer.width, layer.skip, len(layer.leaves)) for layer in network.layers] == [(4, "", 2), (3, "", 2)]
    each = fewstep.gradient_learner(network, rules.mtnet(0.1), losses.cross_entropy)
    assert jnp.isfinite(each.loss(each.init(KEY), KEY, some_episode()))


def test_conv4_has_the_papers_numbers():
    def sizes(network):
        meta = jax.eval_shape(fewstep.gradient_learner(network, rules.mtnet(0.1), losses.cross_entropy).init, KEY)
        moved = sum(leaf.size for path, leaf in flatten(meta["weights"]).items() if path not in network.frozen)
        return moved, *(sum(leaf.size for leaf in jax.tree.leaves(meta[part])) for part in ("metric", "mask"))

    assert sizes(networks.conv4((28, 28, 1), 5)) == (111_749, 16_409, 261)
    mini = networks.conv4((84, 84, 3), 5, filters=32, pool=True, average=False)
    assert sizes(mini) == (32_645, 4_121, 133)


@pytest.mark.parametrize("options", [{}, {"pool": True, "average": False, "filters": 2}, {"start": "paper"}])
def test_conv4_shapes(options):
    size = (16, 16, 3) if options.get("pool") else IMAGE

    def shapes(outputs):
        network = networks.conv4(size, outputs, **({"filters": 3} | options))
        return jax.eval_shape(lambda: network.apply(network.init(KEY), (), jnp.ones((4, *size)), jnp.ones(4)))

    y, state = shapes(3)
    assert y.shape == (4, 3)
    assert state == ()
    seen, _ = shapes(None)
    assert seen.shape == (4, options.get("filters", 3))


def test_conv4_refuses_what_does_not_fit():
    with pytest.raises(fewstep.FewstepError, match="4 halvings"):
        networks.conv4((8, 8, 1), 5, pool=True)
    with pytest.raises(fewstep.FewstepError, match="Did you mean 'support'"):
        tiny(norm="suport")
    network = tiny()
    with pytest.raises(fewstep.FewstepError, match=r"images of shape \(8, 8, 1\)"):
        network.apply(network.init(KEY), (), jnp.ones((2, 9, 9, 1)), jnp.ones(2))


@pytest.mark.parametrize("norm", ["transductive", "support", "layer", "group"])
def test_whose_statistics_normalize(norm):
    """Only transductive lets a query change with its neighbors; only `support` carries something over."""
    each = fewstep.gradient_learner(tiny(norm=norm), rules.maml(0.1), losses.cross_entropy)
    meta, episode = shaken(each.init(KEY)), some_episode()
    adapted = jax.jit(lambda: each.adapt(meta, KEY, episode.support, 1))()
    together = each.predict(meta, adapted, episode.query.x)[:1]
    alone = each.predict(meta, adapted, episode.query.x[:1])
    same = bool(jnp.allclose(together, alone, rtol=1e-4, atol=1e-5))
    assert same == (norm != "transductive")
    assert bool(jax.tree.leaves(adapted.state)) == (norm == "support")


@pytest.mark.parametrize("norm", [pytest.param("transductive", marks=pytest.mark.slow), "support"])
def test_padding_changes_no_statistic(norm):
    each = fewstep.gradient_learner(tiny(norm=norm), rules.mtnet(0.1), losses.cross_entropy)
    meta, episode = each.init(KEY), some_episode()
    more = lambda batch: fewstep.Batch(
        jnp.concatenate([batch.x, jnp.full((2, *IMAGE), 9.0)]),
        jnp.concatenate([batch.y, jnp.zeros(2, batch.y.dtype)]),
        jnp.concatenate([batch.weight, jnp.zeros(2)]),
    )
    padded = fewstep.Episode(*map(more, episode))
    loss = jax.jit(lambda some: each.loss(meta, KEY, some))
    assert_close(loss(episode), loss(padded))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("maml", "mtnet_full", "all links") else [pytest.mark.slow]) for n in RULES],
)
def test_every_rule_works_on_conv4(name):
    network = tiny(blocks=1)
    each = fewstep.gradient_learner(network, RULES[name](0.1), losses.cross_entropy)
    meta = shaken(each.init(KEY), size=0.05)
    # Second derivatives are checked by differences below, where they take one compilation and not one a rule.
    both = jax.jit(jax.value_and_grad(lambda m: each.loss(m, KEY, some_episode(), first_order=True)))
    loss, slopes = both(meta)
    assert jnp.isfinite(loss)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    assert any(jnp.abs(leaf).max() > 0 for leaf in jax.tree.leaves(slopes["weights"]["norm_0"]))
    fast = jax.eval_shape(lambda m: each.adapt(m, KEY, some_episode().support, 1).fast, meta)
    assert not any(path.startswith("norm") for path in fast)


def test_the_shift_is_adapted_when_asked():
    each = fewstep.gradient_learner(tiny(adapt_norm=True, scale=True), rules.maml(0.1), losses.cross_entropy)
    meta = each.init(KEY)
    adapted = jax.jit(lambda: each.adapt(meta, KEY, some_episode().support, 1))()
    assert {"norm_0/shift", "norm_1/scale"} <= adapted.fast.keys()
    assert jnp.abs(adapted.fast["norm_0/shift"]).max() > 0


def test_both_forms_of_the_metric_are_one_function():
    """T after a convolution is the 1x1 convolution, multiplied into the kernel or applied to its outcome."""
    both = []
    for network in (tiny(), fused(tiny())):
        each = fewstep.gradient_learner(network, rules.tnet(0.1), losses.cross_entropy)
        meta = shaken(each.init(KEY), size=0.2)
        both.append(jax.jit(lambda m, e=each: e.loss(m, KEY, some_episode()))(meta))
    assert_close(*both, tolerance=1e-4)


def test_the_metric_is_a_1x1_convolution():
    network = tiny()
    params = shaken(network.init(KEY))
    matrix = jax.random.normal(jax.random.key(5), (3, 3))
    x, weight = some_episode().support.x, jnp.ones(6)
    given = {**params, "conv_1": {**params["conv_1"], "metric": matrix}}
    ours, _ = network.apply(given, (), x, weight)
    numbers = ("NHWC", "HWIO", "NHWC")
    conv = lambda x, k, s: jax.lax.conv_general_dilated(x, k, (s, s), "SAME", dimension_numbers=numbers)
    for n in range(2):
        layer = params[f"conv_{n}"]
        x = conv(x, layer["kernel"], 2) + layer["bias"][None, None, None]
        x = conv(x, matrix[None, None], 1) if n == 1 else x
        x, _ = networks.normalize(x, params[f"norm_{n}"], "transductive", weight, None)
        x = jax.nn.relu(x)
    assert_close(ours, x.mean((1, 2)) @ params["dense"]["kernel"] + params["dense"]["bias"][None], 1e-4)


@pytest.mark.parametrize("norm", [pytest.param("transductive", marks=pytest.mark.slow), "support"])
def test_meta_gradient_of_a_conv_mtnet_against_finite_differences(norm):
    with jax.enable_x64(True):
        rule = rules.mtnet(0.1, draw="expected")
        each = fewstep.gradient_learner(tiny(norm=norm), rule, losses.cross_entropy)
        meta = shaken(each.init(KEY), size=0.2)
        episode = jax.tree.map(lambda leaf: leaf.astype(float) if leaf.dtype != int else leaf, some_episode())
        loss = jax.jit(lambda m: each.loss(m, KEY, episode))
        direction = shaken(jax.tree.map(jnp.zeros_like, meta), 3, 1.0)
        assert_close(dot(jax.jit(jax.grad(loss))(meta), direction), slope(loss, meta, direction, 1e-7), 1e-5)


def test_prototypes_by_hand():
    each, episode = learners.prototypes(linear(), 3), some_episode()
    meta = each.init(KEY)
    f = lambda x: np.asarray(x).reshape(len(x), -1) @ np.asarray(meta["weights"]["w"])
    centers = f(episode.support.x).reshape(3, 2, -1).mean(1)
    far = ((f(episode.query.x)[:, None] - centers[None]) ** 2).sum(-1)
    assert_close(each.predict(meta, each.adapt(meta, KEY, episode.support, 0), episode.query.x), -far, 1e-3)


def test_the_closed_form_head_by_hand():
    each, episode = learners.embedding(linear(), 3), some_episode()
    meta = each.init(KEY) | {"bandwidth": jnp.log(5.0)}
    f = lambda x: np.asarray(x).reshape(len(x), -1) @ np.asarray(meta["weights"]["w"])
    kernel = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 50)
    support, query, labels = f(episode.support.x), f(episode.query.x), np.eye(3)[np.asarray(episode.support.y)]
    lengths = np.sqrt(np.einsum("ic,ij,jc->c", labels, kernel(support, support), labels))
    made = each.predict(meta, each.adapt(meta, KEY, episode.support, 0), episode.query.x)
    assert_close(made, np.log(kernel(query, support) @ labels / lengths), 1e-3)


def test_with_one_example_a_class_the_closed_form_head_is_a_prototypical_network():
    episode = some_episode(shots=1)
    made = []
    for make in (learners.embedding, learners.prototypes):
        each = make(linear(), 3)
        meta = each.init(KEY)
        weights = {**meta, "weights": {"w": jax.random.normal(KEY, (64, 4)) / 8}}
        made.append(each.predict(weights, each.adapt(weights, KEY, episode.support, 0), episode.query.x))
    assert_close(*made, 1e-3)


@pytest.mark.slow
def test_the_spectral_head_ignores_a_direction_that_tells_nothing():
    """Twenty examples a class, one feature with the class in it, one of noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    x = np.stack([3 * labels + 0.1 * rng.standard_normal(40), rng.standard_normal(40)], 1).astype(np.float32)
    plain = fewstep.network(lambda key: {"w": jnp.eye(2)}, lambda params, x: x @ params["w"], jnp.ones((2, 2)))
    each = learners.spectral(plain, 2)
    meta = each.init(KEY) | {"bandwidth": jnp.log(1.0)}
    support = fewstep.Batch(jnp.asarray(x), jnp.asarray(labels), jnp.ones(40))
    adapted = each.adapt(meta, KEY, support, 0)
    weight = np.abs(np.asarray(adapted.fast["weight"]))
    assert weight[0, 0] > 0.95  # the first direction is the telling one
    made = each.predict(meta, adapted, jnp.asarray([[0.0, 0.0], [3.0, 0.0]]))
    np.testing.assert_array_equal(made.argmax(1), [0, 1])


def test_matching_by_hand():
    each, episode = learners.matching(linear(), 3), some_episode()
    meta = each.init(KEY)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    f = lambda x: unit(np.asarray(x).reshape(len(x), -1) @ np.asarray(meta["weights"]["w"]))
    weight = np.exp(f(episode.query.x) @ f(episode.support.x).T)
    chance = (weight / weight.sum(1, keepdims=True)) @ np.eye(3)[np.asarray(episode.support.y)]
    made = each.predict(meta, each.adapt(meta, KEY, episode.support, 0), episode.query.x)
    assert_close(jnp.exp(made), chance, 1e-4)


def test_the_nearest_neighbor_is_found():
    each, episode = LEARNERS["neighbor"].make(), some_episode(shots=1)
    meta = each.init(KEY)
    made = each.predict(meta, each.adapt(meta, KEY, episode.support, 0), episode.support.x)
    np.testing.assert_array_equal(made.argmax(1), episode.support.y)  # each is nearest to itself


def test_finetuning_starts_without_favor_and_learns():
    each, episode = LEARNERS["finetune"].make(), some_episode()
    meta = each.init(KEY)
    both = jax.jit(lambda: each.adapt(meta, KEY, episode.support, (0, 30)))()
    before, after = (jax.tree.map(lambda leaf, n=n: leaf[n], both) for n in (0, 1))
    np.testing.assert_array_equal(each.predict(meta, before, episode.query.x), 0)
    made = each.predict(meta, after, episode.support.x)
    assert losses.cross_entropy(made, episode.support) < np.log(3) / 2
    assert losses.error_rate(made, episode.support) + losses.accuracy(made, episode.support) == 1
