"""A network in an ONNX file as an encoder, computed by onnxruntime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep.encoders._encoder import Encode, Encoder, Item, Modality, Prepare
from fewstep.encoders._heads import linear
from fewstep.encoders._images import to_pixels
from fewstep.encoders._items import check
from fewstep.encoders._sources import check_depth, digest_of, need

_USUAL_SIZE = 224
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
          "tensor(uint8)": np.uint8}  # fmt: skip
_LAYOUTS = ("auto", "nchw", "nhwc")
Layout = Annotated[Literal["auto", "nchw", "nhwc"], "Whether channels come first or last; auto goes by the shape."]
Size = Annotated[int, "Height and width of the images that the encoder sees; 0: as the file says, or 224."]
Mean = Annotated[tuple[float, ...], "What is subtracted from a pixel, 0 to 255, per channel; ImageNet's by default."]
Deviation = Annotated[tuple[float, ...], "What a pixel is divided by then, per channel; ImageNet's by default."]
Output = Annotated[str, "The output to take, where there are several."]


class _Input(NamedTuple):
    """What the network takes: rows at once if their number is fixed, type, and for images size and layout."""

    modality: Modality
    name: str
    rows: int | None
    dtype: Any
    size: tuple[int, int]
    channels: int
    first: bool


def onnx_encoder(name: str, path: Path) -> Callable[..., Encoder]:
    """The function that makes the encoder of an ONNX file with one input: images, or rows of numbers."""

    def make(
        depth: int = 0, *, size: Size = 0, mean: Mean = (123.675, 116.28, 103.53),
        deviation: Deviation = (58.395, 57.12, 57.375), layout: Layout = "auto", output: Output = "",
    ) -> Encoder:  # fmt: skip
        check_depth(name, depth, 0, "blocks that can be told apart: an ONNX file is one")
        session = _open(name, path)
        own, out = _input(path, session, size, layout), _output(path, session, output)
        prepare = _prepare(name, own)
        run = _runner(path, session, own, out, mean, deviation)
        sample = np.zeros((*own.size, 3), np.uint8) if own.modality == "image" else np.zeros(own.channels, np.float32)
        shape = run(prepare([sample])).shape[1:]
        settings = {
            "kind": "onnx",
            "size": own.size,
            "mean": mean,
            "deviation": deviation,
            "first": own.first,
            "out": out,
        }
        beside = path.with_name(path.name + ".data")  # where large weights are
        files = [path, *([beside] if beside.exists() else [])]
        return Encoder(name, own.modality, digest_of(files, settings), shape, prepare, run, linear(shape[-1]))

    return make


def _open(name: str, path: Path) -> Any:
    if not path.is_file():
        raise FewstepError(f"There is no file {path}. Give the path of an ONNX file.")
    runtime = need(name, "onnxruntime")
    try:
        return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # of many types, all of them of its own
        raise FewstepError(f"Cannot read {path}: {str(error).splitlines()[0][:200]}. Export the model again.") from None


def _input(path: Path, session: Any, size: int, layout: str) -> _Input:
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = ", ".join(each.name for each in inputs)
        raise FewstepError(
            f"{path} has {len(inputs)} inputs ({names}), and an encoder has one. Wrap it in a function and name that: "
            "FILE.py:encode."
        )
    (only,) = inputs
    shape = [length if isinstance(length, int) else None for length in only.shape]
    if only.type not in _TYPES or len(shape) not in (2, 4):
        raise FewstepError(
            f"{path} takes {only.type} of shape {only.shape}; an encoder takes images, with four axes, or rows of "
            "numbers, with two. Wrap it in a function and name that: FILE.py:encode."
        )
    if len(shape) == 2:
        if shape[1] is None:
            raise FewstepError(f"{path} does not say how long its rows are. Export it with a fixed second axis.")
        return _Input("row", only.name, shape[0], _TYPES[only.type], (0, 0), shape[1], False)
    return _of_images(path, only.name, _TYPES[only.type], shape, size, layout)


def _of_images(path: Path, name: str, dtype: Any, shape: list[int | None], size: int, layout: str) -> _Input:
    if layout not in _LAYOUTS:
        raise unknown("layout", layout, _LAYOUTS)
    first = layout == "nchw" or (layout == "auto" and shape[1] in (1, 3))
    if layout == "auto" and (shape[1] in (1, 3)) == (shape[3] in (1, 3)):
        raise FewstepError(
            f"{path} takes images of shape {shape}: channels first or last? Give `layout='nchw'` or `layout='nhwc'`."
        )
    channels, high, wide = (shape[1], shape[2], shape[3]) if first else (shape[3], shape[1], shape[2])
    if channels not in (1, 3, None):
        raise FewstepError(f"{path} takes images of {channels} channels, not 1 or 3. Give another `layout`.")
    if size and {high, wide} - {None, size}:
        raise FewstepError(f"`size={size}`: {path} takes images of {high} x {wide} pixels only. Leave the size out.")
    usual = size or _USUAL_SIZE
    return _Input("image", name, shape[0], dtype, (high or usual, wide or usual), channels or 3, first)


def _output(path: Path, session: Any, name: str) -> str:
    names = [each.name for each in session.get_outputs()]
    if name and name not in names:
        raise unknown("output", name, names)
    if not name and len(names) > 1:
        raise FewstepError(f"{path} has {len(names)} outputs: {', '.join(names)}. Choose one: `output={names[0]!r}`.")
    return name or names[0]


def _prepare(name: str, own: _Input) -> Prepare:
    if own.modality == "image":
        return to_pixels(name, own.size)

    def prepare(items: Sequence[Item]) -> np.ndarray:
        check(name, "row", items)
        lengths = {len(item) for item in items} - {own.channels}
        if lengths:
            raise FewstepError(
                f"{name} takes rows of {own.channels} numbers; one has {min(lengths)}. Give rows of that length."
            )
        return np.asarray([np.asarray(item) for item in items], own.dtype).reshape(len(items), own.channels)

    return prepare


def _runner(
    path: Path, session: Any, own: _Input, out: str, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> Encode:
    def encode(batch: np.ndarray) -> np.ndarray:
        batch = _scaled(batch, own, mean, deviation) if own.modality == "image" else batch
        step = own.rows or max(1, len(batch))
        parts = [_call(batch[start : start + step], step if own.rows else 0) for start in range(0, len(batch), step)]
        rows = np.concatenate(parts).astype(np.float32)
        return rows.reshape(len(rows), *(length for length in rows.shape[1:] if length != 1)) if rows.ndim > 2 else rows

    def _call(part: np.ndarray, size: int) -> np.ndarray:
        filled = np.concatenate([part, np.repeat(part[:1], max(0, size - len(part)), axis=0)])
        try:
            (rows,) = session.run([out], {own.name: filled})
        except Exception as error:
            raise FewstepError(f"{path} fails on its input: {str(error).splitlines()[0][:200]}") from None
        return rows[: len(part)]

    return encode


def _scaled(pixels: np.ndarray, own: _Input, mean: tuple[float, ...], deviation: tuple[float, ...]) -> np.ndarray:
    """Pixels as the network takes them; one that takes bytes gets them as they are."""
    pixels = pixels if own.channels == 3 else pixels.mean(-1, keepdims=True).round().astype(np.uint8)
    if own.dtype != np.uint8:
        shift, scale = (np.mean(each) if own.channels == 1 else np.asarray(each) for each in (mean, deviation))
        pixels = ((pixels - shift) / scale).astype(own.dtype)
    return pixels.transpose(0, 3, 1, 2) if own.first else pixels
