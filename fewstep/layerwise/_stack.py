"""The spectral network: layers one upon the other, each learned once."""

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fewstep._kernels import (
    Alignment,
    AnyArray,
    Labels,
    Rows,
    Solution,
    Waves,
    best_bandwidth,
    center,
    draw_waves,
    linear_alignment,
    random_features,
    silhouette,
    solve,
)
from fewstep.layerwise._history import STOPS, Ending, Record, Watch
from fewstep.layerwise._rows import Blocks, pad_rows


class SpectralLayer(NamedTuple):
    """A linear map, and the random features of a Gaussian kernel after it."""

    weight: Float[AnyArray, "d width"]
    waves: Waves
    sigma: Float[AnyArray, ""]


class StackOptions(NamedTuple):
    """What the user chose; see `SpectralLayerClassifier`."""

    max_layers: int
    features: int
    stop: str
    exact_rows: int
    kernel_features: int
    memory: float
    layer: "Choice"


class Choice(NamedTuple):
    """The options that the learning of one layer depends on."""

    bandwidth: str | float
    width: float | int
    balance: bool


class _Result(NamedTuple):
    layer: SpectralLayer
    features: Rows
    width: Int[Array, ""]
    solution: Solution
    alignment: Alignment
    silhouette: Float[Array, ""]


def project(layer: SpectralLayer, x: Rows) -> Float[AnyArray, "rows width"]:
    """The linear part of a layer."""
    return x @ layer.weight


def forward(layer: SpectralLayer, x: Rows) -> Float[Array, "rows features"]:
    """A whole layer."""
    return random_features(project(layer, x), layer.waves, layer.sigma)


def stack(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, options: StackOptions, watch: Watch
) -> tuple[list[SpectralLayer], list[Record], Ending]:
    """Layers until the rule ends it: the layers, their records, and why it ended."""
    rows, approximate = len(x), len(x) > options.exact_rows
    width = max(x.shape[1], options.features) + (labels.shape[1] * options.kernel_features if approximate else rows)
    below, labels, blocks, samples = pad_rows(x, labels, rng, width, options.exact_rows, options.memory)
    layers: list[SpectralLayer] = []
    history: list[Record] = []
    ending: Ending | None = None
    while ending is None:
        begin = time.perf_counter()
        of_kernel = draw_waves(rng, below.shape[1], options.kernel_features, x.dtype) if approximate else None
        of_layer = draw_waves(rng, below.shape[1], options.features, x.dtype)
        result = jax.block_until_ready(_learn(below, labels, (of_kernel, of_layer), samples, options.layer, blocks))
        below = result.features
        layers.append(_trim(result))
        history.append(_record(result, time.perf_counter() - begin))
        watch(len(history), history[-1])
        ending = STOPS[options.stop](history, options.max_layers)
    return layers, history, ending


@partial(jax.jit, static_argnames=("choice", "blocks"))
def _learn(
    x: Rows, labels: Labels, waves: tuple[Waves | None, Waves], samples: tuple[Array, Array], choice: Choice,
    blocks: Blocks,
) -> _Result:  # fmt: skip
    (of_kernel, of_layer), (few, many) = waves, samples
    x = x * jnp.sum(labels, 1, keepdims=True)  # the layer below does not map padding to zeros
    sigma = _bandwidth(x[few], center(labels[few], balance=choice.balance), choice.bandwidth)
    width = _width(x, labels.shape[1], choice.width)
    centered = center(labels, balance=choice.balance)
    solution = solve(x, centered, sigma, width, of_kernel, blocks.size)
    layer = SpectralLayer(solution.weight, of_layer, sigma)
    features = forward(layer, x)
    score = silhouette(project(layer, x[many]), labels[many], blocks.sample_size)
    return _Result(layer, features, width, solution, linear_alignment(features, labels), score)


def _bandwidth(x: Rows, centered: Labels, rule: str | float) -> Array:
    return best_bandwidth(x, centered) if rule == "hsic" else jnp.asarray(rule, x.dtype)


def _width(x: Rows, classes: int, rule: float | int) -> Int[Array, ""]:
    """Directions that hold this share of the singular values, but two per class if there are as many."""
    if isinstance(rule, int):
        return jnp.asarray(min(rule, x.shape[1]))
    values = jnp.sqrt(jnp.maximum(jnp.linalg.eigvalsh(x.T @ x)[::-1], 0))
    share = jnp.cumsum(values) / jnp.sum(values)
    return jnp.minimum(jnp.maximum(1 + jnp.sum(share < rule), 2 * classes), x.shape[1])


def _trim(result: _Result) -> SpectralLayer:
    """The layer without the columns that are zero, in arrays that keep their type wherever they are used."""
    width, layer = int(result.width), jax.tree.map(np.asarray, result.layer)
    return SpectralLayer(layer.weight[:, :width], Waves(layer.waves.omega[:width], layer.waves.phase), layer.sigma)


def _record(result: _Result, seconds: float) -> Record:
    return Record(
        float(result.alignment.normalized), float(result.alignment.cka), float(result.layer.sigma),
        int(result.width), float(result.silhouette), 0, int(result.solution.rounds), seconds,
    )  # fmt: skip
