"""The spectral network: layers one upon the other, each learned once and kept."""

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fewstep._kernels._hsic import Labels, best_bandwidth
from fewstep._kernels._kernel import Held, Rows, Waves, draw_waves, random_features
from fewstep._kernels._measure import Alignment, center, linear_alignment, silhouette
from fewstep._kernels._spectral import Found, solve
from fewstep.layerwise._history import STOPS, Record, Stopped, Watch
from fewstep.layerwise._rows import Cut, hold


class Layer(NamedTuple):
    """A linear map, and the random features of a Gaussian kernel after it."""

    weight: Float[Held, "d width"]
    waves: Waves
    sigma: Float[Held, ""]


class Options(NamedTuple):
    """What the user chose; see `SpectralLayerClassifier`."""

    max_layers: int
    features: int
    stop: str
    exact_rows: int
    kernel_features: int
    memory: float
    layer: "Choice"


class Choice(NamedTuple):
    """Of these, what the learning of one layer depends on."""

    bandwidth: str | float
    width: float | int
    balance: bool


class _Learned(NamedTuple):
    layer: Layer
    features: Rows
    width: Int[Array, ""]
    found: Found
    alignment: Alignment
    silhouette: Float[Array, ""]


def project(layer: Layer, x: Rows) -> Float[Held, "rows width"]:
    """The linear part of a layer."""
    return x @ layer.weight


def forward(layer: Layer, x: Rows) -> Float[Array, "rows features"]:
    """A whole layer."""
    return random_features(project(layer, x), layer.waves, layer.sigma)


def stack(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, options: Options, watch: Watch
) -> tuple[list[Layer], list[Record], Stopped]:
    """Layers until the rule ends it: the layers, their records, and why it ended."""
    rows, rough = len(x), len(x) > options.exact_rows
    across = max(x.shape[1], options.features) + (labels.shape[1] * options.kernel_features if rough else rows)
    here, labels, parts, looks = hold(x, labels, rng, across, options.exact_rows, options.memory)
    layers: list[Layer] = []
    history: list[Record] = []
    stopped: Stopped | None = None
    while stopped is None:
        begin = time.perf_counter()
        of_kernel = draw_waves(rng, here.shape[1], options.kernel_features, x.dtype) if rough else None
        of_layer = draw_waves(rng, here.shape[1], options.features, x.dtype)
        learned = jax.block_until_ready(_learn(here, labels, (of_kernel, of_layer), looks, options.layer, parts))
        here = learned.features
        layers.append(_trimmed(learned))
        history.append(_record(learned, time.perf_counter() - begin))
        watch(len(history), history[-1])
        stopped = STOPS[options.stop](history, options.max_layers)
    return layers, history, stopped


@partial(jax.jit, static_argnames=("choice", "parts"))
def _learn(
    x: Rows, labels: Labels, waves: tuple[Waves | None, Waves], looks: tuple[Array, Array], choice: Choice, parts: Cut
) -> _Learned:
    (of_kernel, of_layer), (few, some) = waves, looks
    x = x * jnp.sum(labels, 1, keepdims=True)  # what the layer below made of padding has no say
    sigma = _bandwidth(x[few], center(labels[few], balance=choice.balance), choice.bandwidth)
    width = _width(x, labels.shape[1], choice.width)
    centered = center(labels, balance=choice.balance)
    found = solve(x, centered, sigma, width, of_kernel, parts.size)
    layer = Layer(found.weight, of_layer, sigma)
    features = forward(layer, x)
    worth = silhouette(project(layer, x[some]), labels[some], parts.look)
    return _Learned(layer, features, width, found, linear_alignment(features, labels), worth)


def _bandwidth(x: Rows, centered: Labels, rule: str | float) -> Array:
    return best_bandwidth(x, centered) if rule == "hsic" else jnp.asarray(rule, x.dtype)


def _width(x: Rows, classes: int, rule: float | int) -> Int[Array, ""]:
    """Directions that hold this share of the singular values, but two a class if there are as many."""
    if isinstance(rule, int):
        return jnp.asarray(min(rule, x.shape[1]))
    values = jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(x.T @ x)[::-1], 0))
    share = jnp.cumsum(values) / jnp.sum(values)
    return jnp.minimum(jnp.maximum(1 + jnp.sum(share < rule), 2 * classes), x.shape[1])


def _trimmed(learned: _Learned) -> Layer:
    """The layer without the columns that are zero, in arrays that keep their type wherever they are used."""
    width, layer = int(learned.width), jax.tree.map(np.asarray, learned.layer)
    return Layer(layer.weight[:, :width], Waves(layer.waves.omega[:width], layer.waves.phase), layer.sigma)


def _record(learned: _Learned, seconds: float) -> Record:
    return Record(
        float(learned.alignment.normalized), float(learned.alignment.cka), float(learned.layer.sigma),
        int(learned.width), float(learned.silhouette), 0, int(learned.found.rounds), seconds,
    )  # fmt: skip
