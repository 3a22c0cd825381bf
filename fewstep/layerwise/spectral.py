r"""The spectral network as a scikit-learn classifier.

Each layer: a linear map W with orthonormal columns that makes the layer's Gaussian kernel depend most on the labels
(found by eigenvectors, `_spectral.py`), then random features of that kernel. The read-out takes the directions in which
the last features depend most on the labels, and gives a row to the nearest class mean.

References: Wu, Masoomi, Gretton & Dy, Deep Layer-wise Networks Have Closed-Form Weights, AISTATS 2022; the poster
Layer-wise Learning via Kernel Embedding.
"""

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np

from fewstep._kernels import Rows, Waves, map_blocks
from fewstep.layerwise._classifier import LayerStack, LayerwiseClassifier
from fewstep.layerwise._history import Watch
from fewstep.layerwise._options import (
    check_bandwidth,
    check_choice,
    check_dtype,
    check_integer,
    check_positive,
    check_width,
)
from fewstep.layerwise._readout import Readout, fit_readout, score_classes
from fewstep.layerwise._rows import STEP, apply_layers
from fewstep.layerwise._save import name_arrays, split_arrays
from fewstep.layerwise._stack import Choice, SpectralLayer, StackOptions, forward, stack

_Parts = tuple[list[SpectralLayer], Readout]


class SpectralLayerClassifier(LayerwiseClassifier[_Parts, StackOptions]):
    """A network learned layer by layer with eigenvectors, without backpropagation (W*, ISM).

    **Parameters:** `max_layers`; `bandwidth` of the kernels, `"hsic"` chooses for each layer the one with the largest
    dependence on the labels, or a number; `n_features`, the random features of a layer; `width`, the share of the
    singular values that a layer's directions keep, or a whole number of directions; `balance`, whether small classes
    count as much as large ones, which the authors do not do; `stop`, `"silhouette"` as in the authors' code, or
    `"hsic"`; `exact_rows`, up to which the kernel itself is computed; above, `kernel_features` random features stand
    for it; `memory`, megabytes for blocks of the kernel; `calibrate` the probabilities on a fifth of the
    rows, which takes a second training; `random_state`; `dtype`, `"float64"` or `"float32"`.

    **After `fit`:** `history_`, a record for each layer; `converged_` and, in words, `stopped_`; `classes_`,
    `n_layers_`, `weights_`, `n_features_in_`.

    Example::

        model = SpectralLayerClassifier(random_state=0).fit(X, y)
        model.predict(X), model.history_[-1].hsic
    """

    def __init__(
        self,
        *,
        max_layers: int = 30,
        bandwidth: str | float = "hsic",
        n_features: int = 300,
        width: float | int = 0.9,
        balance: bool = True,
        stop: str = "silhouette",
        exact_rows: int = 4096,
        kernel_features: int = 1024,
        memory: float = 500.0,
        calibrate: bool = True,
        random_state: int | np.random.RandomState | None = None,
        dtype: str = "float64",
    ) -> None:
        self.max_layers = max_layers
        self.bandwidth = bandwidth
        self.n_features = n_features
        self.width = width
        self.balance = balance
        self.stop = stop
        self.exact_rows = exact_rows
        self.kernel_features = kernel_features
        self.memory = memory
        self.calibrate = calibrate
        self.random_state = random_state
        self.dtype = dtype

    @property
    def weights_(self) -> list[np.ndarray]:
        """The linear map of each layer."""
        return [np.asarray(layer.weight) for layer in self._fitted.parts[0]]

    def _options(self) -> StackOptions:
        check_choice("stop", self.stop, ("silhouette", "hsic"))
        check_dtype(self.dtype)
        names = ("max_layers", "exact_rows", "kernel_features")
        integers = {name: check_integer(name, getattr(self, name), 1) for name in names}
        choice = Choice(check_bandwidth(self.bandwidth), check_width(self.width), bool(self.balance))
        features, memory = check_integer("n_features", self.n_features, 1), check_positive("memory", self.memory)
        return StackOptions(features=features, stop=self.stop, memory=memory, layer=choice, **integers)

    def _learn(
        self, X: np.ndarray, codes: np.ndarray, rng: np.random.Generator, options: StackOptions, watch: Watch
    ) -> LayerStack[_Parts]:
        labels = np.eye(len(self.classes_), dtype=X.dtype)[codes]
        rotation = narrow(X, rng)
        layers, history, ending = stack(X if rotation is None else X @ rotation, labels, rng, options, watch)
        if rotation is not None:
            layers[0] = layers[0]._replace(weight=rotation @ layers[0].weight)
        return LayerStack((layers, fit_readout(_apply(layers, X, options.memory), labels)), history, ending)

    def _features(self, parts: _Parts, x: np.ndarray, count: int) -> np.ndarray:
        return _apply(parts[0][:count], x, self.memory)

    def _columns(self, parts: _Parts, count: int) -> int:
        return parts[0][count - 1].waves.phase.size

    def _scores_of(self, parts: _Parts, x: np.ndarray) -> np.ndarray:
        return score_classes(parts[1], _apply(parts[0], x, self.memory))

    def _arrays(self, parts: _Parts) -> dict[str, np.ndarray]:
        layers, readout = parts
        arrays = {"readout.weight": readout.weight, "readout.means": readout.means}
        for number, layer in enumerate(layers):
            arrays |= name_arrays(number, {"weight": layer.weight, "sigma": layer.sigma, **layer.waves._asdict()})
        return arrays

    def _parts(self, arrays: Mapping[str, np.ndarray]) -> _Parts:
        waves = lambda entry: Waves(entry["omega"], entry["phase"])
        layers = [SpectralLayer(entry["weight"], waves(entry), entry["sigma"]) for entry in split_arrays(arrays)]
        return layers, Readout(arrays["readout.weight"], arrays["readout.means"])


def _apply(layers: list[SpectralLayer], x: np.ndarray, memory: float) -> np.ndarray:
    across = [max(layer.weight.shape[0], layer.waves.phase.size) for layer in layers]
    return apply_layers(_forward, layers, across, x, memory)


@partial(jax.jit, static_argnames="size")
def _forward(layer: SpectralLayer, x: Rows, size: int) -> jax.Array:
    return map_blocks(lambda rows: forward(layer, rows), (x,), size)


def narrow(x: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Where there are more columns than rows: orthonormal directions that hold all of them, and some for padding.

    A layer's weight lies in them, so that no matrix need be as large as the columns are many.
    """
    count = -(-len(x) // STEP) * STEP
    if x.shape[1] <= count:
        return None
    more = rng.standard_normal((x.shape[1], count - len(x))).astype(x.dtype)
    return np.linalg.qr(np.concatenate([x.T, more], 1))[0]
