"""Few-shot learning as scikit-learn users expect it: `FewShotRegressor` and `FewShotClassifier`.

`fit(X, y, tasks)` learns from many small data sets how to learn one; `adapt(X, y)` learns the next from a few rows and
returns an ordinary fitted estimator. `EncodedClassifier` does so for sentences and photographs.
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("fewstep.estimators needs scikit-learn: pip install 'fewstep[sklearn]'") from error

from fewstep.estimators._adapted import AdaptedClassifier as AdaptedClassifier
from fewstep.estimators._adapted import AdaptedRegressor as AdaptedRegressor
from fewstep.estimators._encoded import EncodedClassifier as EncodedClassifier
from fewstep.estimators._estimators import FewShotClassifier as FewShotClassifier
from fewstep.estimators._estimators import FewShotRegressor as FewShotRegressor
from fewstep.estimators._save import load as load
