"""A network as two pure functions and a list of its layers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Key, PyTree

from fewstep._errors import FewstepError


class Leaf(NamedTuple):
    """One array of a layer's parameters, and the axes of it that run over the layer's output units."""

    path: str
    axes: tuple[int, ...]


class Layer(NamedTuple):
    """A linear layer: the arrays whose output units it shares, and how many units there are.

    `skip` says why the layer can take no metric and no mask; it is empty when it can. `literal` tells that the
    network applies a metric itself, given one under `path/metric`, in whichever form is cheaper.
    """

    path: str
    width: int
    leaves: tuple[Leaf, ...]
    skip: str = ""
    literal: bool = False


class Network(NamedTuple):
    """A network: `init(key)` makes parameters, `apply(params, state, x, weight)` gives `(y, state)`.

    `state` is `()` for most networks; a normalisation may carry the support set's statistics to the query in it.
    `layers` lists every array once, in the order of the calls. `frozen` names the arrays the inner loop leaves alone.
    """

    init: Callable[[Key[Array, ""]], PyTree]
    apply: Callable[[PyTree, PyTree, Any, Array], tuple[Any, PyTree]]
    layers: tuple[Layer, ...]
    frozen: tuple[str, ...] = ()


def flatten(params: PyTree) -> dict[str, Any]:
    """The arrays of a pytree by their path, such as `dense_0/kernel`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def unflatten(like: PyTree, flat: dict[str, Array]) -> PyTree:
    """The pytree shaped as `like` with the arrays of `flat`; entries that `like` lacks are added to its dicts."""
    known = flatten(like)
    params = jax.tree.unflatten(jax.tree.structure(like), [flat[path] for path in known])
    for path in flat.keys() - known.keys():
        params = _put(params, path.split("/"), flat[path])
    return params


def _put(node: dict[str, Any], path: list[str], leaf: Array) -> dict[str, Any]:
    head, *rest = path
    return {**node, head: _put(node[head], rest, leaf) if rest else leaf}


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
    found = [layer for layer in layers if layer.path == name or layer.path.startswith(name + "/")]
    if not found:
        raise FewstepError(f"There is no layer {name!r}. The layers are {', '.join(layer.path for layer in layers)}.")
    return found


def eligible(layers: tuple[Layer, ...], names: tuple[str | int, ...] | None, what: str) -> tuple[Layer, ...]:
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
