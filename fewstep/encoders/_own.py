"""A user's own encoder: a function from a list of items to an array with a row for each."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Any, get_args

import numpy as np

from fewstep._errors import FewstepError, unknown
from fewstep.encoders._encoder import Encode, Encoder, Item, Modality, Prepare
from fewstep.encoders._heads import linear
from fewstep.encoders._items import check
from fewstep.encoders._sources import check_depth, digest_of
from fewstep.files import called, file_of, function_of

_GROUP = "fewstep.encoders"
_MODALITIES: tuple[str, ...] = get_args(Modality)
_SAMPLES: dict[str, Item] = {"text": "a text", "image": np.zeros((64, 64, 3), np.uint8)}


def is_own(name: str) -> bool:
    """Whether a name is that of a user's code, or of an installed package's."""
    return ".py:" in name or name in entry_points(group=_GROUP).names


def own_encoder(name: str) -> Callable[..., Encoder]:
    """The function that makes the encoder of `FILE.py:FUNCTION`; the function's keyword-only parameters are options."""
    function = function_of("encoder", name, "(items)")

    def make(depth: int = 0, *, modality: str = getattr(function, "modality", ""), **options: Any) -> Encoder:
        check_depth(name, depth, 0, "blocks that can be told apart: it is a function")
        kind = _modality(name, modality)
        if kind == "row" and not hasattr(function, "shape"):
            raise FewstepError(
                f"{name} takes rows, but does not say how many features it gives: {_attribute(name)}.shape = (384,)"
            )
        shape = getattr(function, "shape", None) or _compute(name, function, options, [_SAMPLES[kind]]).shape[1:]
        settings = {
            "kind": "own",
            "name": name.rpartition(":")[2],
            "code": _code(name),
            "modality": kind,
            "options": options,
        }
        encode = _encode(name, function, options, tuple(shape))
        return Encoder(
            name, kind, digest_of([], settings), tuple(shape), _prepare(name, kind), encode, linear(shape[-1])
        )

    make.__signature__ = signature = _signature(make, function)  # type: ignore[attr-defined]
    make.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    return make


def _signature(make: Callable, function: Callable) -> inspect.Signature:
    """That of `make`, with the function's own options by name."""
    theirs = inspect.signature(function, eval_str=True).parameters.values()
    own = [p for p in theirs if p.kind is p.KEYWORD_ONLY and p.name != "modality"]
    usual = inspect.signature(make)
    first = [p for p in usual.parameters.values() if p.kind is not p.VAR_KEYWORD]
    return usual.replace(parameters=[*first, *own])


def _modality(name: str, text: str) -> Any:
    if not text:
        raise FewstepError(
            f"{name} does not say what it takes. Below the function write {_attribute(name)}.modality = 'text', or "
            "'image', or 'row'."
        )
    if text not in _MODALITIES:
        raise unknown("modality", text, _MODALITIES)
    return text


def _attribute(name: str) -> str:
    return name.rpartition(":")[2]


def _code(name: str) -> str:
    """What changes when the code does: the digest of the file, or the version of the package."""
    if (path := file_of(name)) is not None:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    (entry,) = entry_points(group=_GROUP, name=name)
    return f"{entry.value} {entry.dist.version if entry.dist else ''}"


def _prepare(name: str, modality: Modality) -> Prepare:
    def prepare(items: Sequence[Item]) -> np.ndarray:
        check(name, modality, items)
        array = np.empty(len(items), object)
        for number, item in enumerate(items):
            array[number] = item
        return array

    return prepare


def _encode(name: str, function: Callable, options: dict[str, Any], shape: tuple[int, ...]) -> Encode:
    def encode(batch: np.ndarray) -> np.ndarray:
        rows = _compute(name, function, options, list(batch))
        if rows.shape[1:] != shape:
            raise FewstepError(
                f"{name} gives rows of shape {rows.shape[1:]}, and gave {shape} before. Give all rows the same shape."
            )
        return rows

    return encode


def _compute(name: str, function: Callable, options: dict[str, Any], items: list[Item]) -> np.ndarray:
    rows = np.asarray(called(f"{name} of {len(items)} items", function, items, **options))
    if rows.ndim < 2 or len(rows) != len(items) or rows.dtype.kind not in "fiu":
        raise FewstepError(
            f"{name} gives an array of type {rows.dtype} and shape {rows.shape} for {len(items)} items. Give numbers "
            f"of shape ({len(items)}, features)."
        )
    return rows.astype(np.float32)
