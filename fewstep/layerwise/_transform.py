"""`transform` after any layer.

scikit-learn wraps a `transform` that an estimator's class defines, and names all the columns it gives after
`get_feature_names_out` (`set_output`), which knows those of the last layer. Other layers may have fewer. So the method
that takes a layer is in a class of its own, which is not wrapped, and asks one that is, of a network that ends there.
"""

from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from fewstep._errors import FewstepError


class NamedColumns(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """The features after the last layer, in the container that `set_output` asks for."""

    def transform(self, X: object) -> np.ndarray:
        """The features."""
        return self._transformed(X)


class ByLayer:
    """Comes before `NamedColumns` among the bases."""

    def transform(self: Any, X: object, layer: object = None) -> Any:
        """The features after a layer, counted from 1; without a number, after the last."""
        check_is_fitted(self)
        return NamedColumns.transform(self if layer is None else _up_to(self, layer), X)


def _up_to(estimator: Any, layer: object) -> Any:
    """The estimator as if this layer were its last."""
    count = estimator.n_layers_
    if isinstance(layer, bool) or not isinstance(layer, Integral) or not 1 <= int(layer) <= count:
        raise FewstepError(f"layer={layer!r}, but this network has the layers 1 to {count}. Give one of these numbers.")
    shorter = copy(estimator)
    shorter.n_layers_ = int(layer)
    shorter._n_features_out = shorter._columns(shorter._fitted.parts, shorter.n_layers_)
    return shorter
