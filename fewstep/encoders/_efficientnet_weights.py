"""The weights of an EfficientNet-Lite by the names of its two PyTorch implementations, as ours."""

from collections.abc import Iterator, Mapping

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._efficientnet import HEAD, STEM, Block, blocks_of

Weights = Mapping[str, np.ndarray]
_EPSILON = 1e-3  # of the normalizations
_SIZES = range(5)


def convert(weights: Weights, source: str) -> tuple[tuple[Block, ...], dict[str, dict[str, np.ndarray]]]:
    """The blocks of the variant that the weights belong to, and its parameters, normalizations folded in.

    Raises `FewstepError` for weights of another network.
    """
    for number in _SIZES:
        blocks = blocks_of(number)
        for named in (_of_efficientnet, _of_timm):
            table = list(named(blocks))
            if _fits(weights, table):
                return blocks, {ours: _folded(weights, *theirs) for ours, theirs, _ in table}
    raise FewstepError(
        f"{source} has {len(weights)} arrays, such as {next(iter(weights), 'none')!r}, which are not those of "
        "efficientnet-lite0 to lite4 as efficientnet_lite_pytorch or timm name them. Export the model to ONNX and use "
        "onnx:MODEL.onnx."
    )


_Row = tuple[str, tuple[str, str], tuple[int, ...]]  # our name, theirs of kernel and normalization, the kernel's shape


def _fits(weights: Weights, table: list[_Row]) -> bool:
    """Whether each kernel is there in its shape, and there are no more blocks than these."""
    kernels = {name for name in weights if name.endswith("weight") and weights[name].ndim == 4}
    right = all(
        f"{kernel}.weight" in kernels and weights[f"{kernel}.weight"].shape == shape for _, (kernel, _), shape in table
    )
    return right and len(kernels) == len(table)


def _of_efficientnet(blocks: tuple[Block, ...]) -> Iterator[_Row]:
    yield "stem", ("_conv_stem", "_bn0"), (STEM, 3, 3, 3)
    for number, block in enumerate(blocks):
        under = f"_blocks.{number}"
        norms = ("_bn0", "_bn1", "_bn2")
        kernels = ("_expand_conv", "_depthwise_conv", "_project_conv")
        yield from _of_block(block, [(f"{under}.{a}", f"{under}.{b}") for a, b in zip(kernels, norms, strict=True)])
    yield "head", ("_conv_head", "_bn1"), (HEAD, blocks[-1].outputs, 1, 1)


def _of_timm(blocks: tuple[Block, ...]) -> Iterator[_Row]:
    yield "stem", ("conv_stem", "bn1"), (STEM, 3, 3, 3)
    stage, place = -1, 0
    for number, block in enumerate(blocks):
        before = blocks[number - 1]
        # A stage begins where the channels change.
        stage, place = (stage + 1, 0) if number == 0 or block.outputs != before.outputs else (stage, place + 1)
        under = f"blocks.{stage}.{place}"
        pairs = [("conv_pw", "bn1"), ("conv_dw", "bn2"), ("conv_pwl", "bn3")]
        pairs = [("", ""), ("conv_dw", "bn1"), ("conv_pw", "bn2")] if block.expansion == 1 else pairs
        yield from _of_block(block, [(f"{under}.{a}", f"{under}.{b}") for a, b in pairs])
    yield "head", ("conv_head", "bn2"), (HEAD, blocks[-1].outputs, 1, 1)


def _of_block(block: Block, theirs: list[tuple[str, str]]) -> Iterator[_Row]:
    if block.expansion > 1:
        yield f"{block.name}_expand", theirs[0], (block.width, block.inputs, 1, 1)
    yield f"{block.name}_depthwise", theirs[1], (block.width, 1, block.kernel, block.kernel)
    yield f"{block.name}_project", theirs[2], (block.outputs, block.width, 1, 1)


def _folded(weights: Weights, kernel: str, norm: str) -> dict[str, np.ndarray]:
    """A kernel with its outputs last, and the bias, after the normalization by the statistics of training."""
    get = lambda name: weights[f"{norm}.{name}"].astype(np.float64)
    scale = get("weight") / np.sqrt(get("running_var") + _EPSILON)
    bias = get("bias") - get("running_mean") * scale
    array = weights[f"{kernel}.weight"].astype(np.float64) * scale[:, None, None, None]
    _, inputs, high, _ = array.shape
    if high == 1:
        array = array[:, :, 0, 0].T
    else:
        array = array[:, 0].transpose(1, 2, 0) if inputs == 1 else array.transpose(2, 3, 1, 0)
    return {"kernel": array.astype(np.float32), "bias": bias.astype(np.float32)}
