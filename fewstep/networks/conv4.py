"""Four blocks of convolution, normalisation and ReLU: the network of the few-shot image papers."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from fewstep._errors import FewstepError
from fewstep._network import Layer, Leaf, Network
from fewstep.networks.convolution import convolve, patches
from fewstep.networks.mlp import dense
from fewstep.networks.normalisation import check_mode, normalise

Params = dict[str, dict[str, Array]]


def conv4(
    image: tuple[int, int, int] = (28, 28, 1),
    outputs: int | None = 5,
    *,
    filters: int = 64,
    blocks: int = 4,
    pool: bool = False,
    average: bool = True,
    norm: str = "transductive",
    scale: bool = False,
    adapt_norm: bool = False,
    start: Literal["he", "paper"] = "he",
) -> Network:
    """Four blocks, each a 3x3 convolution, a metric if there is one, normalisation and ReLU; then a linear layer.

    The papers' network for Omniglot is `conv4((28, 28, 1), ways)`; for miniImageNet `conv4((84, 84, 3), ways,
    filters=32, pool=True, average=False)`.

    **Arguments:** height, width and channels of the `image`; `outputs`, or `None` for a network without the linear
    layer, which gives features; `blocks`, if they shall not be four; `pool` halves the image by 2x2 max-pooling instead
    of by a stride of 2; `average` takes the mean of the last map instead of all of it; `norm` is a mode of `normalise`;
    its shift, and its scale if there is one, are meta-learned and not adapted unless `adapt_norm`; `start`: kernels as
    of He and a small linear layer, or as in the MT-net code, Xavier's and, after an average, a linear layer of
    deviation 1.

    **Returns:** a `Network` that applies a metric in the cheaper of its two forms.
    """
    check_mode(norm)
    names, norms = ([f"{kind}_{number}" for number in range(blocks)] for kind in ("conv", "norm"))
    size = _last_map(image, pool, blocks)
    features = filters if average else filters * math.prod(size)
    if min(*image, *size, filters, blocks, 1 if outputs is None else outputs) < 1:
        raise FewstepError(
            f"conv4 of images {image} with {blocks} blocks of {filters} filters and {outputs} outputs: each must be at "
            f"least 1, and {blocks} halvings must leave something of the image ({2**blocks} pixels with pooling)."
        )

    def init(key: Key[Array, ""]) -> Params:
        keys, params, units = jax.random.split(key, blocks + 1), {}, image[2]
        for number, (block, layer) in enumerate(zip(names, norms, strict=True)):
            params[block] = {
                "kernel": _kernel(keys[number], (3, 3, units, filters), start),
                "bias": jnp.zeros(filters),
            }
            params[layer] = {"shift": jnp.zeros(filters)} | ({"scale": jnp.ones(filters)} if scale else {})
            units = filters
        if outputs is not None:
            kernel = _head(keys[blocks], (features, outputs), start, average)
            params["dense"] = {"kernel": kernel, "bias": jnp.zeros(outputs)}
        return params

    def apply(params: Params, state: Any, x: Float[Array, "rows ..."], weight: Array) -> tuple[Array, Any]:
        if x.shape[1:] != image:
            raise FewstepError(f"x has rows of shape {x.shape[1:]}; this network takes images of shape {image}.")
        seen = []
        for number, (block, layer) in enumerate(zip(names, norms, strict=True)):
            x = _convolution(params[block], x, 1 if pool else 2)
            x, statistics = normalise(x, params[layer], norm, weight, state[number] if state else None)
            x = jax.nn.relu(x)
            x = _pooled(x) if pool else x
            seen.append(statistics)
        x = x.mean(axis=(1, 2)) if average else x.reshape(x.shape[0], -1)
        return x if outputs is None else dense(params["dense"], x), tuple(seen) if norm == "support" else ()

    layers = [_layer(name, 3, filters) for name in names]
    layers += [] if outputs is None else [_layer("dense", 1, outputs)]
    paths = [f"{layer}/{leaf}" for layer in norms for leaf in ("shift", *(["scale"] if scale else []))]
    why = "neither kernel nor bias of a linear layer (part of a normalisation)"
    rest = tuple(Layer(path, 0, (Leaf(path, ()),), why) for path in paths)
    return Network(init, apply, (*layers, *rest), () if adapt_norm else tuple(paths))


def _convolution(layer: dict[str, Array], x: Array, stride: int) -> Array:
    """The convolution and its bias, then the metric: multiplied into the kernel where the image has more places than
    the kernel has entries a unit, applied to the outcome elsewhere."""
    kernel, bias = layer["kernel"], layer["bias"]
    if "metric" not in layer:
        return convolve(x, kernel, stride=stride) + bias[None, None, None]
    metric = layer["metric"]
    places = x.shape[0] * -(-x.shape[1] // stride) * -(-x.shape[2] // stride)
    if places > math.prod(kernel.shape[:3]):
        return convolve(x, jnp.tensordot(kernel, metric, 1), stride=stride) + (bias @ metric)[None, None, None]
    return jnp.tensordot(convolve(x, kernel, stride=stride) + bias[None, None, None], metric, 1)


def _pooled(x: Array) -> Array:
    """The largest of each 2x2 square; a last odd row or column is left out."""
    return patches(x, (2, 2), (2, 2), "VALID").max(axis=(3, 4))


def _layer(name: str, axis: int, width: int) -> Layer:
    return Layer(name, width, (Leaf(f"{name}/kernel", (axis,)), Leaf(f"{name}/bias", (0,))), literal=True)


def _last_map(image: tuple[int, int, int], pool: bool, blocks: int) -> tuple[int, int]:
    high, wide = image[:2]
    for _ in range(blocks):
        high, wide = (high // 2, wide // 2) if pool else (-(-high // 2), -(-wide // 2))
    return high, wide


def _kernel(key: Key[Array, ""], shape: tuple[int, ...], start: str) -> Array:
    inputs, outputs = math.prod(shape[:-1]), math.prod(shape[:-2]) * shape[-1]
    if start == "he":
        return (2 / inputs) ** 0.5 * jax.random.normal(key, shape)
    limit = (6 / (inputs + outputs)) ** 0.5
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def _head(key: Key[Array, ""], shape: tuple[int, int], start: str, average: bool) -> Array:
    if start == "he":
        return 0.01 * jax.random.normal(key, shape)
    return jax.random.normal(key, shape) if average else _kernel(key, (1, 1, *shape), start)
