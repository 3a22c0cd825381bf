"""A network as two pure functions and a list of its layers."""

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, Key, PyTree


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

    `state` is `()` for most networks; a normalization may carry the support set's statistics to the query in it.
    `layers` lists every array once, in the order of the calls. `frozen` names the arrays the inner loop leaves alone.
    """

    init: Callable[[Key[Array, ""]], PyTree]
    apply: Callable[[PyTree, PyTree, PyTree, Array], tuple[PyTree, PyTree]]
    layers: tuple[Layer, ...]
    frozen: tuple[str, ...] = ()


def flatten(params: PyTree) -> dict[str, PyTree]:
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


def _put(node: dict[str, PyTree], path: list[str], leaf: Array) -> dict[str, PyTree]:
    head, *rest = path
    return {**node, head: _put(node[head], rest, leaf) if rest else leaf}
