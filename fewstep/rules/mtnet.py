r"""MT-net: learn, for every layer, a subspace in which a task moves and the metric inside it.

    layer(x) = (x W + b) T
    m_j ~ Bernoulli(sigmoid(logit_j)), one draw a task        W_j <- W_j - lr * m_j * dL/dW_j, the bias likewise

One step on one example moves the layer's output by `-lr (|x|^2 + 1) (dL/dy) T' diag(m) T` (rows as vectors): in the
span of the rows of T that m selects, steepest in the metric they define. `mtnet_full` has one logit a weight and draws
at every inner step.

Reference: Lee & Choi, Gradient-Based Meta-Learning with Learned Layerwise Metric and Subspace, ICML 2018.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._metric import metric
from fewstep.rules._options import Draw, Inner, LayerNames, Temperature
from fewstep.rules.mnet import mnet, mnet_full


def mtnet(
    inner: Inner = 0.01, *, layers: LayerNames = None, temperature: Temperature = 1.0, draw: Draw = "sample"
) -> Rule:
    """The rule of the MT-net. `inner` is the step size, or an optax transformation; the rest as in `mask`.

    Example::

        learner = gradient_learner(mlp(), mtnet(0.01), squared_error)
    """
    return chain(metric(layers), mnet(inner, layers=layers, temperature=temperature, draw=draw))


def mtnet_full(
    inner: Inner = 0.01, *, layers: LayerNames = None, temperature: Temperature = 1.0, draw: Draw = "sample"
) -> Rule:
    """The MT-net with one logit a weight, drawn at every inner step. Arguments as `mtnet`."""
    return chain(metric(layers), mnet_full(inner, layers=layers, temperature=temperature, draw=draw))
