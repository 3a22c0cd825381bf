"""EfficientNet-Lite: a stem, inverted residual blocks, a head. Normalizations are folded into kernels.

Reference: Tan & Le, EfficientNet, ICML 2019; the Lite variants, without squeeze-and-excitation and with ReLU6, are
those of the TensorFlow repository (2020).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from fewstep._network import Layer, Leaf
from fewstep.encoders._heads import dense_layer
from fewstep.networks import convolve
from fewstep.networks.mlp import dense

Params = dict[str, dict[str, Array]]
# Repeats, kernel, stride, expansion, channels of each stage; width and depth factors of lite0 to lite4.
_STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
_FACTORS = ((1.0, 1.0), (1.0, 1.1), (1.1, 1.2), (1.2, 1.4), (1.4, 1.8))
STEM, HEAD = 32, 1280
_DEPTHWISE = "a depthwise kernel, whose units share no input"


class Block(NamedTuple):
    """One inverted residual block: expand, depthwise, project, and the input added where the shape is the same."""

    name: str
    kernel: int
    stride: int
    expansion: int
    inputs: int
    outputs: int

    @property
    def width(self) -> int:
        """The channels in the middle."""
        return self.inputs * self.expansion


def blocks_of(number: int) -> tuple[Block, ...]:
    """The blocks of lite0, lite1 ... lite4."""
    width, depth = _FACTORS[number]
    blocks: list[Block] = []
    inputs = STEM
    for stage, (repeats, kernel, stride, expansion, channels) in enumerate(_STAGES):
        outer = stage in (0, len(_STAGES) - 1)  # whose depth is not scaled in the Lite variants
        outputs = _rounded(channels * width)
        for repeat in range(repeats if outer else math.ceil(repeats * depth)):
            step = stride if repeat == 0 else 1
            blocks.append(Block(f"block_{len(blocks)}", kernel, step, expansion, inputs, outputs))
            inputs = outputs
    return tuple(blocks)


def _rounded(channels: float) -> int:
    """Channels as a multiple of 8, at least nine tenths of what was asked for."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


def names(blocks: tuple[Block, ...]) -> tuple[str, ...]:
    """The parts that a depth counts, in the order of the calls: each block, then the head."""
    return (*(block.name for block in blocks), "head")


def stem(params: Params, x: UInt8[Array, "rows high wide 3"], mean: float, deviation: float) -> Float[Array, "..."]:
    """The first convolution of an image of bytes."""
    layer, pixels = params["stem"], (x.astype(jnp.float32) - mean) / deviation
    return _relu6(convolve(pixels, layer["kernel"], stride=2) + layer["bias"][None, None, None])


def run(params: Params, x: Float[Array, "rows high wide channels"], parts: tuple[Block | None, ...]) -> Array:
    """Some of the parts, one after the other; `None` is the head, which gives the mean over the places of its map."""
    for block in parts:
        x = _block(params, block, x) if block else _relu6(_pointwise(params["head"], x)).mean(axis=(1, 2))
    return x


def _block(params: Params, block: Block, x: Float[Array, "rows high wide channels"]) -> Array:
    layer = lambda part: params[f"{block.name}_{part}"]
    y = x if block.expansion == 1 else _relu6(_pointwise(layer("expand"), x))
    y = depthwise(y, layer("depthwise")["kernel"], block.stride) + layer("depthwise")["bias"][None, None, None]
    y = _pointwise(layer("project"), _relu6(y))
    return x + y if block.stride == 1 and block.inputs == block.outputs else y


def _pointwise(layer: dict[str, Array], x: Float[Array, "rows high wide channels"]) -> Array:
    return dense(layer, x.reshape(-1, x.shape[-1])).reshape(*x.shape[:3], -1)


def _relu6(x: Array) -> Array:
    return jnp.clip(x, 0.0, 6.0)


def depthwise(
    x: Float[Array, "rows high wide channels"], kernel: Float[Array, "size size channels"], stride: int
) -> Float[Array, "rows newhigh newwide channels"]:
    """A convolution of each channel by itself.

    XLA has only a slow path for it on a CPU: there it is the sum of the shifted images, each times its weights.
    """
    size, channels = kernel.shape[0], kernel.shape[2]
    if jax.default_backend() != "cpu":
        return jax.lax.conv_general_dilated(
            x, kernel[:, :, None], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=channels,
        )  # fmt: skip
    pads = jax.lax.padtype_to_pads(x.shape[1:3], (size, size), (stride, stride), "SAME")
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    high, wide = ((length - size) // stride + 1 for length in x.shape[1:3])
    total = jnp.zeros((x.shape[0], high, wide, channels), x.dtype)
    for row in range(size):
        for column in range(size):
            begin, end = (row, column), (row + (high - 1) * stride + 1, column + (wide - 1) * stride + 1)
            part = jax.lax.slice(x, (0, *begin, 0), (x.shape[0], *end, channels), (1, stride, stride, 1))
            total = total + part * kernel[row, column][None, None, None]
    return total


def layers(parts: tuple[Block | None, ...]) -> tuple[Layer, ...]:
    """The layer table of some of the parts."""
    return tuple(layer for block in parts for layer in (_layers(block) if block else [dense_layer("head", HEAD)]))


def _layers(block: Block) -> list[Layer]:
    arrays = tuple(Leaf(f"{block.name}_depthwise/{leaf}", ()) for leaf in ("kernel", "bias"))
    expand = [] if block.expansion == 1 else [dense_layer(f"{block.name}_expand", block.width)]
    middle = Layer(f"{block.name}_depthwise", 0, arrays, _DEPTHWISE)
    return [*expand, middle, dense_layer(f"{block.name}_project", block.outputs)]
