"""The lists that the tests are products of: rules, learners, networks, tasks; and a few things that many tests do."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import fewstep
from fewstep import augmentations, learners, losses, networks, outers, rules, tasks
from fewstep.cli import main
from fewstep.experiments import Experiment, build, network_options
from fewstep.interop import equinox as from_equinox
from fewstep.interop import linen as from_linen
from fewstep.interop import nnx as from_nnx
from fewstep.models import Model, calibrate_model
from fewstep.problems import IN_MEMORY, problem_of_rows
from fewstep.tables import Table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
needs_omniglot = pytest.mark.skipif(
    not (DATA / "omniglot").is_dir(), reason="the real Omniglot is not beside the project"
)

# Links that are methods by themselves, with plain steps.
ALONE = ("cavia", "covariant", "curvature", "gap", "proximal", "sparse")
# Every rule, as a function of its step size.
RULES: dict[str, Callable[[float], fewstep.Rule]] = {
    **{name: (lambda lr, factory=factory: factory(lr)) for name, factory in rules.RULES.items()},
    "metric+mask+rates": lambda lr: fewstep.chain(rules.metric(), rules.mask(), rules.rates(lr)),
    "maml adam": lambda lr: rules.maml(optax.adam(lr)),
    "maml+learned_loss": lambda lr: fewstep.chain(rules.maml(lr), rules.learned_loss(2)),
    **{name: (lambda lr, name=name: fewstep.chain(rules.LINKS[name](), rules.sgd(lr))) for name in ALONE},
    "all links": lambda lr: fewstep.chain(*(rules.LINKS[name]() for name in ALONE if name != "cavia"), rules.sgd(lr)),
}
# Rules that differ from these by an option: their meta-gradient is checked, not all the rest again.
VARIANTS: dict[str, Callable[[float], fewstep.Rule]] = {
    **RULES,
    "mtnet+rates": lambda lr: fewstep.chain(rules.mtnet(), rules.rates(lr)),
    "mtnet expected": lambda lr: rules.mtnet(lr, draw="expected"),
    "mtnet threshold": lambda lr: rules.mtnet(lr, draw="threshold"),
    "mtnet adam": lambda lr: rules.mtnet(optax.adam(lr, b1=0.0)),
    "anil+rates": lambda lr: fewstep.chain(rules.anil(), rules.rates(lr)),
}
# Rules whose links mtnet, mtnet_full, metric+mask+rates or "all links" have too: what holds for every rule is checked
# of those.
CONTAINED = ("meta_sgd", "tnet", "mnet", "mnet_full", *(name for name in ALONE if name != "cavia"))
# Rules whose meta-parameters all have a derivative of the ordinary kind: no hard mask, no root at 0.
SMOOTH = (
    "maml", "meta_sgd", "anil", "boil", "tnet", "mtnet expected", "cavia", "covariant", "curvature", "gap", "proximal",
)  # fmt: skip


def tanh_mlp(hidden: tuple[int, ...] = (4,)) -> fewstep.Network:
    return networks.mlp(hidden=hidden, activation=jnp.tanh, std=0.5)


def fused(network: fewstep.Network) -> fewstep.Network:
    """The same network, with T multiplied into kernel and bias."""
    return network._replace(layers=tuple(layer._replace(literal=False) for layer in network.layers))


def plain_function() -> fewstep.Network:
    template = tanh_mlp()
    shape = jax.eval_shape(template.init, jax.random.key(0))
    one = jax.tree.structure(shape)

    def init(key: Any) -> list[Any]:
        return jax.tree.leaves(template.init(key))

    def apply(params: Any, x: Any) -> Any:
        return template.apply(jax.tree.unflatten(one, params), (), x, jnp.ones(x.shape[0]))[0]

    return fewstep.network(init, apply, jnp.ones((4, 1)))


class Convolutional(eqx.Module):
    first: eqx.nn.Conv1d
    last: eqx.nn.Linear

    def __init__(self, key: Any):
        self.first = eqx.nn.Conv1d(1, 4, 3, padding=1, key=key)
        self.last = eqx.nn.Linear(4, 1, key=key)

    def __call__(self, x: Any) -> Any:
        return self.last(jnp.tanh(self.first(x[None] + jnp.arange(3.0)[None])).mean(axis=1))


NETWORKS: dict[str, Callable[[], fewstep.Network]] = {
    "mlp": tanh_mlp,
    "mlp fused": lambda: fused(tanh_mlp()),
    "function": plain_function,
    "equinox": lambda: from_equinox.network(
        lambda key: eqx.nn.MLP(1, 1, 5, 2, activation=jnp.tanh, key=key), jnp.ones((4, 1))
    ),
    "equinox conv": lambda: from_equinox.network(Convolutional, jnp.ones((4, 1))),
    "linen": lambda: from_linen.network(nn.Sequential([nn.Dense(5), jnp.tanh, nn.Dense(1)]), jnp.ones((4, 1))),
    "nnx": lambda: from_nnx.network(
        lambda rngs: nnx.Sequential(nnx.Linear(1, 5, rngs=rngs), jnp.tanh, nnx.Linear(5, 1, rngs=rngs)),
        jnp.ones((4, 1)),
    ),
}
TASKS: dict[str, Callable[..., fewstep.Tasks]] = tasks.TASKS


def learner(rule: fewstep.Rule, network: fewstep.Network | None = None, **options: Any) -> fewstep.Learner:
    return fewstep.gradient_learner(network or tanh_mlp(), rule, losses.squared_error, **options)


def near_start(strength: float) -> Callable[..., Any]:
    """An inner loss that pulls the adapted weights to the start, so that inner steps come to rest near it."""

    def loss(meta: Any, prediction: Any, batch: Any, context: Any) -> Any:
        start = fewstep.flatten(meta["weights"])
        far = sum(jnp.sum((leaf - start[path]) ** 2) for path, leaf in context.fast.items())
        return losses.squared_error(prediction, batch) + strength * far

    return loss


def episode(seed: int = 0, shots: int = 5, queries: int = 4, of: str = "sinusoid") -> fewstep.Episode:
    made = TASKS[of](shots, queries)
    return made.sample(made.data, jax.random.key(seed))


IMAGE, WAYS = (8, 8, 1), 3


def tiny(outputs: int | None = WAYS, **options: Any) -> fewstep.Network:
    return networks.conv4(IMAGE, outputs, **({"filters": 3, "blocks": 2} | options))


def linear(features: int = 4) -> fewstep.Network:
    """Features of an image that can be computed by hand."""
    init = lambda key: {"w": jax.random.normal(key, (64, features))}
    return fewstep.network(init, lambda params, x: x.reshape(x.shape[0], -1) @ params["w"], jnp.ones((2, *IMAGE)))


def image_episode(seed: int = 0, ways: int = WAYS, shots: int = 2, queries: int = 2) -> fewstep.Episode:
    x = jax.random.uniform(jax.random.key(seed), (2, ways * max(shots, queries), *IMAGE))
    part = lambda x, count: fewstep.Batch(x[: ways * count], jnp.arange(ways).repeat(count), jnp.ones(ways * count))
    return fewstep.Episode(part(x[0], shots), part(x[1], queries))


class Case(NamedTuple):
    """A learner, the tasks it is for by their seed, and the width of its predictions."""

    make: Callable[[], fewstep.Learner]
    episode: Callable[[int], fewstep.Episode]
    outputs: int


def _of_classes(make: Callable[[], fewstep.Learner]) -> Case:
    return Case(make, image_episode, WAYS)


def _of_curves(make: Callable[[], fewstep.Learner]) -> Case:
    return Case(make, episode, 1)


def _reader(make: Callable[..., fewstep.Learner], **sizes: int) -> Case:
    one = learners.Sizes(features=1, outputs=1, classes=False)
    return _of_curves(lambda: make(learners.nothing_but_x(1), one, **sizes))


def _of_rows(make: Callable[..., fewstep.Learner], **sizes: int) -> Case:
    return _of_curves(lambda: make(learners.Sizes(features=1, outputs=1, classes=False), **sizes))


def _baseline(make: Callable[..., fewstep.Learner], outputs: int | None, last: Any) -> Case:
    return _of_classes(lambda: make(tiny(7, filters=16), tiny(outputs, filters=16), last))


# Every learner that takes no inner gradient, and the baselines.
LEARNERS: dict[str, Case] = {
    "prototypes": _of_classes(lambda: learners.prototypes(linear(), WAYS)),
    "matching": _of_classes(lambda: learners.matching(linear(), WAYS)),
    "matching, full context": _of_classes(lambda: learners.matching(linear(), WAYS, full_context=4)),
    "embedding": _of_classes(lambda: learners.embedding(linear(), WAYS)),
    "spectral": _of_classes(lambda: learners.spectral(linear(), WAYS)),
    "metric": _of_classes(lambda: learners.metric(linear(), 4, WAYS)),
    "metric, rank": _of_classes(lambda: learners.metric(linear(), 4, WAYS, rank=2)),
    "logistic": _of_classes(lambda: learners.logistic(linear(), WAYS)),
    "neighbor": _baseline(learners.neighbor, None, WAYS),
    "finetune": _baseline(learners.finetune, WAYS, rules.maml(1.0)),
    "snail": _reader(learners.snail, longest=6),
    "metanet": _reader(learners.metanet, width=8),
    "recurrent": _reader(learners.recurrent, width=8),
    "np": _of_rows(learners.np, width=8, blocks=2, heads=2, ff=8),
    "anp": _of_rows(learners.anp, width=8, heads=2),
    "ridge": _of_curves(lambda: learners.ridge(networks.mlp(1, 3, hidden=(4,), std=None), 3)),
    "ridge, classes": _of_classes(lambda: learners.ridge(linear(), 4, WAYS, classes=True)),
    "gaussian": _of_curves(lambda: learners.gaussian(networks.mlp(1, 1, hidden=(4,)), 1)),
    "mixed": _of_curves(lambda: learners.mixed(1)),
    "trees": _of_curves(lambda: learners.trees(1, losses.squared_error)),
    "shifted": _of_curves(lambda: learners.shifted(1, losses.squared_error)),
    "pooled": _of_curves(lambda: learners.pooled(1, losses.squared_error)),
}
# Those, and the learner of every rule.
CASES: dict[str, Case] = (
    LEARNERS
    | {name: _of_curves(lambda make=make: learner(make(0.1), steps=2)) for name, make in RULES.items()}
    | {"laplace": _of_curves(lambda: learners.laplace(learner(rules.maml(0.1)), determinant=1e-3))}
)  # around one of them


class OuterCase(NamedTuple):
    """An outer gradient, and a learner that it trains."""

    outer: fewstep.Outer
    make: Callable[[], fewstep.Learner]


def _outer(outer: fewstep.Outer, rule: str = "maml", **options: Any) -> OuterCase:
    return OuterCase(outer, lambda: learner(RULES[rule](0.02), tanh_mlp((2,)), steps=2, **options))


# Every outer gradient, by its name; behind a comma what is special.
OUTERS: dict[str, OuterCase] = {
    "unrolled": _outer(fewstep.unrolled),
    "first_order": _outer(fewstep.first_order),
    "reptile": _outer(fewstep.reptile(2, 3)),
    "annealed": _outer(outers.annealed(2)),
    "implicit": _outer(outers.implicit(3, terms=3), inner_loss=near_start(0.5)),
    "evolution": _outer(outers.evolution(pairs=2)),
    "evolution, of a score": _outer(outers.evolution(("rates",), 2, score="absolute_error"), "meta_sgd"),
    "reinforce": _outer(outers.reinforce(2), "mnet"),
    "sharp": _outer(outers.sharp("both", 0.05)),
    "hardest": _outer(outers.hardest(2, augmentations.label_shift())),
    "robust": _outer(outers.robust(0.05, low=-10, high=10)),
}


def assert_close(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def assert_equal(a: Any, b: Any) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(_raw(x), _raw(y)), a, b)


def _raw(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def shaken(meta: Any, seed: int = 0, size: float = 0.3) -> Any:
    """Meta-parameters away from their start, where identities and zeros would hide mistakes."""
    random = np.random.default_rng(seed)  # jax.random would compile a program for every shape
    return jax.tree.map(lambda leaf: leaf + size * random.normal(size=leaf.shape).astype(leaf.dtype), meta)


def slope(function: Callable[[Any], Any], point: Any, direction: Any, size: float = 1e-6) -> Any:
    """The derivative along a direction, by central differences."""
    shift = lambda sign: jax.tree.map(lambda p, d: p + sign * size * d, point, direction)
    return (function(shift(1)) - function(shift(-1))) / (2 * size)


def dot(a: Any, b: Any) -> Any:
    return sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def untrained(table: Table, method: str, shots: int, change: Any = lambda meta: meta, **options: Any) -> Any:
    """A model of a table that was not trained at all, calibrated on the validation tasks; and without that."""
    experiment = Experiment(method, IN_MEMORY, schema=table.schema.to_dict(), shots=shots, seeds=1, **options)
    options, network = experiment.groups[0], network_options(experiment)
    built = build(experiment, problem_of_rows(options, network, table.schema, lambda: table))
    plain = Model(built, {0: change(built.learner.init(jax.random.key(0)))}, 0)
    calibration, _ = calibrate_model(plain, table.parts["validation"])
    return dataclasses.replace(plain, calibration=calibration), plain


def output(capsys: Any, *args: Any) -> tuple[Any, str, str]:
    """The exit code of a command, and what it printed on stdout and stderr."""
    try:
        code = main([str(arg) for arg in args])
    except SystemExit as ended:  # the parser ends by itself
        code = ended.code
    return code, *capsys.readouterr()


_USE = """
import json, sys
sys.modules["fewstep"] = None  # an import of it would fail
sys.path.insert(0, sys.argv[1])
from load import Model
model = Model(sys.argv[1])
known, asked = json.loads(sys.argv[2])
made = model.answers(known, asked) if model.about["schema"] else model.adapt_and_predict(*known, asked).tolist()
print(json.dumps([made, len(model.predict(asked)) if not model.about["schema"] else 0]))
"""


def used(folder, known, asked):
    """What an exported model answers, in a process that cannot import fewstep."""
    told = subprocess.run(
        [sys.executable, "-P", "-c", _USE, str(folder), json.dumps([known, asked])],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    return json.loads(told.stdout)


def bars(number: int, turn: int = 0) -> np.ndarray:
    """A class that a small network can tell: stripes of its own width and brightness."""
    image = np.zeros((16, 16, 3), np.uint8)
    image[:, turn :: 2 + number % 4] = 60 + 9 * number
    return np.rot90(image) if number % 2 else image
