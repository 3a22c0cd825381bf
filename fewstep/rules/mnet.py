r"""M-net: learn, for every layer, which units a task may change.

    m_j ~ Bernoulli(sigmoid(logit_j)), one draw a task        W_j <- W_j - lr * m_j * dL/dW_j, the bias likewise

`mnet_full` has one logit a weight and draws at every inner step.

Reference: Lee & Choi, Gradient-Based Meta-Learning with Learned Layerwise Metric and Subspace, ICML 2018.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._mask import full_mask, mask
from fewstep.rules._options import Draw, Inner, LayerNames, Temperature
from fewstep.rules._step import step


def mnet(
    inner: Inner = 0.01, *, layers: LayerNames = None, temperature: Temperature = 1.0, draw: Draw = "sample"
) -> Rule:
    """The rule of the M-net. `inner` is the step size, or an optax transformation; the rest as in `mask`.

    Example::

        learner = gradient_learner(mlp(), mnet(0.01), squared_error)
    """
    return chain(mask(layers, temperature=temperature, draw=draw), step(inner))


def mnet_full(
    inner: Inner = 0.01, *, layers: LayerNames = None, temperature: Temperature = 1.0, draw: Draw = "sample"
) -> Rule:
    """The M-net with one logit a weight, drawn at every inner step. Arguments as `mnet`."""
    return chain(full_mask(layers, temperature=temperature, draw=draw), step(inner))
