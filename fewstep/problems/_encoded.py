"""Encoded rows: what images and texts share behind a pretrained encoder. Their tasks, their features, their network."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from fewstep import data, losses
from fewstep._episode import Tasks
from fewstep._errors import FewstepError
from fewstep._network import Layer, Leaf, Network
from fewstep.data import RowSet
from fewstep.encoders import Encoder, Item, encode_all, factory_of, find_encoder
from fewstep.networks.mlp import dense
from fewstep.problems._kind import Facts, Kind, Problem
from fewstep.problems._options import Options, Value, Values, from_signature, option
from fewstep.problems._own import LOSS_HELP, NETWORK_HELP, USUAL, find_loss, own_network
from fewstep.tasks import all_encoded, encoded

ENCODER_HELP = (
    "Pretrained encoder whose features are learned from: efficientnet-lite0 (images), minilm-l6 (text), "
    "safetensors:FILE, onnx:FILE, or FILE.py:FUNCTION of yours. Its own options are listed with it."
)
MEMBERS = ("metric", "prototypes", "ridge", "mtnet")  # of which `auto` keeps the best
_PREFIX = "encoder_"  # of an encoder's own options
_OF_CENTER = 2000  # rows that the center of the features is taken from, where blocks must run for it
_WITHOUT_MAP = ("metric", "logistic")
_SCALES = {"metric": 8.0, "logistic": 8.0, "prototypes": 2.5, "matching": 2.5, "ridge": 35.0}
_PLAIN = 8.0  # length of the features that baselines see
_LENGTH = 8.0  # of features in tasks of 5 ways: a step makes logits of its square over the ways


@dataclasses.dataclass(frozen=True)
class Encoded:
    """The options of tasks made of encoded rows."""

    shots: int = option(1, "Examples of each class that are learned from.", min=1)
    queries: int = option(5, "Examples of each class that a task is evaluated on.", min=1)
    ways: int = option(5, "Classes of a task.", min=2)
    validation_ways: int = option(5, "Classes of a validation task.", min=2)
    encoder: str = option("", ENCODER_HELP)
    encoder_depth: int = option(0, "Last blocks of the encoder that are adapted too; 0: all of it is frozen.", min=0)
    per_class: int = option(0, "Encode at most so many examples of each class, drawn once; 0: all.", min=0)
    center: tuple[float, ...] = option((), "Mean of the features of the training classes.", hidden=True)


@dataclasses.dataclass(frozen=True)
class FeatureNetwork:
    """The options of what comes after the encoder: a linear map of the features, and a last layer."""

    network: str = option("features", NETWORK_HELP)
    loss: str = option(USUAL, LOSS_HELP)
    map: bool = option(True, "Learn a linear map of the features, which starts as the identity.")
    scale: float = option(5.0, "Length of the features, where it begins; it is meta-learned.", min=0.0)


class EncodedDetails(NamedTuple):
    """What reads a user's items, the items themselves, and the features before any training with their number."""

    options: Options
    encoder: Encoder
    items: "Items"
    features: Callable[[], tuple[Network, int]]


class Items(NamedTuple):
    """Where the items of an encoded kind come from: `load(split)` gives them by class; `what` they are called; whether
    they are `here`, so that nothing need be downloaded for them."""

    load: Callable[[str], Mapping[str, Sequence[Item]]]
    modality: Literal["image", "text"]
    what: str
    here: Callable[[], bool]


def behind(kind: Kind, encoder: str) -> Kind:
    """The kind with the options of an encoder by name beside its own, such as `encoder_size`."""
    return dataclasses.replace(kind, options=lambda tasks: _with_own(kind.options(tasks), encoder))


def _with_own(group: type, encoder: str) -> type:
    """The group with the options of the encoder's factory, in place of those of the same name."""
    own = dataclasses.fields(from_signature(encoder, factory_of(encoder), skip=("depth",)))
    fields = [(_PREFIX + field.name, field.type, field) for field in own]
    return dataclasses.make_dataclass(group.__name__, fields, bases=(group,), frozen=True)


def encoder_of(options: Options, modality: str) -> Encoder:
    """The encoder that the options name, with its own options, checked to take such items."""
    takes = [name for name in inspect.signature(factory_of(options.encoder)).parameters if name != "depth"]
    given = {name: getattr(options, _PREFIX + name) for name in takes if hasattr(options, _PREFIX + name)}
    own = tuple(given.items())
    encoder = _find(options.encoder, options.encoder_depth, own)
    if encoder.modality != modality:
        names = {"image": "efficientnet-lite0", "text": "minilm-l6"}
        raise FewstepError(
            f"The encoder {options.encoder} takes {encoder.modality}s, and the tasks are made of {modality}s. Use one "
            f"for {modality}s, such as `encoder={names[modality]!r}`."
        )
    return encoder


@lru_cache(maxsize=4)
def _find(name: str, depth: int, more: tuple[tuple[str, Value], ...]) -> Encoder:
    return find_encoder(name, depth=depth, **dict(more))


def encoded_defaults(method: str, given: Values) -> dict[str, Value]:
    """Defaults of other options: trainings on features are short."""
    usual: dict[str, Value] = {
        "steps": 1000, "meta_batch": 4, "outer_lr": 1e-4, "schedule": "cosine", "validation_tasks": 200, "queries": 10,
        "validation_ways": given.get("ways", Encoded.ways), "inner_lr": 1.0, "keep": "best",
        "map": method not in _WITHOUT_MAP,
        "scale": _SCALES.get(method, _LENGTH * (given.get("ways", Encoded.ways) / Encoded.ways) ** 0.5),
    }  # fmt: skip
    every = max(1, given.get("steps", usual["steps"]) // 10)
    return usual | {"log_every": min(100, every), "validate_every": every}


def encoded_problem(encoder: Encoder, items: Items, options: Options, network: Options) -> Problem:
    """The problem of tasks that draw classes of encoded items."""
    load = lru_cache(partial(_rows, encoder, items, options.per_class))
    center = lru_cache(lambda: np.asarray(options.center or mean_features(encoder, load("train")), np.float32))

    def make(shots: int, queries: int, split: str = "train", ways: int | None = None) -> Tasks:
        return encoded(load(split), shots, queries, ways=ways or options.ways, what=items.what)

    def fit(outputs: int | None = None, norm: str | None = None) -> Network:
        if network.network != "features":
            return own_network(network.network, jnp.zeros((2, *encoder.shape)), outputs or options.ways)
        return feature_network(encoder, center(), outputs, mapped=network.map, scale=network.scale)

    def features() -> tuple[Network, int]:
        return feature_network(encoder, center(), None, mapped=False, scale=_PLAIN), _width(encoder)

    def labeled() -> tuple[np.ndarray, np.ndarray]:
        of, plain = load("train"), feature_network(encoder, center(), None, mapped=False, scale=1.0)
        rows = np.concatenate([np.asarray(part) for part in _applied(plain, of.rows)])
        return rows, np.repeat(np.arange(len(of.names)), of.counts)

    return Problem(
        make, fit, find_loss(network.loss, options.ways, classes=True), losses.accuracy, "accuracy",
        losses.error_rate, encoder.shape, options.ways, classes=True, ways=options.ways, splits=True,
        labeled=labeled if network.network == "features" else None, rejects=True, digits=4,
        n_classes=lambda: len(load("train").names), all_classes=lambda: all_encoded(load("train")),
        details=EncodedDetails(options, encoder, items, features),
    )  # fmt: skip


def describe_encoded(problem: Problem) -> Facts:
    """What the card of an exported model has to say: its functions take features."""
    options, encoder, items, _ = problem.details
    name = Path(encoder.name).name  # where it lies is nobody's business
    return {"card": [
        f"Tasks of {items.what} behind the encoder `{name}`, {options.shots} shots.",
        f"x are not {items.what} but what the encoder gives for them, rows of shape {encoder.shape}: "
        f"`encode_all(find_encoder({name!r}), items)` of `fewstep.encoders`, with the encoder's options as below.",
    ]}  # fmt: skip


def problem_of_items(options: Options, network: Options, items: Items) -> tuple[Problem, tuple[float, ...]]:
    """The problem of items at hand, and the center of their features, which is one of its options."""
    encoder = encoder_of(options, items.modality)
    options = pin_center(encoder, items, options)
    return encoded_problem(encoder, items, options, network), options.center


def _rows(encoder: Encoder, items: Items, per_class: int, split: str) -> RowSet:
    """The encoded items of a split."""
    some = {name: _chosen(of_class, per_class) for name, of_class in items.load(split).items()}
    rows = encode_all(encoder, [item for of_class in some.values() for item in of_class])
    ends = np.cumsum([len(of_class) for of_class in some.values()])
    return data.make_rows(dict(zip(some, np.split(rows, ends[:-1]), strict=True)))


def _chosen(items: Sequence[Item], most: int) -> Sequence[Item]:
    if not most or len(items) <= most:
        return items
    return [items[number] for number in np.sort(np.random.default_rng(0).permutation(len(items))[:most])]


def mean_features(encoder: Encoder, of: RowSet) -> tuple[float, ...]:
    """The mean of the features, after their root where it is taken."""
    tail = encoder.tail(None)
    rows = of.rows
    if jax.tree.leaves(jax.eval_shape(tail.init, jax.random.key(0))):
        rows = rows[:: max(1, len(rows) // _OF_CENTER)]
    total = sum(np.asarray(_rooted(encoder, part)).sum(0) for part in _applied(tail, rows))
    return tuple(round(float(number), 6) for number in total / len(rows))


def _applied(network: Network, rows: np.ndarray) -> Iterator[Array]:
    """What a network that was not trained gives of rows, some at a time."""
    params = network.init(jax.random.key(0))
    for part in np.array_split(rows, max(1, len(rows) // 100)):
        yield network.apply(params, (), jnp.asarray(part), jnp.ones(len(part)))[0]


def pin_center(encoder: Encoder, items: Items, options: Options) -> Options:
    """The options with the center of the training classes' features, which is kept with the run."""
    return dataclasses.replace(
        options, center=mean_features(encoder, _rows(encoder, items, options.per_class, "train"))
    )


def _rooted(encoder: Encoder, raw: Array) -> Array:
    """Features of images are averages of many positive units, a few of them large: their root is nearer to normal."""
    if encoder.modality != "image":
        return raw
    return jnp.sign(raw) * jnp.sqrt(jnp.maximum(jnp.abs(raw), 1e-12))


def feature_network(
    encoder: Encoder, center: np.ndarray, outputs: int | None, *, mapped: bool = True, scale: float = 5.0
) -> Network:
    """The encoder's tail, its features centered and of one length, a linear map, and a last layer that starts at 0.

    **Arguments:** the `center` of the features, empty for none; `outputs`, or `None` for features.
    """
    tail, width = encoder.tail(None), _width(encoder)
    own = {"scale": 1, **({"map": width} if mapped else {}), **({"last": outputs} if outputs else {})}

    def init(key: Key[Array, ""]) -> PyTree:
        parts: dict[str, PyTree] = {"scale": {"log": jnp.full(1, np.log(scale), jnp.float32)}}
        if mapped:
            parts["map"] = {"kernel": jnp.eye(width), "bias": jnp.zeros(width)}
        if outputs:
            parts["last"] = {"kernel": jnp.zeros((width, outputs)), "bias": jnp.zeros(outputs)}
        return {**tail.init(key), **parts}

    def apply(params: PyTree, state: PyTree, x: Array, weight: Array) -> tuple[Array, PyTree]:
        rest = {name: part for name, part in params.items() if name not in own}
        raw, state = tail.apply(rest, state, x, weight)
        rows = _rooted(encoder, raw)
        rows = _unit(rows - jnp.asarray(center, rows.dtype)[None] if len(center) else rows)
        rows = _unit(dense(params["map"], rows)) if mapped else rows
        rows = rows * jnp.exp(params["scale"]["log"])[None]
        return dense(params["last"], rows) if outputs else rows, state

    leaves = lambda name: (Leaf(f"{name}/kernel", (1,)), Leaf(f"{name}/bias", (0,)))
    skips = {"last": "starts at zero: a mask would silence half of the classes"}
    linear = [
        Layer(name, size, leaves(name), literal=True, skip=skips.get(name, ""))
        for name, size in own.items() if name != "scale"
    ]  # fmt: skip
    factor = Layer("scale", 1, (Leaf("scale/log", (0,)),), skip="a number, not a layer")
    return Network(init, apply, (*tail.layers, factor, *linear), (*tail.frozen, "scale/log"))


def _width(encoder: Encoder) -> int:
    """The number of features."""
    tail = encoder.tail(None)
    row = jnp.zeros((1, *encoder.shape))
    return jax.eval_shape(lambda: tail.apply(tail.init(jax.random.key(0)), (), row, jnp.ones(1))[0]).shape[1]


def _unit(rows: Array) -> Array:
    return rows * jax.lax.rsqrt(jnp.sum(jnp.square(rows), axis=1, keepdims=True) + 1e-12)
