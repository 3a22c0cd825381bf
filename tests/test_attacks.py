"""Attacks: row by row as foolbox has them, by their definitions, and through adaptation."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DATA, episode, image_episode, learner, linear, needs_omniglot, output
from scipy.optimize import differential_evolution

import fewstep
from fewstep import FewstepError, attacks, learners, losses, networks, outers, rules
from fewstep.attacks import Budget

foolbox = pytest.importorskip("foolbox", reason="foolbox is not installed")
import eagerpy  # noqa: E402  foolbox brings it

KEY = jax.random.key(0)
FAR = Budget(jnp.inf)


def small_net(x):
    """16 numbers to 4 logits."""
    keys = jax.random.split(jax.random.key(1), 3)
    first, second = 1.2 * jax.random.normal(keys[0], (16, 24)), 0.6 * jax.random.normal(keys[1], (24, 4))
    return jnp.tanh((x - 0.5) @ first + 0.3 * jax.random.normal(keys[2], (1, 24))) @ second


X = jax.random.uniform(jax.random.key(2), (10, 16))
Y = jnp.argmax(small_net(X), axis=1)


def fooled(x):
    return np.asarray(jnp.argmax(small_net(x), axis=1) != Y)


def by_foolbox(attack, eps):
    model = foolbox.models.JAXModel(small_net, bounds=(0, 1))
    _, moved, success = attack(model, eagerpy.astensor(X), eagerpy.astensor(Y), epsilons=eps)
    moved, success = np.asarray(moved.raw), np.asarray(success.raw)
    black = (moved == 0).all(axis=1)  # what it returns for rows at which it fails
    return moved, success & ~black, ~black


F = foolbox.attacks
SAME = {
    "fgsm": (attacks.fgsm(), F.LinfFastGradientAttack(), 0.08),
    "fgsm l2": (attacks.fgsm("l2"), F.L2FastGradientAttack(), 0.3),
    "ifgsm": (attacks.ifgsm(), F.LinfBasicIterativeAttack(), 0.08),
    "ifgsm l2": (attacks.ifgsm(norm="l2"), F.L2BasicIterativeAttack(), 0.3),
    "pgd": (
        attacks.pgd(20, step_size=0.1, random_start=False, keep="last"),
        F.LinfPGD(rel_stepsize=0.1, steps=20, random_start=False), 0.08,
    ),
    "pgd l2": (
        attacks.pgd(20, "l2", step_size=0.1, random_start=False, keep="last"),
        F.L2PGD(rel_stepsize=0.1, steps=20, random_start=False), 0.3,
    ),
    "deepfool": (attacks.deepfool(20), F.L2DeepFoolAttack(steps=20, loss="logits", candidates=None), None),
    "deepfool linf": (
        attacks.deepfool(20, "linf"), F.LinfDeepFoolAttack(steps=20, loss="logits", candidates=None), None,
    ),
    "cw": (
        attacks.cw(40, 3, constant=1.0),
        F.L2CarliniWagnerAttack(3, 40, stepsize=0.01, initial_const=1.0, abort_early=False), None,
    ),
}  # fmt: skip


OFTEN = ("fgsm", "pgd", "deepfool", "cw", "apgd", "square", "universal")
often = lambda names: [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", often(SAME))
def test_row_by_row_as_foolbox(name):
    ours, theirs, eps = SAME[name]
    moved = np.asarray(jax.jit(ours.perturb, static_argnums=1)(KEY, small_net, X, Y, Budget(eps or jnp.inf)))
    expected, success, there = by_foolbox(theirs, eps)
    assert success.sum() >= 4
    np.testing.assert_array_equal(fooled(moved)[there], success[there])
    size = lambda x: np.asarray(attacks.size_of(jnp.asarray(x) - X, FAR, ours.norm))
    np.testing.assert_allclose(size(moved)[success], size(expected)[success], rtol=0.05)


ASCENTS = {
    "fgsm": attacks.fgsm(random_start=True), "pgd": attacks.pgd(10, restarts=2), "pgd l2": attacks.pgd(10, "l2"),
    "pgd margin": attacks.pgd(10, objective="margin"), "apgd": attacks.apgd(10), "apgd l2": attacks.apgd(10, "l2"),
    "apgd dlr": attacks.apgd(10, objective="dlr"), "targeted": attacks.targeted(5), "square": attacks.square(60),
    "least_likely": attacks.least_likely(5), "universal": attacks.universal(20), "deepfool": attacks.deepfool(10),
    "cw": attacks.cw(10, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", often(ASCENTS))
def test_it_keeps_to_its_budget_and_a_budget_of_0_changes_nothing(name):
    attack = ASCENTS[name]
    fixed = jnp.arange(16) % 4 == 0
    perturb = jax.jit(lambda eps: attack.perturb(KEY, small_net, X, Y, Budget(eps, scale=jnp.where(fixed, 0.0, 1.0))))
    np.testing.assert_array_equal(perturb(0.0), X)
    moved = perturb(0.1)
    assert attacks.size_of(moved - X, Budget(0.1), attack.norm).max() <= 0.1 + 1e-6
    assert moved.min() >= 0
    assert moved.max() <= 1
    np.testing.assert_array_equal(moved[:, fixed], X[:, fixed])


@pytest.mark.parametrize("name", ["pgd", "apgd", "square"])
def test_more_steps_are_no_weaker_and_the_worst_is_kept(name):
    make = {"pgd": partial(attacks.pgd, objective="margin"), "apgd": partial(attacks.apgd, objective="margin"),
            "square": attacks.square}[name]  # fmt: skip
    worse = lambda attack: attacks.margin(small_net(attack.perturb(KEY, small_net, X, Y, Budget(0.1))), Y)
    few, many = worse(make(2)), worse(make(100 if name == "square" else 40))
    assert many.mean() > few.mean()
    assert (many > attacks.margin(small_net(X), Y)).all()


@pytest.mark.slow
def test_a_black_box_is_behind_the_gradient():
    least = lambda attack: fooled(attack.perturb(KEY, small_net, X, Y, Budget(0.06))).sum()
    assert least(attacks.apgd(40, objective="margin")) >= least(attacks.square(100))


def test_the_objective_dlr_needs_three_classes():
    with pytest.raises(FewstepError, match="a task has 2 classes"):
        attacks.dlr(jnp.ones((3, 2)), jnp.zeros(3, int))
    doubled = lambda factor: attacks.dlr(factor * small_net(X), Y)
    np.testing.assert_allclose(doubled(1.0), doubled(7.0), rtol=1e-5)


def test_one_perturbation_for_all():
    moved = attacks.universal(40).perturb(KEY, small_net, X * 0.5 + 0.25, Y, Budget(0.2))
    delta = moved - (X * 0.5 + 0.25)
    np.testing.assert_allclose(delta, jnp.broadcast_to(delta[:1], delta.shape), atol=1e-6)
    assert fooled(moved).sum() > fooled(X * 0.5 + 0.25).sum()


IMAGES = jax.random.uniform(jax.random.key(3), (4, 5, 5, 1))


def bright(x):
    """Two logits that a single pixel can turn: how bright the left and the right half are, the corner counting most."""
    weight, column = jnp.ones((1, 5, 5)).at[0, 0, 4].set(9.0), jnp.arange(5)[None, None]
    left, right = ((x[..., 0] * weight * side).sum((1, 2)) for side in (column < 2, column >= 2))
    return jnp.stack([left * 1.5, right], axis=1)


def test_one_pixel_is_as_good_as_scipys_differential_evolution():
    y = jnp.argmax(bright(IMAGES), axis=1)
    moved = attacks.one_pixel(population=40, rounds=30).perturb(KEY, bright, IMAGES, y, Budget(1))
    assert ((moved != IMAGES).any(-1).sum((1, 2)) <= 1).all()
    ours = attacks.margin(bright(moved), y)

    def value(genes, row):
        place = np.minimum(np.asarray(genes[:2]) * 5, 4.999).astype(int)
        painted = np.asarray(IMAGES[row : row + 1]).copy()
        painted[0, place[0], place[1], 0] = genes[2]
        return -float(attacks.margin(bright(jnp.asarray(painted)), y[row : row + 1])[0])

    for row in range(2):
        found = differential_evolution(value, [(0, 1)] * 3, args=(row,), maxiter=8, popsize=8, seed=0, polish=False)
        assert ours[row] >= -found.fun - 0.05
    np.testing.assert_array_equal(
        attacks.one_pixel(population=4, rounds=1).perturb(KEY, bright, IMAGES, y, Budget(0)), IMAGES
    )
    with pytest.raises(FewstepError, match="one_pixel changes pixels"):
        attacks.one_pixel().perturb(KEY, small_net, X, Y, Budget(1))


def test_the_worst_of_a_grid_of_turns_and_shifts():
    y = jnp.argmax(bright(IMAGES), axis=1)
    attack = attacks.spatial(90, 1, angles=3, shifts=3)
    moved = attack.perturb(KEY, bright, IMAGES, y, Budget(1.0))
    turned = [jnp.rot90(IMAGES, n, axes=(1, 2)) for n in (0, 1, -1)]
    least = jnp.stack([attacks.margin(bright(image), y) for image in turned]).max(0)
    assert (attacks.margin(bright(moved), y) >= least - 1e-4).all()
    np.testing.assert_array_equal(attack.perturb(KEY, bright, IMAGES, y, Budget(0.0)), IMAGES)


def few_shot(kind):
    if kind == "prototypes":
        return learners.prototypes(linear(6), 3)
    if kind == "ridge":
        return learners.ridge(linear(6), 6, 3, classes=True, loss=losses.cross_entropy)
    network = networks.mlp(64, 3, hidden=())
    flat = network._replace(
        apply=lambda params, state, x, weight: network.apply(params, state, x.reshape(len(x), -1), weight)
    )
    return fewstep.gradient_learner(flat, rules.maml(0.1), losses.cross_entropy)


@pytest.mark.parametrize("kind", ["prototypes", pytest.param("ridge", marks=pytest.mark.slow), "maml"])
def test_a_poisoned_support_teaches_the_wrong_thing(kind):
    each = few_shot(kind)
    meta, task = each.init(KEY), image_episode(1, shots=3, queries=4)
    seen = attacks.poison_rows(task.query, 0.5)
    crafted = task._replace(query=task.query._replace(weight=seen))
    rows = attacks.poison_rows(task.support, 0.3)
    assert rows.sum() == 3  # one of each class

    def loss(support):
        adapted = each.adapt(meta, KEY, support, 1)
        return losses.cross_entropy(each.predict(meta, adapted, task.query.x), crafted.query)

    poisoned = lambda eps, rows=None: attacks.poison(
        partial(attacks.pgd, 8, random_start=False), each, meta, KEY, crafted, Budget(eps, -10, 10), rows=rows
    )
    np.testing.assert_array_equal(poisoned(0.0).x, task.support.x)
    some = poisoned(0.5, rows)
    np.testing.assert_array_equal(some.x[rows == 0], task.support.x[rows == 0])
    assert abs(some.x - task.support.x).max() <= 0.5 + 1e-6
    assert loss(task.support) < loss(some)
    assert loss(task.support) < loss(poisoned(0.2))


def test_flipped_labels_are_the_worst():
    each = few_shot("prototypes")
    meta, task = each.init(KEY), image_episode(2, shots=2, queries=3)
    flipped = attacks.flip_labels(each, meta, KEY, task, 3, flips=1)
    assert (flipped.y != task.support.y).sum() == 1
    loss = lambda y: losses.cross_entropy(
        each.predict(meta, each.adapt(meta, KEY, task.support._replace(y=y), 1), task.query.x), task.query
    )
    others = [loss(task.support.y.at[row].set(label)) for row in range(6) for label in range(3)]
    assert loss(flipped.y) == pytest.approx(max(others), rel=1e-5)
    np.testing.assert_array_equal(attacks.flip_labels(each, meta, KEY, task, 3, flips=0).y, task.support.y)


def test_robust_training_is_the_gradient_at_attacked_queries():
    """By hand: the queries one step of 1.25 eps up the loss, from a random point of the ball."""
    each = learner(rules.maml(0.1))
    meta, task = each.init(KEY), jax.tree.map(lambda leaf: leaf[None], episode(3))
    keys, weights = jax.random.split(KEY, 1), jnp.ones(1)
    plain = fewstep.unrolled(each)(meta, keys, task, weights)
    same = outers.robust(0.0, low=-9, high=9)(each)(meta, keys, task, weights)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), plain, same)
    worse, _ = outers.robust(0.2, low=-9, high=9)(each)(meta, keys, task, weights)
    assert worse[0] > plain[0][0]
    mixed, _ = outers.robust(0.2, low=-9, high=9, clean=0.25)(each)(meta, keys, task, weights)
    np.testing.assert_allclose(mixed, 0.75 * worse + 0.25 * plain[0], rtol=1e-5)
    with pytest.raises(FewstepError, match="Unknown attack 'fgms'"):
        outers.robust(0.1, "fgms")


@needs_omniglot
def test_the_command(capsys):
    words = ("attack", "omniglot-mtnet-5way", "--data-dir", DATA, "--n-tasks", 3, "--queries", 1, "--eps", "0", "0.2")
    code, printed, _ = output(capsys, *words, "--with", "fgsm", "square", "--json")
    found = json.loads(printed)
    assert code == 0
    mean = {(row["attack"], row["eps"]): row["mean"] for row in found["rows"]}
    assert set(mean) == {(name, eps) for name in ("clean", "fgsm", "square", "worst") for eps in (0, 0.2)}
    assert mean["clean", 0] == mean["worst", 0] > 0.8
    assert mean["worst", 0.2] <= min(mean["fgsm", 0.2], mean["square", 0.2]) < 0.5
    holds = {check["name"]: check["holds"] for check in found["checks"]}
    assert [*holds.values()].count(True) >= 4  # one step of the gradient may be behind a search
    assert holds["each query is answered for itself"]
    assert holds["gradients do not vanish"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--with", "pdg"), "Unknown attack 'pdg'. Did you mean 'pgd'"),
        (("--eps", "-1"), "Give 0 or more"),
        (("--eps", "x"), "such as 0.03 or 8/255"),
        (("--on", "support", "--with", "cw"), "Unknown attack 'cw'"),
        (("--on", "support", "--queries", 1), "takes 2 queries of each class or more"),
    ],
)
def test_mistakes_are_one_clear_line(words, message, capsys):
    code, _, error = output(capsys, "attack", "omniglot-mtnet-5way", "--n-tasks", 2, *words)
    assert code == 2
    assert message in error
    assert "Traceback" not in error
