"""The reader of PyTorch's files: both containers, written by the real pickler, and hostile or damaged ones."""

import collections
import os
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest

from fewstep import FewstepError
from fewstep.encoders._torch_file import read_torch

ARRAYS = {
    "kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "count": np.asarray(7, np.int64),
}
STORAGES = {"float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage"}


class Stored:
    """What a storage is to the pickler: something that lies elsewhere."""

    def __init__(self, kind, key, numbers):
        self.id = ("storage", kind, key, "cpu", numbers.size)
        self.numbers = numbers


class View:
    def __init__(self, rebuild, *arguments):
        self.made = (rebuild, arguments)

    def __reduce__(self):
        return self.made


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Stored) else None


@pytest.fixture
def modules(monkeypatch):
    """The names that PyTorch's files mention, so that the pickler finds them."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*arguments): ...

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)
    return torch, utils


def pickled(value, file):
    Pickler(file, protocol=2).dump(value)


def state_of(modules, extra=()):
    torch, utils = modules
    state, stored = collections.OrderedDict(), {}
    for number, (name, array) in enumerate(ARRAYS.items()):
        strides = tuple(step // array.itemsize for step in array.strides)
        flat = np.lib.stride_tricks.as_strided(array, (array.size,), (array.itemsize,))
        kind = getattr(torch, STORAGES[str(array.dtype)])
        storage = stored[str(number)] = Stored(kind, str(number), flat)
        hooks = collections.OrderedDict()
        state[name] = View(utils._rebuild_tensor_v2, storage, 0, array.shape, strides, False, hooks)
    state.update(extra)
    state._metadata = {"": {"version": 1}}
    return state, stored


def write_old(path, modules, extra=()):
    state, stored = state_of(modules, extra)
    with path.open("wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "type_sizes": {"int": 4}}, state):
            pickled(value, file)
        pickled(list(stored), file)
        for storage in stored.values():
            file.write(struct.pack("<q", storage.numbers.size) + storage.numbers.tobytes())
    return path


def write_zip(path, modules, extra=(), compression=zipfile.ZIP_STORED):
    state, stored = state_of(modules, extra)
    with zipfile.ZipFile(path, "w", compression) as archive:
        with archive.open("archive/data.pkl", "w") as file:
            pickled(state, file)
        for key, storage in stored.items():
            archive.writestr(f"archive/data/{key}", storage.numbers.tobytes())
    return path


@pytest.mark.parametrize("write", [write_old, write_zip])
def test_both_containers_are_read(tmp_path, modules, write):
    arrays = read_torch(write(tmp_path / "weights.pth", modules))
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


class Hostile:
    def __init__(self, function, *arguments):
        self.made = (function, arguments)

    def __reduce__(self):
        return self.made


@pytest.mark.parametrize("write", [write_old, write_zip])
def test_a_hostile_file_is_refused_by_name_and_does_nothing(tmp_path, modules, write):
    trace = tmp_path / "was-here"
    path = write(tmp_path / "evil.pth", modules, {"evil": Hostile(os.system, f"touch {trace}")})
    with pytest.raises(FewstepError, match=r"the name (posix|nt)\.system") as caught:
        read_torch(path)
    assert not trace.exists()
    assert "\n" not in str(caught.value)


_STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


@pytest.mark.parametrize(
    ("opcodes", "message"),
    [
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", "the name builtins.eval"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "protocol other than 2"),
        (b"\x80\x02X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", "the opcode STACK_GLOBAL"),
        (b"\x80\x02(ios\nsystem\n.", "the opcode INST"),
        (b"\x80\x02)\x81.", "the opcode NEWOBJ"),
        (b"\x80\x02\xff.", "the opcode 0xff"),
        (b"\x80\x02ctorch\nFloatStorage\n)R.", "a call torch.FloatStorage"),
        (b"\x80\x02]K\x01b.", "the opcode BUILD"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "something else than a dictionary of tensors"),
        (b"\x80\x02(K\x01u.", "make no sense"),
        (b"\x80\x02K\x01Q.", "make no sense"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "cut off"),
        (b"\x80\x02" + b"K\x01" * 50, "cut off"),
        # A view of 2^30 numbers of a storage of four, with steps of 0; one that reaches beyond it.
        (b"\x80\x02}X\x01\x00\x00\x00a" + _REBUILD + b"(" + _STORAGE + b"K\x00J\x00\x00\x00\x40\x85K\x00\x85\x89}tRs.",
         "reaches beyond its storage"),
        (b"\x80\x02}X\x01\x00\x00\x00a" + _REBUILD + b"(" + _STORAGE + b"K\x01K\x04\x85K\x01\x85\x89}tRs.",
         "reaches beyond its storage"),
        (b"\x80\x02}X\x01\x00\x00\x00a" + _REBUILD + b"(" + _STORAGE + b"K\x00K\x02\x85J\xff\xff\xff\xff\x85\x89}tRs.",
         "make no sense"),
    ],
)  # fmt: skip
def test_what_is_not_a_dictionary_of_tensors_is_refused(tmp_path, opcodes, message):
    path = tmp_path / "weights.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", opcodes)
        archive.writestr("archive/data/0", bytes(16))
    with pytest.raises(FewstepError, match=message):
        read_torch(path)


@pytest.mark.parametrize("write", [write_old, write_zip])
def test_a_file_that_was_cut_off_is_refused_wherever_it_ends(tmp_path, modules, write):
    whole = write(tmp_path / "whole.pth", modules).read_bytes()
    path = tmp_path / "cut.pth"
    for length in range(0, len(whole), 23):
        path.write_bytes(whole[:length])
        with pytest.raises(FewstepError, match="is not read"):
            read_torch(path)


def test_a_compressed_or_huge_or_missing_file_is_refused(tmp_path, modules):
    path = write_zip(tmp_path / "bomb.pth", modules, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(FewstepError, match="compressed"):
        read_torch(path)
    with (tmp_path / "huge.pth").open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(FewstepError, match="more than 2 GB"):
        read_torch(tmp_path / "huge.pth")
    with pytest.raises(FewstepError, match="Cannot read"):
        read_torch(tmp_path / "none.pth")
