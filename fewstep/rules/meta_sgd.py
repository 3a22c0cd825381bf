r"""Meta-SGD: learn the start and, for every weight, the direction and length of the step.

    fast_{k+1} = fast_k - rates * dL_support(fast_k) / dfast_k        (product by element; rates of either sign)

W and the rates are learned together. All rates begin at one value, drawn from [0.005, 0.1] in the paper.

Reference: Li, Zhou, Chen & Li, Meta-SGD: Learning to Learn Quickly for Few-Shot Learning, 2017.
"""

from fewstep._rule import Rule, chain
from fewstep.rules._options import Start
from fewstep.rules._rates import rates


def meta_sgd(start: Start = (0.005, 0.1)) -> Rule:
    """The rule of Meta-SGD. `start` is the first value of all rates, or the range it is drawn from.

    Example::

        learner = gradient_learner(mlp(), meta_sgd(), squared_error)
    """
    return chain(rates(start))
