"""Networks learned layer by layer, without backpropagation, as scikit-learn estimators."""

from fewstep.layerwise.spectral import SpectralLayerClassifier as SpectralLayerClassifier
from fewstep.layerwise.embedding import KernelEmbeddingClassifier as KernelEmbeddingClassifier
