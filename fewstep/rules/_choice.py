"""The choice of the layers that a task adapts; the rest is meta-learned and then left alone."""

from fewstep._errors import FewstepError
from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import select


def adapt_only(*names: str | int) -> Rule:
    """Adapts the named layers and nothing else: `adapt_only(-1)` is the head.

    **Arguments:** paths, beginnings of paths, or numbers in the order of the calls.

    **Returns:** a link for `chain`.
    """

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        return _checked(fast, {leaf.path for layer in select(layers, names) for leaf in layer.leaves} & fast.keys())

    return link("choice", Stage.CHOOSE, start=start)


def adapt_all_but(*names: str | int) -> Rule:
    """Adapts everything but the named layers: `adapt_all_but(-1)` is the body.

    **Arguments and returns:** as `adapt_only`.
    """

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        return _checked(fast, fast.keys() - {leaf.path for layer in select(layers, names) for leaf in layer.leaves})

    return link("choice", Stage.CHOOSE, start=start)


def _checked(fast: Flat, kept: set[str]) -> Flat:
    if not kept:
        raise FewstepError("No array is left to adapt: the choice of layers leaves out all that may move.")
    return {path: leaf for path, leaf in fast.items() if path in kept}
