r"""The exact outer gradient: through all inner steps, second derivatives included.

    d/dmeta L_query(fast_K(meta)),        fast_{k+1} = fast_k + update(dL_support / dfast_k)

Reference: Finn, Abbeel & Levine, Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, ICML 2017.
"""

from fewstep._contract import Learner
from fewstep._outer import Gradient, loss_gradient


def unrolled(learner: Learner) -> Gradient:
    """The exact gradient of the query loss, through all inner steps and their second derivatives.

    Example::

        train(learner, tasks, steps=1000, outer=unrolled)
    """
    return loss_gradient(learner)
