"""Saved networks, read."""

from pathlib import Path

import numpy as np

from fewstep._errors import FewstepError
from fewstep.layerwise._classifier import Fitted, LayerwiseClassifier
from fewstep.layerwise._history import Record, Stopped
from fewstep.layerwise._save import read
from fewstep.layerwise.embedding import KernelEmbeddingClassifier
from fewstep.layerwise.spectral import SpectralLayerClassifier

CLASSES: dict[str, type[LayerwiseClassifier]] = {
    kind.__name__: kind for kind in (SpectralLayerClassifier, KernelEmbeddingClassifier)
}


def load(path: Path | str) -> LayerwiseClassifier:
    """The fitted network in a file that `save` has written. No pickle is read."""
    about, arrays = read(Path(path))
    try:
        made = CLASSES[about["class"]](**about["parameters"])
        made.classes_, made.mean_, made.scale_ = (arrays.pop(name) for name in ("classes", "mean", "scale"))
        made.n_features_in_, made.temperature_ = len(made.mean_), float(about["temperature"])
        if about["columns"] is not None:
            made.feature_names_in_ = np.asarray(about["columns"], object)
        history = [Record(*record) for record in about["history"]]
        made._take(Fitted(made._parts(arrays), history, Stopped(*about["stopped"])))
    except (KeyError, TypeError, ValueError) as error:
        raise FewstepError(f"{path} is damaged: {error}. Fit and save it again.") from None
    return made
