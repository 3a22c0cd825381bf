"""The tensors in a file of PyTorch's, in either of its two containers, without running anything that is in it."""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewstep._errors import FewstepError
from fewstep.encoders._torch_stack import Refused, Storage, Tensor, read

_MAX_BYTES = 2_000_000_000
_MAGIC = 0x1950A86A20F9469CFC6C  # the first value of the container that was used before zip
_OLD_VERSION = 1001
_REMEDY = "Convert it to safetensors where it comes from, or download it again."
_Numbers = Callable[[Storage], np.ndarray]


def read_torch(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a state dictionary by name.

    Raises `FewstepError` for a file that is damaged, too large, or holds anything but a dictionary of tensors.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise Refused(f"it has {size / 1e9:.1f} GB, more than {_MAX_BYTES / 1e9:.0f} GB")
        state, numbers = _open(path)
        if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
            raise Refused("it holds something else than a dictionary of tensors")
        return {name: _array(tensor, numbers) for name, tensor in state.items()}
    except Refused as error:
        raise FewstepError(f"{path} is not read: {error}. {_REMEDY}") from None
    except OSError as error:
        raise FewstepError(f"Cannot read {path}: {error.strerror or error}.") from None


def _open(path: Path) -> tuple[Any, _Numbers]:
    with path.open("rb") as file:
        return _open_zip(path) if file.read(4) == b"PK\x03\x04" else _open_old(path.read_bytes())


def _open_zip(path: Path) -> tuple[Any, _Numbers]:
    """A zip archive with the description in data.pkl and one member for each storage, none of them compressed."""
    try:
        with zipfile.ZipFile(path) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise Refused("a member of it is compressed, which PyTorch does not do")
            if sum(info.file_size for info in archive.infolist()) > path.stat().st_size:
                raise Refused("its members overlap: it is damaged")
            members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
            parts = {name: archive.read(info) for name, info in members.items()}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, struct.error):
        raise Refused("its zip archive is damaged") from None
    if "data.pkl" not in parts or parts.get("byteorder", b"little") != b"little":
        raise Refused("its zip archive is not one that PyTorch writes on a little-endian machine")
    return read(parts["data.pkl"], 0)[0], lambda storage: _numbers(parts.get(f"data/{storage.key}", b""), storage, 0)


def _open_old(data: bytes) -> tuple[Any, _Numbers]:
    """Five values in a row: a magic number, a version, the machine, the description, the storages' keys. Then the
    storages in the order of the keys, each with its count."""
    place, values = 0, []
    for _ in range(5):
        value, place = read(data, place)
        values.append(value)
    magic, version, machine, state, keys = values
    if magic != _MAGIC or version != _OLD_VERSION or not isinstance(machine, dict) or not isinstance(keys, list):
        raise Refused("it is not a file of PyTorch's")
    if machine.get("little_endian") is not True:
        raise Refused("it was written on a big-endian machine")
    storages = {tensor.storage.key: tensor.storage for tensor in _tensors(state)}
    if set(keys) != set(storages):
        raise Refused("the keys of its storages are not those of its tensors: it is damaged")
    starts = {}
    for key in keys:
        count = struct.unpack_from("<q", data, place)[0] if place + 8 <= len(data) else -1
        if count != storages[key].size:
            raise Refused("a storage is shorter or longer than its tensors: it is cut off or damaged")
        starts[key], place = place + 8, place + 8 + count * np.dtype(storages[key].type).itemsize
    return state, lambda storage: _numbers(data, storage, starts[storage.key])


def _tensors(state: Any) -> list[Tensor]:
    values = state.values() if isinstance(state, dict) else ()
    return [tensor for tensor in values if isinstance(tensor, Tensor)]


def _numbers(data: bytes, storage: Storage, start: int) -> np.ndarray:
    if storage.size < 0 or start + storage.size * np.dtype(storage.type).itemsize > len(data):
        raise Refused(f"the numbers of storage {storage.key[:40]!r} are cut off")
    return np.frombuffer(data, storage.type, storage.size, start)


def _array(tensor: Tensor, numbers: _Numbers) -> np.ndarray:
    """The view as an array of its own; it may be no larger than the storage it looks at."""
    flat = numbers(tensor.storage)
    last = tensor.offset + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.strides, strict=True))
    count = np.prod(tensor.shape, dtype=object)
    if count == 0:
        return np.zeros(tensor.shape, flat.dtype)
    if last >= len(flat) or count > len(flat):
        raise Refused("a tensor reaches beyond its storage: it is damaged")
    steps = [step * flat.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(flat[tensor.offset :], tensor.shape, steps, writeable=False).copy()
