r"""MAML: learn a start from which one or a few gradient steps solve a task.

    fast_0 = W,    fast_{k+1} = fast_k - lr * dL_support(fast_k) / dfast_k,    minimize  L_query(fast_K)  over W

Reference: Finn, Abbeel & Levine, Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks, ICML 2017.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._options import Inner
from fewstep.rules._step import step


def maml(inner: Inner = 0.01) -> Rule:
    """The rule of MAML. `inner` is the step size, or an optax transformation.

    Example::

        learner = gradient_learner(mlp(), maml(0.01), squared_error)
    """
    return chain(step(inner))
