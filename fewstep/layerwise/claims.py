r"""What the poster claims, as numbers that can be looked at: each function fits or takes a network and measures.

Theorem 1, Claim 1   `rising`: the search for bandwidths, what it refuses, how near it comes, where it stalls
Theorem 2, Claims 2, 3 and the corollaries   `by_layer`: scatter, kernel, squares and cross entropy layer by layer
Claim 4   `slope_at_embedding`: the gradient at W_s is not zero
Claim 5   `fixed_point`: the eigenvalue equation at W*, and orthonormal columns; `depths`: the layers of W* and of W_s
Claim 6   `penalty`: equations 10 and 11, with the square that they lack

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.linear_model import LogisticRegression

from fewstep._kernels import (
    Labels,
    alignment,
    best_bandwidth,
    center,
    draw_waves,
    gaussian,
    hsic,
    matrix_of,
    one_hot,
    random_features,
    residual,
    trace_ratio,
)
from fewstep.layerwise._checks import check_targets
from fewstep.layerwise._classifier import LayerwiseClassifier
from fewstep.layerwise._stack import SpectralLayer
from fewstep.layerwise.embedding import KernelEmbeddingClassifier
from fewstep.layerwise.spectral import SpectralLayerClassifier

_FEATURES = 512  # that stand for the kernel's space where a weight in it is differentiated


class Rise(NamedTuple):
    """The search of Theorem 1: the dependence after each layer, bandwidths refused for each and by the last search,
    after which no layer was added, and how it ended."""

    dependence: list[float]
    refused: list[int]
    refused_at_the_end: int
    converged: bool
    why: str


class Figures(NamedTuple):
    """After a layer: dependence (H*), the bandwidth it is taken at, scatter trace ratio T, squares about the class
    means as a share of all (T / (1 + T)), cross entropy of a logistic regression, and how far the kernel is from ones
    and zeros."""

    dependence: float
    bandwidth: float
    scatter: float
    squares: float
    entropy: float
    from_blocks: float


class Depths(NamedTuple):
    """How many layers each network ended with."""

    spectral: int
    embedding: int


class Penalty(NamedTuple):
    """Equation 11 at a weight: `attraction` less `penalty` is `trace`; `gap` is how far from it, relative.

    `slope_gap`: how far the gradient of HSIC is from 2 / sigma^2 Q W, relative. `weights` are the D_i, sums over all
    rows; `printed_gap` is the gap with those of equation 10, which takes all of Gamma between classes as negative. With
    three or more classes of unequal size it is not.
    """

    attraction: float
    penalty: float
    trace: float
    gap: float
    slope_gap: float
    printed_gap: float
    weights: np.ndarray


def rising(X: np.ndarray, y: np.ndarray, **options: Any) -> Rise:
    """Fits W_s. Accepted layers rise by construction; the record shows the rest."""
    return rise_of(KernelEmbeddingClassifier(calibrate=False, **options).fit(X, y))


def rise_of(model: KernelEmbeddingClassifier) -> Rise:
    """The same for a fitted network."""
    return Rise(
        [record.hsic for record in model.history_], [record.refused for record in model.history_], model.refused_,
        model.converged_, model.stopped_,
    )  # fmt: skip


def by_layer(model: LayerwiseClassifier, X: np.ndarray, y: np.ndarray) -> list[Figures]:
    """The figures after each layer of a fitted network, on rows and labels such as it was fitted to."""
    return [_figures(features, codes) for features, codes in _layers(model, X, y)]


def kernels(model: LayerwiseClassifier, X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """The kernel after each layer, rows sorted by class: it should become blocks of ones."""
    results = []
    for features, codes in _layers(model, X, y):
        order = np.argsort(codes, kind="stable")
        results.append(_kernel(features[order], codes[order])[0])
    return results


def slope_at_embedding(X: np.ndarray, y: np.ndarray, seed: int = 0) -> dict[str, float]:
    """Claim 4, in the space of random features: `slope`, the size of the gradient of HSIC at W_s against HSIC over the
    size of W_s; `residual`, how far W_s, made orthonormal, is from the eigenvalue equation (0 at an optimum)."""
    rows, labels = _standard(X, y)
    with jax.enable_x64(True):
        centered = center(labels)
        waves = draw_waves(np.random.default_rng(seed), rows.shape[1], _FEATURES, rows.dtype)
        r = random_features(rows, waves, best_bandwidth(rows, centered))
        weight = r.T @ labels
        weight = weight / jnp.linalg.norm(weight, axis=0)[None]
        sigma = best_bandwidth(r @ weight, centered)
        value, slope = jax.value_and_grad(lambda w: hsic(r @ w, centered, sigma, len(r)))(weight)
        orthonormal = np.linalg.qr(np.asarray(weight))[0]
        matrix, _ = matrix_of(r, centered, sigma, None, len(r))(jnp.asarray(orthonormal))
        relative = jnp.linalg.norm(slope) * jnp.linalg.norm(weight) / jnp.abs(value)
        return {"slope": float(relative), "residual": float(residual(matrix, jnp.asarray(orthonormal)))}


def fixed_point(model: SpectralLayerClassifier, X: np.ndarray, y: np.ndarray) -> list[dict[str, float]]:
    """Claim 5 at each layer: `residual` of the eigenvalue equation, and how far W^T W is from I."""
    results = []
    with jax.enable_x64(True):
        for below, labels, layer in _spectral_layers(model, X, y):
            weight = jnp.asarray(layer.weight)
            centered = center(labels, balance=model.balance)
            matrix, _ = matrix_of(below, centered, layer.sigma, None, len(below))(weight)
            gap = jnp.linalg.norm(weight.T @ weight - jnp.eye(weight.shape[1]))
            results.append({"residual": float(residual(matrix, weight)), "not_orthonormal": float(gap)})
    return results


def depths(spectral: SpectralLayerClassifier, embedding: KernelEmbeddingClassifier) -> Depths:
    """Claim 5 on the layers of two networks fitted to the same rows: W* is said to need fewer. Often it does not."""
    return Depths(spectral.n_layers_, embedding.n_layers_)


def penalty(model: SpectralLayerClassifier, X: np.ndarray, y: np.ndarray) -> list[Penalty]:
    """Claim 6 at each layer: sum_ij G_ij <W'r_i, W'r_j> / sigma^2 - sum_i D_i |W'r_i|^2 = Tr(W' Q W) / sigma^2."""
    with jax.enable_x64(True):
        return [_penalty(below, labels, layer, model.balance) for below, labels, layer in _spectral_layers(model, X, y)]


def _penalty(below: jax.Array, labels: Labels, layer: SpectralLayer, balance: bool) -> Penalty:
    centered, weight, square = center(labels, balance=balance), jnp.asarray(layer.weight), layer.sigma**2
    projection = below @ weight
    hats = (centered @ centered.T) * gaussian(projection, projection, layer.sigma)
    same, lengths = (labels @ labels.T) > 0, jnp.sum(projection**2, 1)
    weights = jnp.sum(hats, 1) / square
    printed = (jnp.sum(jnp.where(same, hats, 0), 1) - jnp.sum(jnp.where(same, 0, jnp.abs(hats)), 1)) / square
    attraction = jnp.sum(hats * (projection @ projection.T)) / square
    cost = jnp.sum(weights * lengths)
    minus_q, _ = matrix_of(below, centered, layer.sigma, None, len(below))(weight)
    trace = -jnp.trace(weight.T @ minus_q @ weight) / square
    slope = jax.grad(lambda w: hsic(below @ w, centered, layer.sigma, len(below)))(weight)
    expected = -2 / square * minus_q @ weight
    scale = jnp.abs(attraction) + jnp.abs(cost)
    gap = lambda factors: jnp.abs(attraction - jnp.sum(factors * lengths) - trace) / scale
    slope_gap = jnp.linalg.norm(slope - expected) / jnp.linalg.norm(expected)
    numbers = [float(value) for value in (attraction, cost, trace, gap(weights), slope_gap, gap(printed))]
    return Penalty._make([*numbers, np.asarray(weights)])


def _figures(features: np.ndarray, codes: np.ndarray) -> Figures:
    with jax.enable_x64(True):
        z, labels = jnp.asarray(features, jnp.float64), one_hot(codes)
        gram, sigma = _kernel(features, codes)
        score = alignment(lambda a, b: gaussian(a, b, sigma), z, labels, len(z)).normalized
        scatter = float(trace_ratio(z, labels))
    blocks = (codes[:, None] == codes[None]).astype(float)
    standard = (features - features.mean(0)) / np.maximum(features.std(0), 1e-12)
    likely = LogisticRegression(max_iter=1000).fit(standard, codes).predict_log_proba(standard)
    return Figures(
        float(score), float(sigma), scatter, scatter / (1 + scatter), float(-likely[np.arange(len(z)), codes].mean()),
        float(np.linalg.norm(gram - blocks) / np.linalg.norm(blocks)),
    )  # fmt: skip


def _kernel(features: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, jax.Array]:
    """The Gaussian kernel at the bandwidth of the largest dependence, and that bandwidth."""
    with jax.enable_x64(True):
        z = jnp.asarray(features, jnp.float64)
        sigma = best_bandwidth(z, center(one_hot(codes)))
        return np.asarray(gaussian(z, z, sigma)), sigma


def _layers(model: LayerwiseClassifier, X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    codes = check_targets(y, len(X))[1]
    return [(model.transform(X, layer=number + 1), codes) for number in range(model.n_layers_)]


def _spectral_layers(
    model: SpectralLayerClassifier, X: np.ndarray, y: np.ndarray
) -> list[tuple[jax.Array, Labels, SpectralLayer]]:
    """Of each layer: its input, the labels, and the layer."""
    labels = one_hot(check_targets(y, len(X))[1])
    inputs = [model._scaled(X), *(model.transform(X, layer=number) for number in range(1, model.n_layers_))]
    return [
        (jnp.asarray(below, jnp.float64), labels, layer)
        for below, layer in zip(inputs, model._fitted.parts[0], strict=True)
    ]


def _standard(X: np.ndarray, y: np.ndarray) -> tuple[jax.Array, Labels]:
    X = np.asarray(X, float)
    with jax.enable_x64(True):
        return jnp.asarray((X - X.mean(0)) / np.maximum(X.std(0), 1e-12)), one_hot(check_targets(y, len(X))[1])
