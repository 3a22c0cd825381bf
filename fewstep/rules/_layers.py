"""Which of a network's layers a link works on."""

from fewstep._errors import FewstepError
from fewstep._network import Layer
from fewstep._rule import Flat
from fewstep.rules._options import LayerNames


def select(layers: tuple[Layer, ...], names: tuple[str | int, ...]) -> tuple[Layer, ...]:
    """The layers a user named: by path, by the start of a path, or by number in the order of the calls."""
    chosen = [layer for name in names for layer in _match(layers, name)]
    return tuple(layer for layer in layers if layer in chosen)


def _match(layers: tuple[Layer, ...], name: str | int) -> list[Layer]:
    linear = [layer for layer in layers if not layer.skip]
    if isinstance(name, int):
        if -len(linear) <= name < len(linear):
            return [linear[name]]
        raise FewstepError(f"There is no layer {name}: the network has {len(linear)} linear layers.")
    matches = [layer for layer in layers if layer.path == name or layer.path.startswith(name + "/")]
    if not matches:
        raise FewstepError(f"There is no layer {name!r}. The layers are {', '.join(layer.path for layer in layers)}.")
    return matches


def eligible(layers: tuple[Layer, ...], names: LayerNames, what: str) -> tuple[Layer, ...]:
    """The layers that get a metric or a mask: all that can, or those a user named."""
    if names is None:
        able = tuple(layer for layer in layers if not layer.skip)
        if not able:
            reasons = "; ".join(f"{layer.path}: {layer.skip}" for layer in layers) or "it has no parameters"
            raise FewstepError(f"No layer of this network can take a {what}. {reasons}.")
        return able
    for layer in (chosen := select(layers, names)):
        if layer.skip:
            raise FewstepError(f"Layer {layer.path!r} cannot take a {what}: {layer.skip}. Leave it out of `layers`.")
    return chosen


def moving(layers: tuple[Layer, ...], names: LayerNames, fast: Flat, what: str) -> tuple[Layer, ...]:
    """Those of them of which a task adapts something."""
    chosen = eligible(layers, names, what)
    some = tuple(layer for layer in chosen if any(leaf.path in fast for leaf in layer.leaves))
    if not some:
        raise FewstepError(
            f"A task adapts {', '.join(fast)}, and the {what} is for {', '.join(layer.path for layer in chosen)}: it "
            "would do nothing. Leave it out of the chain, or let it work on layers that a task adapts."
        )
    return some
