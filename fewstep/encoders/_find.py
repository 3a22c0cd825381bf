"""From the name of an encoder to the encoder."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewstep._errors import FewstepError, unknown
from fewstep.encoders._bert_weights import WORDS
from fewstep.encoders._encoder import Encoder
from fewstep.encoders._image_network import LITE0, image_encoder, read_lite0
from fewstep.encoders._onnx import onnx_encoder
from fewstep.encoders._own import is_own, own_encoder
from fewstep.encoders._sources import array_names, read_safetensors
from fewstep.encoders._text_network import MINILM, find_minilm, text_encoder

Make = Callable[..., Encoder]
ENCODERS: dict[str, Make] = {LITE0: image_encoder(LITE0, read_lite0), MINILM: text_encoder(MINILM, find_minilm)}
_ONNX, _SAFETENSORS = "onnx:", "safetensors:"


def find_encoder(name: str, *, depth: int = 0, **options: Any) -> Encoder:
    """The encoder of a name.

    **Arguments:** `name`: one of `ENCODERS`, `onnx:MODEL.onnx`, `safetensors:MODEL.safetensors`, `FILE.py:FUNCTION`, or
    an installed package's entry point in the group `fewstep.encoders`; `depth`, how many of its last blocks `encode`
    leaves to `tail`; the encoder's own options.

    Example::

        features = encode_all(find_encoder("minilm-l6"), ["a text", "another"])
    """
    make = factory_of(name)
    parameters = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options.keys() - set(parameters):
        raise unknown(f"option of the encoder {name}:", option, parameters or ["none"])
    return make(depth, **options)


def is_encoder(name: str) -> bool:
    """Whether a name can only be that of an encoder, and not of a folder."""
    return name in ENCODERS or name.startswith((_ONNX, _SAFETENSORS)) or is_own(name)


def factory_of(name: str) -> Make:
    """The function that makes an encoder from a depth; its keyword-only parameters are the encoder's options."""
    if name in ENCODERS:
        return ENCODERS[name]
    if name.startswith(_ONNX):
        return onnx_encoder(name, Path(name.removeprefix(_ONNX)).expanduser())
    if name.startswith(_SAFETENSORS):
        return _of_safetensors(name, Path(name.removeprefix(_SAFETENSORS)).expanduser())
    if is_own(name):
        return own_encoder(name)
    if Path(name).suffix in (".onnx", ".safetensors"):
        raise FewstepError(f"The encoder is {name!r}. Write {Path(name).suffix[1:]}:{name}.")
    raise unknown("encoder", name, [*ENCODERS, "onnx:MODEL.onnx", "safetensors:MODEL.safetensors", "your.py:function"])


def _of_safetensors(name: str, path: Path) -> Make:
    """A BERT if it has embeddings of words, else an EfficientNet-Lite."""
    path = path / "model.safetensors" if path.is_dir() else path
    if any(array.endswith(WORDS) for array in array_names(name, path)):
        return text_encoder(name, lambda: path)
    return image_encoder(name, lambda: (path, read_safetensors(name, path)))
