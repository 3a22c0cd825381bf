r"""ANIL (almost no inner loop): a task adapts the last layer only; the body is meta-learned and reused.

    head_{k+1} = head_k - lr * dL_support / dhead_k,        body_k = body

Reference: Raghu, Raghu, Bengio & Vinyals, Rapid Learning or Feature Reuse?, ICLR 2020.
"""

from typing import Annotated

from fewstep._rule import Rule, chain
from fewstep.rules._choice import adapt_only
from fewstep.rules._options import Inner
from fewstep.rules._step import step


def anil(inner: Inner = 0.01, *, head: Annotated[str | int, "The layer that adapts"] = -1) -> Rule:
    """The rule of ANIL. `inner` is the step size, or an optax transformation; `head` the layer that adapts.

    Example::

        learner = gradient_learner(mlp(), anil(0.01), squared_error)
    """
    return chain(adapt_only(head), step(inner))
