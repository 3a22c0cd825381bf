"""Four blocks of convolution, normalization and ReLU: the network of the few-shot image papers."""

import math
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from fewstep._errors import FewstepError
from fewstep._network import Layer, Leaf, Network
from fewstep.networks.convolution import convolve, patches
from fewstep.networks.mlp import dense
from fewstep.networks.normalization import check_mode, normalize

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
    """Four blocks, each a 3x3 convolution, a metric if there is one, normalization and ReLU; then a linear layer.

    The papers' network for Omniglot is `conv4((28, 28, 1), ways)`; for miniImageNet `conv4((84, 84, 3), ways,
    filters=32, pool=True, average=False)`.

    **Arguments:** height, width and channels of the `image`; `outputs`, or `None` for a network without the linear
    layer, which gives features; `blocks`, four by default; `pool` halves the image by 2x2 max-pooling instead
    of by a stride of 2; `average` takes the mean of the last map instead of all of it; `norm` is a mode of `normalize`;
    its shift, and its scale if there is one, are meta-learned and not adapted unless `adapt_norm`; `start`: He
    initialization and a small linear layer, or as in the MT-net code, Xavier's and, after an average, a linear layer of
    deviation 1.

    **Returns:** a `Network` that applies a metric in the cheaper of its two forms.
    """
    check_mode(norm)
    plan = _Plan(image, outputs, filters, blocks, pool, average, norm, scale, start)
    size = plan.last_map
    if min(*image, *size, filters, blocks, 1 if outputs is None else outputs) < 1:
        raise FewstepError(
            f"conv4 of images {image} with {blocks} blocks of {filters} filters and {outputs} outputs: each must be at "
            f"least 1, and {blocks} halvings must not use up the image ({2**blocks} pixels with pooling)."
        )
    layers = [_layer(name, 3, filters) for name in plan.names("conv")]
    layers += [] if outputs is None else [_layer("dense", 1, outputs)]
    paths = [f"{layer}/{leaf}" for layer in plan.names("norm") for leaf in ("shift", *(["scale"] if scale else []))]
    why = "neither kernel nor bias of a linear layer (part of a normalization)"
    rest = tuple(Layer(path, 0, (Leaf(path, ()),), why) for path in paths)
    return Network(partial(_init, plan), partial(_apply, plan), (*layers, *rest), () if adapt_norm else tuple(paths))


class _Plan(NamedTuple):
    """The arguments of `conv4`."""

    image: tuple[int, int, int]
    outputs: int | None
    filters: int
    blocks: int
    pool: bool
    average: bool
    norm: str
    scale: bool
    start: str

    def names(self, kind: str) -> list[str]:
        """The names of the layers of one kind, one in each block."""
        return [f"{kind}_{number}" for number in range(self.blocks)]

    @property
    def last_map(self) -> tuple[int, int]:
        """Height and width of the map that the last block gives."""
        high, wide = self.image[:2]
        for _ in range(self.blocks):
            high, wide = (high // 2, wide // 2) if self.pool else (-(-high // 2), -(-wide // 2))
        return high, wide


def _init(plan: _Plan, key: Key[Array, ""]) -> Params:
    keys, params, units = jax.random.split(key, plan.blocks + 1), {}, plan.image[2]
    for number, (block, layer) in enumerate(zip(plan.names("conv"), plan.names("norm"), strict=True)):
        kernel = _kernel(keys[number], (3, 3, units, plan.filters), plan.start)
        params[block] = {"kernel": kernel, "bias": jnp.zeros(plan.filters)}
        params[layer] = {"shift": jnp.zeros(plan.filters)} | ({"scale": jnp.ones(plan.filters)} if plan.scale else {})
        units = plan.filters
    if plan.outputs is not None:
        features = plan.filters * (1 if plan.average else math.prod(plan.last_map))
        kernel = _head(keys[plan.blocks], (features, plan.outputs), plan.start, plan.average)
        params["dense"] = {"kernel": kernel, "bias": jnp.zeros(plan.outputs)}
    return params


def _apply(
    plan: _Plan, params: Params, state: PyTree, x: Float[Array, "rows ..."], weight: Array
) -> tuple[Array, PyTree]:
    if x.shape[1:] != plan.image:
        raise FewstepError(f"x has rows of shape {x.shape[1:]}; this network takes images of shape {plan.image}.")
    statistics_by_block = []
    for number, (block, layer) in enumerate(zip(plan.names("conv"), plan.names("norm"), strict=True)):
        x = _convolution(params[block], x, 1 if plan.pool else 2)
        x, statistics = normalize(x, params[layer], plan.norm, weight, state[number] if state else None)
        x = jax.nn.relu(x)
        x = _pool(x) if plan.pool else x
        statistics_by_block.append(statistics)
    x = x.mean(axis=(1, 2)) if plan.average else x.reshape(x.shape[0], -1)
    y = x if plan.outputs is None else dense(params["dense"], x)
    return y, tuple(statistics_by_block) if plan.norm == "support" else ()


def _convolution(layer: dict[str, Array], x: Array, stride: int) -> Array:
    """The convolution and its bias, then the metric: multiplied into the kernel where the image has more places than
    the kernel has entries per unit, applied to the outcome elsewhere."""
    kernel, bias = layer["kernel"], layer["bias"]
    if "metric" not in layer:
        return convolve(x, kernel, stride=stride) + bias[None, None, None]
    metric = layer["metric"]
    places = x.shape[0] * -(-x.shape[1] // stride) * -(-x.shape[2] // stride)
    if places > math.prod(kernel.shape[:3]):
        return convolve(x, jnp.tensordot(kernel, metric, 1), stride=stride) + (bias @ metric)[None, None, None]
    return jnp.tensordot(convolve(x, kernel, stride=stride) + bias[None, None, None], metric, 1)


def _pool(x: Array) -> Array:
    """The largest of each 2x2 square; a last odd row or column is dropped."""
    return patches(x, (2, 2), (2, 2), "VALID").max(axis=(3, 4))


def _layer(name: str, axis: int, width: int) -> Layer:
    return Layer(name, width, (Leaf(f"{name}/kernel", (axis,)), Leaf(f"{name}/bias", (0,))), literal=True)


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
