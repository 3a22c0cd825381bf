r"""MAML++: learn the start, and a step size for every array of the network and every inner step.

    fast_{k+1} = fast_k - rate_{p,k} * dL_support(fast_k) / dfast_k        for each array p; beyond K steps as in step K

Its other parts are no part of a rule, and go with any: the multi-step loss (`gradient_learner(..., multi_step=...)`),
first-order gradients before exact ones (`outers.annealed`), and a cosine for the outer step size.

Reference: Antoniou, Edwards & Storkey, How to Train Your MAML, ICLR 2019.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._options import Start
from fewstep.rules._step_rates import step_rates


def mamlpp(start: Start = 0.01, inner_steps: int = 5) -> Rule:
    """The rule of MAML++. `start` is the first value of all rates; `inner_steps` those in training.

    Example::

        learner = gradient_learner(mlp(), mamlpp(0.01, 5), squared_error, steps=5, multi_step=1000)
    """
    return chain(step_rates(start, inner_steps))
