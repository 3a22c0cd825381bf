"""The adapters: learned tasks in memory for a while, bounded in number, in bytes and in time since the last use.

An id carries a checksum over random bytes and the model's name. So an id that was once issued and is no longer here can
be distinguished from one that never was, without remembering any, even after the service was restarted.
"""

import itertools
import os
import time
from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

from fewstep.serve.errors import Refusal, not_found
from fewstep.serve.limits import Limits
from fewstep.serve.task import Adaptation

_RANDOM, _CHECK = 12, 4  # bytes
_SECRET, _count = os.urandom(32), itertools.count()


class _Entry(NamedTuple):
    adaptation: Adaptation
    until: float


class AdapterStore:
    """The cache of adapters. Used on the event loop only."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first
        self.bytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, model: str, adaptation: Adaptation) -> str:
        """Keeps a learned task, and returns its id."""
        name = _new_id(model)
        self._entries[name] = _Entry(adaptation, time.monotonic() + self._limits.adapter_seconds)
        self.bytes += adaptation.nbytes
        self.tidy()
        return name

    def find(self, model: str, name: str) -> Adaptation:
        """The learned task of an id of a model. Raises a `Refusal`: 410 if it is gone, 404 if it never was."""
        entry = self._entries.get(name)
        if entry is None or not _is_of(model, name) or entry.until < time.monotonic():
            self.tidy()
            raise _gone_adapter(name) if _is_of(model, name) else _unknown_adapter(model, name)
        self._entries[name] = _Entry(entry.adaptation, time.monotonic() + self._limits.adapter_seconds)
        self._entries.move_to_end(name)
        return entry.adaptation

    def forget(self, model: str, name: str) -> None:
        """Drops an adapter. Raises a `Refusal` as `find`."""
        self.find(model, name)
        self._drop(name)

    def tidy(self) -> None:
        """Drops what has expired, and the longest unused while there is too much."""
        now = time.monotonic()
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            full = len(self._entries) > self._limits.adapters or self.bytes > self._limits.adapter_bytes
            if entry.until >= now and not full:
                return
            self._drop(name)
            self.evictions += 1

    def _drop(self, name: str) -> None:
        self.bytes -= self._entries.pop(name).adaptation.nbytes


def _new_id(model: str) -> str:
    # A secret of the process and a counter: as hard to guess as random bytes, and cheaper to get.
    random = blake2b(next(_count).to_bytes(8), digest_size=_RANDOM, key=_SECRET).digest()
    return (random + _checksum(model, random)).hex()


def _is_of(model: str, name: str) -> bool:
    try:
        raw = bytes.fromhex(name)
    except ValueError:
        return False
    return len(raw) == _RANDOM + _CHECK and _checksum(model, raw[:_RANDOM]) == raw[_RANDOM:]


def _checksum(model: str, random: bytes) -> bytes:
    return blake2b(random + model.encode("utf-8", "surrogatepass"), digest_size=_CHECK).digest()


def _gone_adapter(name: str) -> Refusal:
    return Refusal(
        410, "adapter_gone",
        f"The adapter {name} was dropped: it was deleted, not used for too long, made room for newer ones, or the "
        'service was restarted. Send the support set to /adapt again, or along with the query as "support".',
    )  # fmt: skip


def _unknown_adapter(model: str, name: str) -> Refusal:
    return not_found("unknown_adapter", f"{name[:40]!r} is not an adapter of {model}. Make one with /adapt.")
