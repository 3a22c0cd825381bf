"""Finds the linear layers of any network by reading the program it traces to.

Names and shapes do not show a kernel's output axes: Equinox keeps them first, Flax last, attention has two. The
traced program can: the axes of a parameter that a product does *not* sum over are its output axes; the parameter
that is then added along just these axes is its bias. The same walk gives the order of the calls, and finds what
cannot take a metric: grouped convolutions, tied weights, look-up tables.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jaxtyping import PyTree

from fewstep._network import Layer, Leaf, flatten

_CALLS = {"jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat", "remat2"}
_SAME = {"convert_element_type", "copy", "copy_p", "optimization_barrier", "reduce_precision"}


class _Value(NamedTuple):
    """Where an axis of a traced value comes from: `origin` is a parameter, or the output of one's product."""

    origin: str
    is_output: bool
    axes: tuple[int | None, ...]


class _Walk:
    """The uses of each parameter met so far, in order: `kernel`, `bias`, or why it is neither."""

    def __init__(self, shapes: dict[str, tuple[int, ...]]):
        self.shapes = shapes
        self.uses: dict[str, list[str]] = {path: [] for path in shapes}
        self.order: list[str] = []
        self.axes: dict[str, tuple[int, ...]] = {}
        self.bias: dict[str, list[str]] = {}

    def run(self, jaxpr: Jaxpr, inputs: list[_Value | None]) -> list[_Value | None]:
        values_by_variable = {v: value for v, value in zip(jaxpr.invars, inputs, strict=True) if value}

        def look(v: Var | Literal) -> _Value | None:
            return None if isinstance(v, Literal) else values_by_variable.get(v)

        for equation in jaxpr.eqns:
            values = [look(v) for v in equation.invars]
            if any(values):
                for v, value in zip(equation.outvars, self.step(equation, values), strict=False):
                    if value:
                        values_by_variable[v] = value
        return [look(v) for v in jaxpr.outvars]

    def step(self, equation: JaxprEqn, values: list[_Value | None]) -> list[_Value | None]:
        name, shapes = equation.primitive.name, [_shape(v) for v in (*equation.invars, *equation.outvars)]
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        if name in _CALLS and inner is not None:
            return self.run(getattr(inner, "jaxpr", inner), values)
        if name in _SAME:
            return list(values)
        if name in ("transpose", "broadcast_in_dim", "reshape", "squeeze") and values[0]:
            return [_follow(values[0], equation, shapes[0], shapes[-1])]
        parameters = [value for value in values if value and not value.is_output]
        if name in ("dot_general", "conv_general_dilated") and len(parameters) == 1:
            return [self.product(equation, values, parameters[0])]
        outputs = [value for value in values if value and value.is_output]
        if name == "add" and parameters and outputs and self.is_bias(parameters[0], outputs[0]):
            return [outputs[0]]
        for value in parameters:
            self.use(value.origin, _reason(name, len(parameters)))
        return []

    def use(self, path: str, what: str) -> None:
        self.uses[path].append(what)
        if path not in self.order:
            self.order.append(path)

    def product(self, equation: JaxprEqn, values: list[_Value | None], kernel: _Value) -> _Value | None:
        free, position, reason = _output_axes(equation, values.index(kernel))
        axes = tuple(kernel.axes[axis] for axis in free)
        if None in axes or set(range(len(self.shapes[kernel.origin]))) - set(kernel.axes):
            reason = reason or "reshaped before its product"
        self.use(kernel.origin, reason or "kernel")
        if reason:
            return None
        self.axes[kernel.origin] = tuple(axis for axis in axes if axis is not None)
        ndim = len(_shape(equation.outvars[0]))
        places = {position + i: i for i in range(len(free))}
        return _Value(kernel.origin, True, tuple(places.get(axis) for axis in range(ndim)))

    def is_bias(self, bias: _Value, output: _Value) -> bool:
        """Whether the parameter added to a layer's output has an axis for each axis of its units; notes it if so."""
        if len(output.axes) != len(bias.axes):
            return False
        size, width = math.prod(self.shapes[bias.origin]), self.width(output.origin)
        aligned = {of: axis for of, axis in zip(output.axes, bias.axes, strict=True) if of is not None}
        axes = [aligned.get(of) for of in range(len(self.axes[output.origin]))]
        places = (0,) if size == width == 1 else tuple(axis for axis in axes if axis is not None)
        if len(places) < len(axes) or size < width:
            return False
        self.use(bias.origin, "bias")
        self.axes[bias.origin] = places
        self.bias.setdefault(output.origin, []).append(bias.origin)
        return True

    def width(self, path: str) -> int:
        return math.prod(self.shapes[path][axis] for axis in self.axes[path])


def _shape(of: Var | Literal) -> tuple[int, ...]:
    return of.aval.shape  # type: ignore[attr-defined]  # every value of a traced network is an array


def _reason(name: str, parameters: int) -> str:
    if name == "gather":
        return "looked up by index, not multiplied (an embedding)"
    if name in ("dot_general", "conv_general_dilated") and parameters > 1:
        return "multiplied with another parameter"
    if name in ("scan", "while", "cond"):
        return f"used inside a {name} loop" if name != "cond" else "used inside a branch"
    return f"neither kernel nor bias of a linear layer (used by {name})"


def _output_axes(equation: JaxprEqn, operand: int) -> tuple[tuple[int, ...], int, str]:
    """The operand's axes that run over the output units, where they start in the output, and why not if not."""
    numbers = equation.params["dimension_numbers"]
    ndim = len(_shape(equation.invars[operand]))
    if equation.primitive.name == "conv_general_dilated":
        grouped = max(equation.params["feature_group_count"], equation.params["batch_group_count"]) > 1
        reason = "a grouped convolution, whose groups T would mix" if grouped else ""
        return (numbers.rhs_spec[0],), numbers.out_spec[1], reason if operand == 1 else "convolved as an image"
    contracted, batched = (both[operand] for both in numbers)
    free = tuple(axis for axis in range(ndim) if axis not in (*contracted, *batched))
    first = len(_shape(equation.outvars[0])) - len(free) if operand == 1 else len(batched)
    return free, first, "multiplied batch by batch" if batched else "" if free else "summed over whole"


def _follow(value: _Value, equation: JaxprEqn, before: tuple[int, ...], after: tuple[int, ...]) -> _Value:
    """Follows axes through a change of shape; an axis that is cut or joined is lost (None)."""
    name, parameters = equation.primitive.name, equation.params
    axes: list[int | None] = [None] * len(after)
    if name == "transpose":
        axes = [value.axes[axis] for axis in parameters["permutation"]]
    elif name == "broadcast_in_dim":
        for old, new in enumerate(parameters["broadcast_dimensions"]):
            axes[new] = value.axes[old] if before[old] == after[new] else None
    elif name == "squeeze":
        axes = [axis for old, axis in enumerate(value.axes) if old not in parameters["dimensions"]]
    else:
        for old, axis in enumerate(value.axes):
            same = (math.prod(before[:old]), before[old])
            matches = [new for new, size in enumerate(after) if (math.prod(after[:new]), size) == same]
            if matches and axis is not None:
                axes[matches[-1]] = axis
    return value._replace(axes=tuple(axes))


def find_layers(apply: Callable[[PyTree, PyTree], PyTree], params: PyTree, x: PyTree) -> tuple[Layer, ...]:
    """The layers of `apply(params, x)`, in the order of the calls; every array of `params` is in exactly one.

    **Arguments:** `params` and `x` may be arrays or their shapes; nothing is computed.
    """
    flat = flatten(params)
    walk = _Walk({path: tuple(leaf.shape) for path, leaf in flat.items()})
    traced = jax.make_jaxpr(apply)(params, x).jaxpr
    starts: list[_Value | None] = [_Value(path, False, tuple(range(leaf.ndim))) for path, leaf in flat.items()]
    walk.run(traced, starts + [None] * (len(traced.invars) - len(starts)))
    unused = [path for path in flat if path not in walk.order]
    parents = [_parent(path) for path in walk.order if walk.uses[path] == ["kernel"]]
    layers, in_layers = [], set()
    for path in [*walk.order, *unused]:
        if walk.uses[path] == ["kernel"]:
            leaves = [path, *(b for b in walk.bias.get(path, []) if walk.uses[b] == ["bias"])]
            in_layers.update(leaves)
            name = _parent(path) if parents.count(_parent(path)) == 1 else path
            layers.append(Layer(name, walk.width(path), tuple(Leaf(leaf, walk.axes[leaf]) for leaf in leaves)))
    for path in [*walk.order, *unused]:
        if path not in in_layers:
            layers.append(Layer(path, 0, (Leaf(path, ()),), _why(walk.uses[path])))
    return tuple(sorted(layers, key=lambda layer: [*walk.order, *unused].index(layer.leaves[0].path)))


def _why(uses: list[str]) -> str:
    if not uses:
        return "the network does not use it"
    if uses == ["bias"]:
        return "the bias of a layer that cannot take one"
    return f"tied: used {len(uses)} times" if len(uses) > 1 else uses[0]


def _parent(path: str) -> str:
    head = path.removesuffix("/value").rpartition("/")[0]
    return head or path
