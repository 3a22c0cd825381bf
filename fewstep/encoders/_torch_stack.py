"""The opcodes that a dictionary of tensors is written with in PyTorch's files; all others are refused by name.

This is not a reader of pickles: nothing is imported, nothing is called. A global name is one of a short list and
becomes a mark; the only two calls that are understood make an empty dictionary and the description of a tensor.
"""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from fewstep._errors import FewstepError

_MAX_BYTES = 16_000_000  # the description of the tensors, without their numbers
_MAX_AXES = 8
TYPES = {
    "torch.FloatStorage": "<f4", "torch.DoubleStorage": "<f8", "torch.HalfStorage": "<f2", "torch.LongStorage": "<i8",
    "torch.IntStorage": "<i4", "torch.ShortStorage": "<i2", "torch.CharStorage": "<i1", "torch.ByteStorage": "<u1",
    "torch.BoolStorage": "|b1",
}  # fmt: skip
_DICTIONARY, _TENSOR = "collections.OrderedDict", "torch._utils._rebuild_tensor_v2"
_PUT_ASIDE = ("BUILD", b"b")  # attributes of a dictionary: a state dictionary's versions, which say nothing of numbers


class Global(NamedTuple):
    """One of the names that a file may mention."""

    name: str


class Storage(NamedTuple):
    """Numbers of one type that lie elsewhere in the file."""

    type: str
    key: str
    size: int


class Tensor(NamedTuple):
    """A view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mark:
    """Where a tuple, or the entries of a list or dictionary, begin on the stack."""


_MARK = _Mark()


class Refused(FewstepError):
    """Something in the file that a dictionary of tensors has no need of."""


def read(data: bytes, start: int) -> tuple[Any, int]:
    """The value that the opcodes from `start` on make, and where they end. Raises `Refused` for anything unusual."""
    machine = _Machine(data, start)
    try:
        while (code := machine.take(1)) != b".":
            if code not in _CODES:
                refuse(f"the opcode {_NAMES.get(code, hex(code[0]))}")
            _CODES[code](machine)
        return machine.pop(), machine.place
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        if isinstance(error, FewstepError):
            raise
        raise Refused("its opcodes make no sense: it is damaged") from None


def refuse(what: str) -> NoReturn:
    """Raises for what is not needed for a dictionary of tensors."""
    raise Refused(f"it holds {what}, which a dictionary of tensors has no need of")


class _Machine:
    """The stack, the values that are used again, and the place in the file."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.place, self.end = data, start, min(len(data), start + _MAX_BYTES)
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes:
        if count < 0 or self.place + count > self.end:
            raise Refused("it is cut off, or describes more than 16 MB of names and shapes")
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, form: str) -> int:
        (value,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return value

    def line(self) -> str:
        end = self.data.index(b"\n", self.place, min(self.end, self.place + 200))
        return self.take(end + 1 - self.place)[:-1].decode("ascii")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if self.stack[-1] is _MARK:
            raise ValueError
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(value)


def _integer(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.number(form))


def _long(machine: _Machine) -> None:
    machine.push(int.from_bytes(machine.take(machine.number("<B")), "little", signed=True))


def _text(machine: _Machine) -> None:
    machine.push(machine.take(machine.number("<I")).decode())


def _put(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.memo.__setitem__(machine.number(form), machine.stack[-1])


def _get(form: str) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(machine.memo[machine.number(form)])


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.push(tuple([machine.pop() for _ in range(count)][::-1]))


def _set(machine: _Machine, entries: list[Any]) -> None:
    target = machine.stack[-1]
    if not isinstance(target, dict) or len(entries) % 2 or not all(isinstance(key, str) for key in entries[::2]):
        raise ValueError
    target.update(zip(entries[::2], entries[1::2], strict=True))


def _set_one(machine: _Machine) -> None:
    value, key = machine.pop(), machine.pop()
    _set(machine, [key, value])


def _extend(machine: _Machine, entries: list[Any]) -> None:
    if not isinstance(machine.stack[-1], list):
        raise ValueError
    machine.stack[-1].extend(entries)


def _global(machine: _Machine) -> None:
    name = f"{machine.line()}.{machine.line()}"
    if name not in (*TYPES, _DICTIONARY, _TENSOR):
        refuse(f"the name {name}")
    machine.push(Global(name))


def _persistent(machine: _Machine) -> None:
    kind, type_, key, _, count = machine.pop()[:5]
    if kind != "storage" or type_.name not in TYPES or not isinstance(key, str) or not isinstance(count, int):
        raise ValueError
    machine.push(Storage(TYPES[type_.name], key, count))


def _call(machine: _Machine) -> None:
    arguments, function = machine.pop(), machine.pop()
    name = function.name if isinstance(function, Global) else "of something"
    if name == _DICTIONARY and arguments == ():
        machine.push({})
    elif name == _TENSOR:
        machine.push(_tensor(*arguments[:4]))
    else:
        refuse(f"a call {name}")


def _tensor(storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    numbers = (offset, *shape, *strides)
    whole = all(isinstance(number, int) and 0 <= number < 2**40 for number in numbers)
    if not isinstance(storage, Storage) or not whole or len(shape) != len(strides) or len(shape) > _MAX_AXES:
        raise ValueError
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def _attributes(machine: _Machine) -> None:
    machine.pop()
    if not isinstance(machine.stack[-1], dict):
        refuse(f"the opcode {_PUT_ASIDE[0]} on something that is not a dictionary")


_CODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda machine: None if machine.number("<B") == 2 else refuse("a protocol other than 2"),
    b"(": _constant(_MARK), b"N": _constant(None), b"\x88": _constant(True), b"\x89": _constant(False),
    b")": _constant(()), b"}": lambda machine: machine.push({}), b"]": lambda machine: machine.push([]),
    b"K": _integer("<B"), b"M": _integer("<H"), b"J": _integer("<i"), b"\x8a": _long, b"X": _text,
    b"q": _put("<B"), b"r": _put("<I"), b"h": _get("<B"), b"j": _get("<I"),
    b"\x85": _tuple_of(1), b"\x86": _tuple_of(2), b"\x87": _tuple_of(3),
    b"t": lambda machine: machine.push(tuple(machine.since_mark())),
    b"s": _set_one, b"u": lambda machine: _set(machine, machine.since_mark()),
    b"e": lambda machine: _extend(machine, machine.since_mark()),
    b"a": lambda machine: _extend(machine, [machine.pop()]),
    b"c": _global, b"Q": _persistent, b"R": _call, _PUT_ASIDE[1]: _attributes,
}  # fmt: skip
# Opcodes that hostile files use, for the message.
_NAMES = {
    b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX", b"\x93": "STACK_GLOBAL", b"\x82": "EXT1",
    b"\x83": "EXT2", b"\x84": "EXT4", b"P": "PERSID", b"S": "STRING", b"U": "SHORT_BINSTRING", b"B": "BINBYTES",
    b"C": "SHORT_BINBYTES", b"\x8c": "SHORT_BINUNICODE", b"\x8d": "BINUNICODE8", b"\x8e": "BINBYTES8",
    b"\x95": "FRAME", b"\x94": "MEMOIZE", b"G": "BINFLOAT", b"I": "INT", b"L": "LONG", b"\x8b": "LONG4", b"0": "POP",
    b"1": "POP_MARK", b"2": "DUP", b"l": "LIST", b"d": "DICT", b"p": "PUT", b"g": "GET", b"V": "UNICODE",
    b"F": "FLOAT", b"\x8f": "EMPTY_SET", b"\x90": "ADDITEMS", b"\x91": "FROZENSET", b"\x96": "BYTEARRAY8",
    b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER",
}  # fmt: skip
