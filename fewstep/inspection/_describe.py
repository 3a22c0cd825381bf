"""The layer table of a network."""

from fewstep._network import Layer, Leaf, Network


def describe(network: Network) -> None:
    """Prints the layer table: path, output axes, width, and whether each layer gets a metric and a mask.

    Example::

        fewstep.describe(fewstep.networks.mlp())
    """
    print("\n".join(layer_lines(network)))


def layer_lines(network: Network) -> list[str]:
    """The lines of the layer table."""
    header = ("layer", "arrays (output axes)", "width", "T and mask")
    rows = [
        (
            layer.path,
            ", ".join(f"{leaf.path.removeprefix(layer.path + '/')} {_axes(leaf)}" for leaf in layer.leaves),
            str(layer.width or "-"),
            f"no: {layer.skip}" if layer.skip else _what(layer, network.frozen),
        )
        for layer in network.layers
    ]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(3)]
    line = lambda row: "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip()
    note = [f"not adapted by the inner loop: {', '.join(network.frozen)}"] if network.frozen else []
    return [*map(line, [header, *rows]), *note]


def _what(layer: Layer, frozen: tuple[str, ...]) -> str:
    return "T only: not adapted by the inner loop" if all(leaf.path in frozen for leaf in layer.leaves) else "yes"


def _axes(leaf: Leaf) -> str:
    return f"({', '.join(map(str, leaf.axes))})" if leaf.axes else "-"
