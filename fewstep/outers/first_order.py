r"""The first-order outer gradient (FOMAML): inner gradients count as constants.

    d/dmeta L_query(fast_K(meta))        with dL_support / dfast_k constant: no second derivatives

Reference: Finn, Abbeel & Levine, Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, ICML 2017.
"""

from fewstep._contract import Learner
from fewstep._outer import Gradient, loss_gradient


def first_order(learner: Learner) -> Gradient:
    """The gradient that takes the inner gradients as constants: cheaper, no second derivatives (FOMAML).

    Example::

        train(learner, tasks, steps=1000, outer=first_order)
    """
    return loss_gradient(learner, first_order=True)
