r"""T-net: learn, for every layer, the metric in which a task's gradient steps are steepest.

    layer(x) = (x W + b) T,        W, b adapted by gradient steps,        W, b and T meta-learned

One step on one example moves the layer's output by `-lr (|x|^2 + 1) (dL/dy) T' T` (rows as vectors).

Reference: Lee & Choi, Gradient-Based Meta-Learning with Learned Layerwise Metric and Subspace, ICML 2018.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._metric import metric
from fewstep.rules._options import Inner, LayerNames
from fewstep.rules._step import step


def tnet(inner: Inner = 0.01, *, layers: LayerNames = None) -> Rule:
    """The rule of the T-net. `inner` is the step size, or an optax transformation; `layers` those that get a T.

    Example::

        learner = gradient_learner(mlp(), tnet(0.01), squared_error)
    """
    return chain(metric(layers), step(inner))
