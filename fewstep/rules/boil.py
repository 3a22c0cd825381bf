r"""BOIL (body only in the inner loop): a task adapts the representation; the last layer is meta-learned and then fixed.

    body_{k+1} = body_k - lr * dL_support / dbody_k,        head_k = head

Reference: Oh, Yoo, Kim & Yun, BOIL: Towards Representation Change for Few-Shot Learning, ICLR 2021.
"""

from typing import Annotated

from fewstep._rule import Rule, chain
from fewstep.rules._choice import adapt_all_but
from fewstep.rules._options import Inner
from fewstep.rules._step import step


def boil(inner: Inner = 0.01, *, head: Annotated[str | int, "The layer that does not adapt"] = -1) -> Rule:
    """The rule of BOIL. `inner` is the step size, or an optax transformation; `head` the layer that does not adapt.

    Example::

        learner = gradient_learner(mlp(), boil(0.01), squared_error)
    """
    return chain(adapt_all_but(head), step(inner))
