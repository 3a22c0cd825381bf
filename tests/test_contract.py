"""What every learner and every outer gradient keeps to, whatever it is made of."""

import functools
import importlib
import inspect
import pkgutil
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import ALONE, CASES, CONTAINED, LEARNERS, RULES, assert_close, assert_equal, shaken

import fewstep
from fewstep import Batch, Episode, FewstepError, Learner, learners, rules
from fewstep._network import flatten

STEPS = (0, 1, 3)
# What rows of weight 0 hold: x, y of curves, y of classes.
PADDING = {"numbers": (50.0, -70.0, 0), "nan": (np.nan, np.nan, 7)}
REPTILE = ("maml", "maml adam", "proximal")  # the rest has meta-parameters that no adapted weight stands for


# Of "all links" too: each alone is checked for its gradient, and for what it equals.
VARIANTS = (
    *CONTAINED, "cavia", "mtnet_full", "maml adam", "shifted", "pooled", "metric, rank", "laplace",
    "mamlpp", "alfa", "learned_optimizer", "meta_lstm",
)  # fmt: skip
AT_ZERO = ("cavia", "covariant", "all links")  # where a task begins, whatever the weights are


def together(names: Any) -> list[Any]:
    """The names for one worker each, because all checks of a learner share its compiled programs. Variants of another
    that is here too are slow."""
    group = lambda name: pytest.mark.xdist_group(f"contract of {name}")
    return [
        pytest.param(name, marks=[group(name), *([pytest.mark.slow] if name in VARIANTS else [])]) for name in names
    ]


every_learner = pytest.mark.parametrize("name", together(CASES))
every_rule = pytest.mark.parametrize("name", together(RULES))


class Seen(NamedTuple):
    """What a learner makes of a task: adapted by each of `STEPS`, predictions of each, the loss and its slopes."""

    adapted: Any
    predictions: Any
    loss: Any
    slopes: Any


def see(learner: Learner, meta: Any, key: Any, task: Episode) -> Seen:
    adapted = learner.adapt(meta, key, task.support, STEPS)
    predictions = jax.vmap(lambda one: learner.predict(meta, one, task.query.x, task.query.weight))(adapted)
    return Seen(adapted, predictions, *jax.value_and_grad(learner.loss)(meta, key, task))


class Subject:
    """A learner with meta-parameters away from their start, and its programs, each compiled once."""

    def __init__(self, name: str):
        self.case, self.traces = CASES[name], []
        self.learner = self.case.make()
        self.meta = shaken(jax.jit(self.learner.init)(jax.random.key(1)), size=0.1)
        self._alone, self._side_by_side = jax.jit(self._see), jax.jit(self._see_several)

    def alone(self, seed: int) -> Seen:
        return self._alone(self.meta, jax.random.key(seed), self.case.episode(seed))

    def side_by_side(self, padding: str) -> tuple[Any, Any, Any]:
        """Losses, slopes and predictions of tasks 0 and 1, and of 2, which has no weight; all with padding."""
        keys, episodes = self.tasks(0, 1, 2, padding=padding)
        return self._side_by_side(self.meta, keys, episodes, jnp.array([0.5, 0.5, 0.0]))

    def tasks(self, *seeds: int, padding: str | None = None) -> tuple[Any, Episode]:
        """Keys and tasks of some seeds, stacked."""
        episodes = [self.case.episode(seed) for seed in seeds]
        if padding:
            episodes = [Episode(*(wide(batch, *PADDING[padding]) for batch in task)) for task in episodes]
        keys = jnp.stack([jax.random.key(seed) for seed in seeds])
        return keys, jax.tree.map(lambda *leaves: jnp.stack(leaves), *episodes)

    def _see(self, meta: Any, key: Any, task: Episode) -> Seen:
        self.traces.append("alone")
        return see(self.learner, meta, key, task)

    def _see_several(self, meta: Any, keys: Any, episodes: Episode, weights: Any) -> tuple[Any, Any, Any]:
        def predict(key: Any, task: Episode) -> Any:
            adapted = self.learner.adapt(meta, key, task.support, STEPS[-1])
            return self.learner.predict(meta, adapted, task.query.x, task.query.weight)

        self.traces.append("side by side")
        return *fewstep.unrolled(self.learner)(meta, keys, episodes, weights), jax.vmap(predict)(keys, episodes)


subject = functools.cache(Subject)


def wide(batch: Batch, x: float, y: float, label: int) -> Batch:
    """The batch, with three rows of weight 0 after its second."""
    value = {"x": x, "y": label if batch.y.ndim == 1 else y, "weight": 0.0}
    put = lambda array, fill: jnp.insert(array, jnp.array([2, 2, 2]), jnp.asarray(fill, array.dtype), axis=0)
    return Batch(**{name: put(array, value[name]) for name, array in batch._asdict().items()})


def floats(tree: Any) -> set[str]:
    return {str(leaf.dtype) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)}


def finite(tree: Any) -> bool:
    return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))


def shapes(tree: Any) -> Any:
    return jax.tree.map(jnp.shape, tree)


@every_learner
def test_shapes_and_finite_slopes(name):
    it, seen = subject(name), subject(name).alone(0)
    assert seen.predictions.shape == (len(STEPS), *it.case.episode(0).query.weight.shape, it.case.outputs)
    assert seen.loss.shape == ()
    assert shapes(seen.slopes) == shapes(it.meta)
    assert finite((seen.predictions, seen.loss, seen.slopes))
    assert any(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(seen.slopes))


@every_learner
def test_other_values_do_not_compile_again(name):
    it = subject(name)
    first, other = it.alone(0), it.alone(1)
    if name != "pooled":  # the one that says the same of every task
        assert not np.array_equal(first.predictions, other.predictions)
    assert it.traces.count("alone") == 1


@every_learner
def test_several_numbers_of_steps_are_those_one_by_one(name):
    it = subject(name)
    each = lambda key, support: [it.learner.adapt(it.meta, key, support, count) for count in STEPS]
    one_by_one = jax.jit(each)(jax.random.key(0), it.case.episode(0).support)
    assert_close(it.alone(0).adapted, jax.tree.map(lambda *leaves: jnp.stack(leaves), *one_by_one))


@every_rule
def test_a_rule_starts_at_the_meta_learned_weights_and_moves(name):
    fast, weights = subject(name).alone(0).adapted.fast, flatten(subject(name).meta["weights"])
    assert fast
    start = {path: jnp.zeros_like(leaf[0]) if name in AT_ZERO else weights[path] for path, leaf in fast.items()}
    assert_equal({path: leaf[0] for path, leaf in fast.items()}, start)
    assert any(np.abs(leaf[0] - leaf[-1]).max() > 1e-6 for leaf in fast.values())


@every_learner
@pytest.mark.parametrize("padding", ["nan", pytest.param("numbers", marks=pytest.mark.slow)])
def test_tasks_side_by_side_with_padding_are_each_alone(name, padding):
    """Under vmap, rows of weight 0 and a task of weight 0 change nothing; nothing compiles again for other tasks."""
    it, alone = subject(name), [subject(name).alone(seed) for seed in range(3)]
    losses, slopes, predictions = it.side_by_side(padding)
    rows = it.tasks(0, padding=padding)[1].query.weight[0] > 0
    assert_close(predictions[:, rows], jnp.stack([seen.predictions[-1] for seen in alone]), 1e-4)
    assert_close(losses, jnp.stack([seen.loss for seen in alone]), 1e-4)
    assert_close(slopes, jax.tree.map(lambda a, b: (a + b) / 2, alone[0].slopes, alone[1].slopes), 1e-4)
    assert it.traces.count("side by side") == 1


@every_learner
def test_the_type_of_the_numbers_is_kept(name):
    assert floats(subject(name).alone(0)) == {"float32"}
    with jax.enable_x64(True):
        learner, task = CASES[name].make(), CASES[name].episode(0)
        double = lambda leaf: leaf.astype(float) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
        given = jax.eval_shape(learner.init, jax.random.key(0)), jax.random.key(0), jax.tree.map(double, task)
        assert floats(jax.eval_shape(functools.partial(see, learner), *given)) == {"float64"}


@every_rule
def test_the_first_order_gradient_of_a_rule(name):
    """The same loss; other slopes, and none from a task of weight 0."""
    it = subject(name)
    run = jax.jit(fewstep.first_order(it.learner))
    (losses, slopes), (_, others) = (run(it.meta, *it.tasks(0, seed), jnp.array([1.0, 0.0])) for seed in (1, 2))
    assert run._cache_size() == 1
    assert_close(losses, jnp.stack([it.alone(seed).loss for seed in (0, 1)]), 1e-4)
    assert_close(slopes, others)
    assert shapes(slopes) == shapes(it.meta)
    assert finite(slopes)
    assert any(
        np.abs(leaf).max() > 1e-6 for leaf in jax.tree.leaves(jax.tree.map(jnp.subtract, slopes, it.alone(0).slopes))
    )


@pytest.mark.parametrize("name", together(LEARNERS))
def test_without_inner_steps_in_training_first_order_is_unrolled(name):
    it, given = subject(name), (*subject(name).tasks(0, 1), jnp.array([0.5, 0.5]))
    program = lambda outer: str(jax.make_jaxpr(outer(it.learner))(it.meta, *given))
    assert program(fewstep.first_order) == program(fewstep.unrolled)


@pytest.mark.parametrize("name", together(REPTILE))
def test_reptile_goes_where_the_tasks_went(name):
    it = subject(name)
    run = jax.jit(fewstep.reptile(steps=2, minibatch=3)(it.learner))
    (losses, slopes), (_, others) = (run(it.meta, *it.tasks(0, seed), jnp.array([1.0, 0.0])) for seed in (1, 2))
    assert run._cache_size() == 1
    assert losses.shape == (2,)
    assert_close(slopes, others)
    every = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), *it.case.episode(0))
    end = jax.jit(lambda: it.learner.adapt(it.meta, jax.random.key(0), every, 2, minibatch=3).fast)()
    start = flatten(it.meta["weights"])
    assert_close(flatten(slopes["weights"]), {path: start[path] - end[path] for path in start})


@pytest.mark.parametrize("name", together(name for name in CASES if name not in REPTILE))
def test_reptile_refuses_what_it_would_not_train(name):
    it = subject(name)
    with pytest.raises(FewstepError, match="Reptile cannot train"):
        jax.eval_shape(fewstep.reptile(2, 3)(it.learner), it.meta, *it.tasks(0, 1), jnp.ones(2))


def factories(package: Any, made: type) -> set[str]:
    """The functions that return something of a type, defined in the public modules of a package."""
    names = [info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    there = [(module, *pair) for module in modules for pair in inspect.getmembers(module, inspect.isfunction)]
    is_one = lambda module, name, value: (
        value.__module__ == module.__name__
        and not name.startswith("_")
        and inspect.signature(value).return_annotation is made
    )
    return {name for module, name, value in there if is_one(module, name, value)}


def test_every_rule_and_learner_can_be_named_and_is_checked_here():
    assert factories(rules, fewstep.Rule) == set(rules.RULES)
    # What the Gaussian processes are made of takes a kernel, a fixed feature has nothing to train, and the others are
    # made of learners: none is a method.
    parts = {"conditioned", "laplace", "nearest_mean", "portfolio", "residual"}
    assert factories(learners, Learner) - parts == set(learners.LEARNERS)
    assert {name.partition(",")[0] for name in LEARNERS} == set(learners.LEARNERS)
    assert {*rules.RULES, *ALONE} <= set(CASES)
