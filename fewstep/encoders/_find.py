"""From the name of an encoder to the encoder."""

import inspect
from collections.abc import Callable
from typing import Any

from fewstep._errors import unknown
from fewstep.encoders._encoder import Encoder
from fewstep.encoders._image_network import LITE0, lite0
from fewstep.encoders._text_network import MINILM, minilm

ENCODERS: dict[str, Callable[..., Encoder]] = {LITE0: lite0, MINILM: minilm}


def find_encoder(name: str, *, depth: int = 0, **options: Any) -> Encoder:
    """The encoder of a name.

    **Arguments:** `name`: one of `ENCODERS`; `depth`, how many of its last blocks `encode` leaves to
    `tail`; the encoder's own options.

    Example::

        features = encode_all(find_encoder("minilm-l6"), ["a text", "another"])
    """
    make = factory_of(name)
    parameters = [p.name for p in inspect.signature(make).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options.keys() - set(parameters):
        raise unknown(f"option of the encoder {name}:", option, parameters)
    return make(depth, **options)


def factory_of(name: str) -> Callable[..., Encoder]:
    """The function that makes an encoder from a depth; its keyword-only parameters are the encoder's options."""
    if name in ENCODERS:
        return ENCODERS[name]
    raise unknown("encoder", name, ENCODERS)
