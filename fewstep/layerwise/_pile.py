"""The closed-form network: layers of class embeddings, one upon the other, until the dependence is near its best."""

import time
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from fewstep._kernels import Labels, Rows, Waves, best_bandwidth, center, draw_waves, silhouette
from fewstep.layerwise._embedding import Embedding, Search, mistakes, search
from fewstep.layerwise._history import Ending, Record, Watch, by_hsic, by_silhouette
from fewstep.layerwise._rows import Blocks, pad_rows

START = 0.1  # the dependence that the first layer must pass, and the smallest bandwidth it starts from, as in the code


class EmbeddingOptions(NamedTuple):
    """What the user chose; see `KernelEmbeddingClassifier`."""

    max_layers: int
    n_bandwidths: int
    smallest_bandwidth: float
    enough: float
    bandwidth: str | float
    stop: str
    exact_rows: int
    kernel_features: int
    memory: float


def stack_embeddings(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, options: EmbeddingOptions, watch: Watch
) -> tuple[list[Embedding], list[Record], Ending]:
    """Layers until the dependence is enough or no bandwidth raises it: the layers, their records, and why it ended."""
    rows, approximate = len(x), len(x) > options.exact_rows
    width = max(x.shape[1], options.kernel_features if approximate else rows)
    below, labels, blocks, samples = pad_rows(x, labels, rng, width, options.exact_rows, options.memory)
    layers: list[Embedding] = []
    history: list[Record] = []
    wrong, min_hsic, start = np.zeros_like(labels), START, _start(below, labels, samples[0])
    while True:
        begin = time.perf_counter()
        sigmas = _bandwidths(start, options).astype(x.dtype)
        waves = draw_waves(rng, below.shape[1], options.kernel_features, x.dtype) if approximate else None
        outputs = _learn(below, labels, wrong, waves, sigmas, min_hsic, samples, blocks)
        result, layer, score = jax.block_until_ready(outputs)
        if not bool(result.improved) and layers:
            why = f"none of {len(sigmas)} bandwidths raises HSIC above {min_hsic:.3f}"
            return layers, history, Ending(False, why, len(sigmas))
        layers.append(_trim(layer, rows, labels.shape[1], len(layers)))
        history.append(_record(result, layers[-1], score, time.perf_counter() - begin))
        watch(len(history), history[-1])
        if ending := _ending(history, options):
            return layers, history, ending
        below, min_hsic, start = result.features, history[-1].hsic, float(result.bandwidth)
        wrong = np.asarray(mistakes(below, labels))


def _bandwidths(start: float, options: EmbeddingOptions) -> np.ndarray:
    """The bandwidths to try, the first that raises the dependence is taken."""
    if options.bandwidth != "hsic":
        return np.asarray([options.bandwidth])
    end = options.smallest_bandwidth
    return np.geomspace(start, end, options.n_bandwidths) if start > end else np.asarray([start])


def _ending(history: list[Record], options: EmbeddingOptions) -> Ending | None:
    if options.stop == "silhouette":
        return by_silhouette(history, options.max_layers)
    return by_hsic(history, options.max_layers, options.enough)


@jax.jit
def _first(x: Rows, centered: Labels) -> Float[Array, ""]:
    return best_bandwidth(x, centered)


def _start(x: np.ndarray, labels: np.ndarray, few: np.ndarray) -> float:
    return max(float(_first(x[few], center(labels[few]))), START)


@partial(jax.jit, static_argnames="blocks")
def _learn(
    x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigmas: Array, min_hsic: Array,
    samples: tuple[Array, Array], blocks: Blocks,
) -> tuple[Search, Embedding, Array]:  # fmt: skip
    result, layer = search(x, labels, wrong, waves, sigmas, min_hsic, samples, blocks)
    many = samples[1]
    return result, layer, silhouette(result.features[many], labels[many], blocks.sample_size)


def _trim(layer: Embedding, rows: int, classes: int, number: int) -> Embedding:
    """The layer without padding, in arrays that keep their type wherever they are used.

    The first layer has no mistakes below it, so its columns for them, and what the second makes of these, are zero.
    """
    arrays: Embedding = jax.tree.map(np.asarray, layer)
    out = classes if number == 0 else 2 * classes
    width = classes if number == 1 else None
    if arrays.waves is not None:
        waves = Waves(arrays.waves.omega[:width], arrays.waves.phase)
        return arrays._replace(shares=arrays.shares[:, :out], waves=waves)
    return arrays._replace(rows=np.asarray(arrays.rows)[:rows, :width], shares=arrays.shares[:rows, :out])


def _record(result: Search, layer: Embedding, score: Array, seconds: float) -> Record:
    return Record(
        float(result.alignment.normalized), float(result.alignment.cka), float(layer.sigma), layer.shares.shape[1],
        float(score), int(result.place) + (not bool(result.improved)), 0, seconds,
    )  # fmt: skip
