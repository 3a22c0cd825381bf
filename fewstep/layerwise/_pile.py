"""The closed-form network: layers of class embeddings, one upon the other, until the dependence is near its best."""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from fewstep._kernels._hsic import Labels, best_bandwidth
from fewstep._kernels._kernel import Rows, Waves, draw_waves
from fewstep._kernels._measure import center, silhouette
from fewstep.layerwise._embedding import Embedding, Search, mistaken, search
from fewstep.layerwise._history import Record, Stopped, Watch, by_hsic, by_silhouette
from fewstep.layerwise._rows import Cut, hold

START = 0.1  # the dependence that the first layer must pass, and the least bandwidth it starts from, as in the code


class Options(NamedTuple):
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


def pile(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, options: Options, watch: Watch
) -> tuple[list[Embedding], list[Record], Stopped]:
    """Layers until the dependence is enough or no bandwidth raises it: the layers, their records, and why it ended."""
    rows, rough = len(x), len(x) > options.exact_rows
    across = max(x.shape[1], options.kernel_features if rough else rows)
    here, labels, parts, looks = hold(x, labels, rng, across, options.exact_rows, options.memory)
    layers: list[Embedding] = []
    history: list[Record] = []
    wrong, least, start = np.zeros_like(labels), START, _start(here, labels, looks[0])
    while True:
        begin = time.perf_counter()
        sigmas = _falling(start, options).astype(x.dtype)
        waves = draw_waves(rng, here.shape[1], options.kernel_features, x.dtype) if rough else None
        found, layer, worth = jax.block_until_ready(_learn(here, labels, wrong, waves, sigmas, least, looks, parts))
        if not bool(found.raised) and layers:
            why = f"none of {len(sigmas)} bandwidths raises HSIC above {least:.3f}"
            return layers, history, Stopped(False, why, len(sigmas))
        layers.append(_kept(layer, rows, labels.shape[1], len(layers)))
        history.append(_record(found, layers[-1], worth, time.perf_counter() - begin))
        watch(len(history), history[-1])
        if stopped := _stopped(history, options):
            return layers, history, stopped
        here, least, start = found.made, history[-1].hsic, float(found.judged)
        wrong = np.asarray(mistaken(here, labels))


def _falling(start: float, options: Options) -> np.ndarray:
    """The bandwidths to try, the first that raises the dependence is taken."""
    if options.bandwidth != "hsic":
        return np.asarray([options.bandwidth])
    least = options.smallest_bandwidth
    return np.geomspace(start, least, options.n_bandwidths) if start > least else np.asarray([start])


def _stopped(history: list[Record], options: Options) -> Stopped | None:
    if options.stop == "silhouette":
        return by_silhouette(history, options.max_layers)
    return by_hsic(history, options.max_layers, options.enough)


@jax.jit
def _first(x: Rows, centered: Labels) -> Float[Array, ""]:
    return best_bandwidth(x, centered)


def _start(x: np.ndarray, labels: np.ndarray, few: np.ndarray) -> float:
    return max(float(_first(x[few], center(labels[few]))), START)


@partial(jax.jit, static_argnames="parts")
def _learn(
    x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigmas: Array, least: Array,
    looks: tuple[Array, Array], parts: Cut,
) -> tuple[Search, Embedding, Array]:  # fmt: skip
    found, layer = search(x, labels, wrong, waves, sigmas, least, looks, parts)
    some = looks[1]
    return found, layer, silhouette(found.made[some], labels[some], parts.look)


def _kept(layer: Embedding, rows: int, classes: int, below: int) -> Embedding:
    """The layer without padding, in arrays that keep their type wherever they are used.

    The first layer has no mistakes below it, so its columns for them, and what the second makes of these, are zero.
    """
    whole: Any = jax.tree.map(np.asarray, layer)
    out = classes if below == 0 else 2 * classes
    across = classes if below == 1 else None
    if layer.waves is not None:
        waves = Waves(whole.waves.omega[:across], whole.waves.phase)
        return whole._replace(shares=whole.shares[:, :out], waves=waves)
    return whole._replace(rows=whole.rows[:rows, :across], shares=whole.shares[:rows, :out])


def _record(found: Search, layer: Embedding, worth: Array, seconds: float) -> Record:
    return Record(
        float(found.alignment.normalized), float(found.alignment.cka), float(layer.sigma), layer.shares.shape[1],
        float(worth), int(found.place) + (not bool(found.raised)), 0, seconds,
    )  # fmt: skip
