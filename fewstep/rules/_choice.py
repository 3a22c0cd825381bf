"""The choice of the layers that a task adapts; the rest is meta-learned and then left alone."""

from fewstep._rule import Flat, Layers, Meta, Rule, Stage, link
from fewstep.rules._layers import select


def adapt_only(*names: str | int) -> Rule:
    """Adapts the named layers and nothing else: `adapt_only(-1)` is the head.

    **Arguments:** paths, beginnings of paths, or numbers in the order of the calls.

    **Returns:** a link for `chain`.
    """

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        own = _paths(layers, names)
        return {path: leaf for path, leaf in fast.items() if path in own}

    return link("choice", Stage.CHOOSE, start=start)


def adapt_all_but(*names: str | int) -> Rule:
    """Adapts everything but the named layers: `adapt_all_but(-1)` is the body.

    **Arguments and returns:** as `adapt_only`.
    """

    def start(layers: Layers, meta: Meta, fast: Flat) -> Flat:
        own = _paths(layers, names)
        return {path: leaf for path, leaf in fast.items() if path not in own}

    return link("choice", Stage.CHOOSE, start=start)


def _paths(layers: Layers, names: tuple[str | int, ...]) -> set[str]:
    return {leaf.path for layer in select(layers, names) for leaf in layer.leaves}
