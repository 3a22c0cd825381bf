"""The multi-layer perceptron; with its defaults, the network of the sine and polynomial experiments."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree, Shaped

from fewstep._errors import FewstepError
from fewstep._network import Layer, Leaf, Network

Params = dict[str, dict[str, Array]]


def mlp(
    inputs: int = 1,
    outputs: int = 1,
    *,
    hidden: tuple[int, ...] = (40, 40),
    activation: Callable[[Array], Array] = jax.nn.relu,
    std: float | None = 0.01,
    bias_inputs: int = 0,
) -> Network:
    """A perceptron `inputs -> hidden -> outputs`: in each layer kernel and bias, a metric if there is one, activation.

    **Arguments:** sizes; the `activation` after all layers but the last; `std` of the normal distribution, cut at two
    deviations, that kernels start from, or `None` for He initialization, which deep networks need (biases start at 0);
    `bias_inputs`, how many learned numbers the first layer gets beside x: adapting them moves its bias further than
    adapting the bias does (a bias transformation).

    **Returns:** a `Network` that applies a metric in the cheaper of its two forms.
    """
    sizes = (inputs + bias_inputs, *hidden, outputs)
    if min(sizes) < 1:
        raise FewstepError(f"The layer sizes are {sizes}. Each must be at least 1.")
    names = [f"dense_{number}" for number in range(len(sizes) - 1)]

    def init(key: Key[Array, ""]) -> Params:
        keys = jax.random.split(key, len(names))
        shapes = itertools.pairwise(sizes)
        size = lambda shape: (2 / shape[0]) ** 0.5 if std is None else std
        kernels = [
            size(shape) * jax.random.truncated_normal(k, -2.0, 2.0, shape)
            for k, shape in zip(keys, shapes, strict=True)
        ]
        params = {n: {"kernel": w, "bias": jnp.zeros(w.shape[1])} for n, w in zip(names, kernels, strict=True)}
        return params | ({"beside": {"x": jnp.zeros(bias_inputs)}} if bias_inputs else {})

    def apply(params: Params, state: PyTree, x: Shaped[Array, "rows ..."], weight: Array) -> tuple[Array, PyTree]:
        if x.ndim != 2 or x.shape[1] != inputs:
            raise FewstepError(f"x has shape {x.shape}; this network takes rows of {inputs} numbers: (rows, {inputs}).")
        if bias_inputs:
            x = jnp.concatenate([x, jnp.broadcast_to(params["beside"]["x"], (x.shape[0], bias_inputs))], axis=1)
        for name in names[:-1]:
            x = activation(dense(params[name], x))
        return dense(params[names[-1]], x), state

    layers = tuple(
        Layer(name, width, (Leaf(f"{name}/kernel", (1,)), Leaf(f"{name}/bias", (0,))), literal=True)
        for name, width in zip(names, sizes[1:], strict=True)
    )
    beside = Layer("beside", bias_inputs, (Leaf("beside/x", (0,)),), skip="an input, not a layer")
    return Network(init, apply, (beside, *layers) if bias_inputs else layers)


def dense(layer: dict[str, Array], x: Shaped[Array, "rows inputs"]) -> Float[Array, "rows outputs"]:
    """`(x W + b) T`, or `x (W T) + b T` where that costs less, or `x W + b` without a metric."""
    kernel, bias = layer["kernel"], layer["bias"][None]
    if "metric" not in layer:
        return x @ kernel + bias
    if x.shape[0] > kernel.shape[0]:
        return x @ (kernel @ layer["metric"]) + bias @ layer["metric"]
    return (x @ kernel + bias) @ layer["metric"]
