r"""The closed-form network as a scikit-learn classifier.

Each layer maps a row to its kernel similarity with each class (`_embedding.py`). Nothing is optimised but a bandwidth,
which is the first of a falling list that raises the dependence on the labels. A row belongs to the class of most of its
nearest neighbours after the last layer.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding.
"""

from functools import partial
from typing import Literal

import jax
import numpy as np

from fewstep.layerwise._classifier import Fitted, LayerwiseClassifier
from fewstep.layerwise._embedding import Embedding, forward
from fewstep.layerwise._neighbours import Neighbours, votes
from fewstep.layerwise._options import at_least, check_dtype
from fewstep.layerwise._pile import Options, pile
from fewstep.layerwise._rows import cut, padded


class KernelEmbeddingClassifier(LayerwiseClassifier):
    """A network whose weights have a closed form, the kernel embedding of each class (W_s); no gradient, no eigenvector.

    **Parameters:** `max_layers`; `n_bandwidths` that are tried for a layer, from the one that the layer below was judged
    with down to `smallest_bandwidth`; `enough`, the normalised HSIC at which it is done; `noise`, the deviation of what
    is added to the rows before they are scaled, as in the authors' code; `n_neighbours` that vote; `exact_rows`, the most
    rows with which the kernel itself is taken, beyond which `kernel_features` random features stand for it; `memory`,
    megabytes for blocks of the kernel; `calibrate` the probabilities on a fifth of the rows, which takes a second
    training; `random_state`; `dtype`.

    **After `fit`:** as for `SpectralLayerClassifier`.

    Example::

        model = KernelEmbeddingClassifier(random_state=0).fit(X, y)
        [layer.refused for layer in model.history_]
    """

    def __init__(
        self,
        *,
        max_layers: int = 29,
        n_bandwidths: int = 20,
        smallest_bandwidth: float = 0.05,
        enough: float = 0.95,
        noise: float = 0.02,
        n_neighbours: int = 5,
        exact_rows: int = 4096,
        kernel_features: int = 1024,
        memory: float = 500.0,
        calibrate: bool = True,
        random_state: int | np.random.RandomState | None = None,
        dtype: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.max_layers = max_layers
        self.n_bandwidths = n_bandwidths
        self.smallest_bandwidth = smallest_bandwidth
        self.enough = enough
        self.noise = noise
        self.n_neighbours = n_neighbours
        self.exact_rows = exact_rows
        self.kernel_features = kernel_features
        self.memory = memory
        self.calibrate = calibrate
        self.random_state = random_state
        self.dtype = dtype

    def _check(self) -> None:
        for name in ("max_layers", "n_bandwidths", "n_neighbours", "exact_rows", "kernel_features"):
            at_least(name, getattr(self, name), 1)
        check_dtype(self.dtype)

    def _learn(self, X: np.ndarray, codes: np.ndarray, key: jax.Array) -> Fitted:
        options = Options(
            self.max_layers, self.n_bandwidths, self.smallest_bandwidth, self.enough, self.exact_rows,
            self.kernel_features, self.memory,
        )  # fmt: skip
        labels = np.eye(len(self.classes_), dtype=X.dtype)[codes]
        layers, history, stopped = pile(X, labels, key, options)
        neighbours = Neighbours(through(layers, X, self.memory), codes, min(self.n_neighbours, len(X)))
        return Fitted(
            (layers, neighbours), history, stopped, partial(_features, layers, self.memory),
            partial(_scores, layers, neighbours, len(self.classes_), self.memory),
        )  # fmt: skip


def through(layers: list[Embedding], x: np.ndarray, memory: float) -> np.ndarray:
    """Rows after all these layers, by blocks."""
    for layer in layers:
        across = len(layer.shares) if layer.waves is None else layer.shares.shape[0]
        parts = cut(len(x), across, memory, x.dtype.itemsize)
        x = np.asarray(forward(layer, padded(x, parts.rows), parts.size))[: len(x)]
    return x


def _features(layers: list[Embedding], memory: float, x: np.ndarray, count: int) -> np.ndarray:
    return through(layers[:count], x, memory)


def _scores(layers: list[Embedding], neighbours: Neighbours, classes: int, memory: float, x: np.ndarray) -> np.ndarray:
    return votes(neighbours, through(layers, x, memory), classes)
