"""Networks learned layer by layer, without backpropagation, as scikit-learn estimators.

`SpectralLayerClassifier` (W*, ISM) and `KernelEmbeddingClassifier` (W_s) learn; `load` reads a saved one.
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("fewstep.layerwise needs scikit-learn: pip install 'fewstep[layerwise]'") from error

from fewstep.layerwise._load import load as load
from fewstep.layerwise._stack import project as project
from fewstep.layerwise.embedding import KernelEmbeddingClassifier as KernelEmbeddingClassifier
from fewstep.layerwise.spectral import SpectralLayerClassifier as SpectralLayerClassifier
