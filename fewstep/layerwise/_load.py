"""Reads saved networks."""

from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.layerwise._classifier import LayerStack, LayerwiseClassifier
from fewstep.layerwise._history import Ending, Record
from fewstep.layerwise._save import read_network
from fewstep.layerwise.embedding import KernelEmbeddingClassifier
from fewstep.layerwise.spectral import SpectralLayerClassifier

CLASSES: dict[str, type[LayerwiseClassifier]] = {
    kind.__name__: kind for kind in (SpectralLayerClassifier, KernelEmbeddingClassifier)
}


def load(path: Path | str) -> LayerwiseClassifier:
    """The fitted network in a file that `save` has written. No pickle is read."""
    about, arrays = read_network(Path(path))
    try:
        model = CLASSES[about["class"]](**about["parameters"])
        model.classes_, model.mean_, model.scale_ = (arrays.pop(name) for name in ("classes", "mean", "scale"))
        model.n_features_in_, model.temperature_ = len(model.mean_), float(about["temperature"])
        if about["columns"] is not None:
            model.feature_names_in_ = np.asarray(about["columns"], object)
        history = [Record(*record) for record in about["history"]]
        model._set_stack(LayerStack(model._parts(arrays), history, Ending(*about["stopped"])))
    except (KeyError, TypeError, ValueError) as error:
        raise FewstepError(f"{path} is damaged: {error}. Fit and save it again.") from None
    return model
