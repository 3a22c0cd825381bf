r"""The closed-form network as a scikit-learn classifier.

Each layer maps a row to its kernel similarity with each class (`_embedding.py`). Nothing is optimized but a bandwidth,
which is the first of a falling list that raises the dependence on the labels. A row belongs to the class of most of its
nearest neighbors after the last layer.

Reference: Masoomi, Wu, Gretton & Dy, Layer-wise Learning via Kernel Embedding.
"""

from collections.abc import Mapping

import jax
import numpy as np

from fewstep._kernels import AnyArray, Waves
from fewstep.layerwise._classifier import LayerStack, LayerwiseClassifier
from fewstep.layerwise._embedding import Embedding, forward
from fewstep.layerwise._history import Watch
from fewstep.layerwise._neighbors import Neighbors, count_votes
from fewstep.layerwise._options import check_bandwidth, check_choice, check_dtype, check_integer, check_positive
from fewstep.layerwise._pile import EmbeddingOptions, stack_embeddings
from fewstep.layerwise._rows import apply_layers
from fewstep.layerwise._save import name_arrays, split_arrays

_Parts = tuple[list[Embedding], Neighbors]


class KernelEmbeddingClassifier(LayerwiseClassifier[_Parts, EmbeddingOptions]):
    """A network whose weights have a closed form, the kernel embedding of each class (W_s): no gradient is taken.

    **Parameters:** `max_layers`; `n_bandwidths` that are tried for a layer, from the one that the layer below was
    evaluated with down to `smallest_bandwidth`; `enough`, the normalized HSIC at which it is done; `n_neighbors` that
    vote; `bandwidth`, `"hsic"` for that search, or a number for all layers; `stop`, `"hsic"` for `enough`, or
    `"silhouette"` as for the spectral network; `exact_rows`, up to which the kernel itself is
    computed; above, `kernel_features` random features stand for it; `memory`, megabytes for blocks of the kernel;
    `calibrate` the probabilities on a fifth of the rows, which takes a second training; `random_state`; `dtype`.

    **After `fit`:** as for `SpectralLayerClassifier`. Scores are the votes of the neighbors, and a little for their
    nearness.

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
        n_neighbors: int = 5,
        bandwidth: str | float = "hsic",
        stop: str = "hsic",
        exact_rows: int = 4096,
        kernel_features: int = 1024,
        memory: float = 500.0,
        calibrate: bool = True,
        random_state: int | np.random.RandomState | None = None,
        dtype: str = "float64",
    ) -> None:
        self.max_layers = max_layers
        self.n_bandwidths = n_bandwidths
        self.smallest_bandwidth = smallest_bandwidth
        self.enough = enough
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.stop = stop
        self.exact_rows = exact_rows
        self.kernel_features = kernel_features
        self.memory = memory
        self.calibrate = calibrate
        self.random_state = random_state
        self.dtype = dtype

    @property
    def weights_(self) -> list[np.ndarray]:
        """Of each layer the share that a row of the layer below, or a random feature, has in each column."""
        return [np.asarray(layer.shares) for layer in self._fitted.parts[0]]

    def _options(self) -> EmbeddingOptions:
        check_choice("stop", self.stop, ("hsic", "silhouette"))
        check_dtype(self.dtype)
        check_integer("n_neighbors", self.n_neighbors, 1)
        names = ("max_layers", "n_bandwidths", "exact_rows", "kernel_features")
        integers = {name: check_integer(name, getattr(self, name), 1) for name in names}
        positive = ("smallest_bandwidth", "enough", "memory")
        lowest, enough, memory = (check_positive(name, getattr(self, name)) for name in positive)
        return EmbeddingOptions(
            smallest_bandwidth=lowest, enough=enough, memory=memory, bandwidth=check_bandwidth(self.bandwidth),
            stop=self.stop, **integers,
        )  # fmt: skip

    def _learn(
        self, X: np.ndarray, codes: np.ndarray, rng: np.random.Generator, options: EmbeddingOptions, watch: Watch
    ) -> LayerStack[_Parts]:
        labels = np.eye(len(self.classes_), dtype=X.dtype)[codes]
        layers, history, ending = stack_embeddings(X, labels, rng, options, watch)
        neighbors = Neighbors(_apply(layers, X, options.memory), codes, min(int(self.n_neighbors), len(X)))
        return LayerStack((layers, neighbors), history, ending)

    def _features(self, parts: _Parts, x: np.ndarray, count: int) -> np.ndarray:
        return _apply(parts[0][:count], x, self.memory)

    def _columns(self, parts: _Parts, count: int) -> int:
        return parts[0][count - 1].shares.shape[1]

    def _scores_of(self, parts: _Parts, x: np.ndarray) -> np.ndarray:
        return count_votes(parts[1], _apply(parts[0], x, self.memory), len(self.classes_))

    def _arrays(self, parts: _Parts) -> dict[str, np.ndarray]:
        layers, (rows, codes, count) = parts
        arrays = {"neighbors.rows": rows, "neighbors.codes": codes, "neighbors.count": np.asarray(count)}
        for number, layer in enumerate(layers):
            entry: dict[str, AnyArray] = {"shares": layer.shares, "sigma": layer.sigma}
            entry |= {"rows": np.asarray(layer.rows)} if layer.waves is None else layer.waves._asdict()
            arrays |= name_arrays(number, entry)
        return arrays

    def _parts(self, arrays: Mapping[str, np.ndarray]) -> _Parts:
        entries = split_arrays(arrays)
        layers = [Embedding(entry.get("rows"), entry["shares"], _waves(entry), entry["sigma"]) for entry in entries]
        rows, codes, count = (arrays[f"neighbors.{name}"] for name in ("rows", "codes", "count"))
        return layers, Neighbors(rows, codes, int(count))


def _apply(layers: list[Embedding], x: np.ndarray, memory: float) -> np.ndarray:
    return apply_layers(_forward, layers, [len(layer.shares) for layer in layers], x, memory)


_forward = jax.jit(forward, static_argnames="size")


def _waves(entry: Mapping[str, np.ndarray]) -> Waves | None:
    return Waves(entry["omega"], entry["phase"]) if "omega" in entry else None
