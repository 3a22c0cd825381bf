"""The closed-form network: layers of class embeddings, one upon the other, until the dependence is near its best."""

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from fewstep.kernels._hsic import Labels, best_bandwidth
from fewstep.kernels._kernel import Rows, Waves, draw_waves
from fewstep.kernels._measure import centre, silhouette
from fewstep.layerwise._embedding import Embedding, Search, mistaken, search
from fewstep.layerwise._history import Record, Stopped, Watch
from fewstep.layerwise._rows import Cut, cut, padded
from fewstep.layerwise._stack import looks_at

START = 0.1  # the dependence that the first layer must pass, and the least bandwidth it starts from, as in the code


class Options(NamedTuple):
    """What the user chose; see `KernelEmbeddingClassifier`."""

    max_layers: int
    n_bandwidths: int
    smallest_bandwidth: float
    enough: float
    exact_rows: int
    kernel_features: int
    memory: float


def pile(
    x: np.ndarray, labels: np.ndarray, rng: np.random.Generator, options: Options, watch: Watch
) -> tuple[list[Embedding], list[Record], Stopped]:
    """Layers until the dependence is enough or no bandwidth raises it: the layers, their records, and why it ended."""
    rows, rough = len(x), len(x) > options.exact_rows
    across = max(x.shape[1], options.kernel_features if rough else rows)
    parts = cut(rows, across, options.memory, x.dtype.itemsize)
    labels, here = padded(labels, parts.rows), padded(x, parts.rows)
    layers: list[Embedding] = []
    history: list[Record] = []
    wrong, least, start = np.zeros_like(labels), START, None
    while True:
        begin = time.perf_counter()
        looks = looks_at(rng, rows, parts.rows, options.exact_rows)
        start = _start(here, labels, looks[0]) if start is None else start
        sigmas = np.geomspace(start, min(options.smallest_bandwidth, start), options.n_bandwidths).astype(x.dtype)
        waves = draw_waves(rng, here.shape[1], options.kernel_features, x.dtype) if rough else None
        found, layer, worth = jax.block_until_ready(
            _learn(here, labels, wrong, waves, sigmas, least, looks, options, parts)
        )
        if not bool(found.raised) and layers:
            return layers, history, Stopped(False, f"none of {len(sigmas)} bandwidths raises HSIC above {least:.3f}")
        layers.append(_kept(layer, rows, labels.shape[1], len(layers)))
        history.append(_record(found, layers[-1], worth, time.perf_counter() - begin))
        watch(len(history), history[-1])
        if stopped := _stopped(history, options):
            return layers, history, stopped
        here, least, start = found.made, history[-1].hsic, float(found.judged)
        wrong = np.asarray(mistaken(here, labels))


def _stopped(history: list[Record], options: Options) -> Stopped | None:
    now = history[-1].hsic
    if now > options.enough:
        return Stopped(True, f"normalised HSIC {now:.3f} is above {options.enough:g}")
    if len(history) >= options.max_layers:
        return Stopped(False, f"max_layers={options.max_layers} reached")
    return None


@jax.jit
def _first(x: Rows, centred: Labels) -> Float[Array, ""]:
    return best_bandwidth(x, centred)


def _start(x: np.ndarray, labels: np.ndarray, few: np.ndarray) -> float:
    return max(float(_first(x[few], np.asarray(centre(labels))[few])), START)


@partial(jax.jit, static_argnames=("options", "parts"))
def _learn(
    x: Rows, labels: Labels, wrong: Labels, waves: Waves | None, sigmas: Array, least: Array,
    looks: tuple[Array, Array], options: Options, parts: Cut,
) -> tuple[Search, Embedding, Array]:  # fmt: skip
    found, layer = search(x, labels, wrong, waves, sigmas, least, looks, parts.size)
    some = looks[1]
    return found, layer, silhouette(found.made[some], labels[some], some.size)


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
        float(found.alignment.normalised), float(found.alignment.cka), float(layer.sigma), layer.shares.shape[1],
        float(worth), int(found.place), 0, seconds,
    )  # fmt: skip
