"""What is measured of a fitted network on its training rows: one definition for all methods, the authors' beside it.

Ours are of the features that the read-out reads (Z: of ISM its random features, of W_s its columns, of a trained
network its last hidden layer), with a Gaussian kernel of the bandwidth that makes most of it:

    H*   sum(A B) / (|A| |B|), A and B the kernels of Z and of the labels, centered on one side;  CKA: on both
    MSE  mean squared distance to the class mean, over the mean squared distance to the mean
    CE   mean negative log likelihood of a logistic regression on Z, each column scaled
    C    mean cosine between rows of different classes, over that of rows of one class
    T    equation 6: Tr(S_w) / Tr(S_b)

The authors' use other features and kernels for each method: of ISM the projection P for MSE and T, and the products of
the random features as the kernel; T is a ratio of sums of distances.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fewstep._kernels import (
    alignment,
    best_bandwidth,
    center,
    gaussian,
    linear_alignment,
    one_hot,
    scatter_ratio,
    trace_ratio,
)
from fewstep_studies.reproduce.layerwise._tables import NAMES

AUTHORS = ("H*", "MSE", "CE", "C", "T")
_ROWS = 400  # the bandwidth is looked for on so many


def ours(features: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """The measures in our definition."""
    codes = np.unique(codes, return_inverse=True)[1]  # a fold may lack a class
    with jax.enable_x64(True):
        z, labels = jnp.asarray(features, jnp.float64), one_hot(codes)
        sigma = bandwidth(features, codes)
        both = alignment(lambda a, b: gaussian(a, b, sigma), z, labels, len(z))
        spread = float(jnp.mean(jnp.sum(jnp.square(z - jnp.mean(z, 0)[None]), 1)))
        scaled = (features - features.mean(0)) / np.maximum(features.std(0), 1e-12)
        unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-300)
        values = (*both, _within(features, codes) / max(spread, 1e-300), entropy(scaled, codes), products(unit, codes))
        return dict(zip(NAMES, [float(value) for value in (*values, trace_ratio(z, labels))], strict=True))


def bandwidth(features: np.ndarray, codes: np.ndarray) -> jax.Array:
    """The bandwidth that makes most of the features, looked for on some rows."""
    some = np.random.default_rng(0).permutation(len(codes))[:_ROWS]
    codes = np.unique(codes, return_inverse=True)[1]
    with jax.enable_x64(True):
        z, labels = jnp.asarray(features[some], jnp.float64), one_hot(codes)[some]
        return _bandwidth(z, center(labels))


_bandwidth = jax.jit(best_bandwidth)


def authors(
    kernel: jax.Array | float | None, near: np.ndarray, features: np.ndarray, codes: np.ndarray, *, power: int = 1
) -> dict[str, float]:
    """The measures in the authors' definition.

    `kernel` is a bandwidth, or nothing for products of the features; `near` is what distances are taken of. With a
    `power` of 2 squares are squared again and rooted as a sum, as their code does for W_s.
    """
    codes = np.unique(codes, return_inverse=True)[1]
    with jax.enable_x64(True):
        labels, z = one_hot(codes), jnp.asarray(features, jnp.float64)
        if kernel is None:
            hsic = linear_alignment(z, labels).normalized
        else:
            hsic = alignment(lambda a, b: gaussian(a, b, jnp.asarray(kernel)), z, labels, len(z)).normalized
        apart = scatter_ratio(jnp.asarray(near, jnp.float64), labels, len(z))
    cosine = products(features, codes) if kernel is None else _kernel_products(features, float(kernel), codes)
    values = (float(hsic), _within(near, codes, power), entropy(features, codes), cosine, float(apart))
    return dict(zip(AUTHORS, values, strict=True))


def entropy(features: np.ndarray, codes: np.ndarray) -> float:
    """The mean negative log likelihood of the labels under a logistic regression that was fitted to them.

    It has one vector of weights per class, like the authors': for two classes that is one vector, penalized half as
    much.
    """
    strength = 2.0 if codes.max() == 1 else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=200).fit(features, codes)
    return float(-np.mean(model.predict_log_proba(features)[np.arange(len(codes)), codes]))


def products(features: np.ndarray, codes: np.ndarray) -> float:
    """The mean product of rows of different classes over the mean product of rows of one."""
    return _ratio(features @ features.T, codes)


def _kernel_products(features: np.ndarray, sigma: float, codes: np.ndarray) -> float:
    with jax.enable_x64(True):
        z = jnp.asarray(features, jnp.float64)
        return _ratio(np.asarray(gaussian(z, z, jnp.asarray(sigma))), codes)


def _ratio(kernel: np.ndarray, codes: np.ndarray) -> float:
    same = codes[:, None] == codes[None]
    return float(kernel[~same].mean() / kernel[same].mean())


def _within(features: np.ndarray, codes: np.ndarray, power: int = 1) -> float:
    means = np.stack([features[codes == code].mean(0) for code in range(codes.max() + 1)])
    return float(np.mean(np.sum(np.square(features - means[codes]) ** power, 1) ** (1 / power)))
