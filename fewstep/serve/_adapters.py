"""What learned tasks leave behind, kept for a while: bounded in number, in bytes and in time since the last use.

An id carries a check sum over random bytes and the model's name. So an id that was once given and is no longer here can
be told from one that never was, without remembering any, and also after the service was started anew.
"""

import itertools
import os
import time
from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

from fewstep.serve._limits import Limits
from fewstep.serve._refusal import Refusal, not_found
from fewstep.serve._work import Left

_RANDOM, _CHECK = 12, 4  # bytes
_SECRET, _count = os.urandom(32), itertools.count()


class _Kept(NamedTuple):
    left: Left
    until: float


class Adapters:
    """The cache of adapters. Used on the event loop only."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # the longest unused first
        self.bytes = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, model: str, left: Left) -> str:
        """Keeps what a task left behind, and returns its id."""
        name = _new(model)
        self._kept[name] = _Kept(left, time.monotonic() + self._limits.adapter_seconds)
        self.bytes += left.nbytes
        self.tidy()
        return name

    def find(self, model: str, name: str) -> Left:
        """What is kept under an id of a model. Raises a `Refusal`: 410 if it is gone, 404 if it never was."""
        kept = self._kept.get(name)
        if kept is None or not _is_of(model, name) or kept.until < time.monotonic():
            self.tidy()
            raise _gone(name) if _is_of(model, name) else _unknown(model, name)
        self._kept[name] = _Kept(kept.left, time.monotonic() + self._limits.adapter_seconds)
        self._kept.move_to_end(name)
        return kept.left

    def forget(self, model: str, name: str) -> None:
        """Drops an adapter. Raises a `Refusal` as `find`."""
        self.find(model, name)
        self._drop(name)

    def tidy(self) -> None:
        """Drops what has expired, and the longest unused while there is too much."""
        now = time.monotonic()
        while self._kept:
            name, kept = next(iter(self._kept.items()))
            crowded = len(self._kept) > self._limits.adapters or self.bytes > self._limits.adapter_bytes
            if kept.until >= now and not crowded:
                return
            self._drop(name)
            self.evicted += 1

    def _drop(self, name: str) -> None:
        self.bytes -= self._kept.pop(name).left.nbytes


def _new(model: str) -> str:
    # A secret of the process and a number that rises: as hard to guess as random bytes, and cheaper to get.
    random = blake2b(next(_count).to_bytes(8), digest_size=_RANDOM, key=_SECRET).digest()
    return (random + _check(model, random)).hex()


def _is_of(model: str, name: str) -> bool:
    try:
        raw = bytes.fromhex(name)
    except ValueError:
        return False
    return len(raw) == _RANDOM + _CHECK and _check(model, raw[:_RANDOM]) == raw[_RANDOM:]


def _check(model: str, random: bytes) -> bytes:
    return blake2b(random + model.encode("utf-8", "surrogatepass"), digest_size=_CHECK).digest()


def _gone(name: str) -> Refusal:
    return Refusal(
        410, "adapter_gone",
        f"The adapter {name} was dropped: it was deleted, not used for too long, made room for newer ones, or the "
        'service was started anew. Send the support set to /adapt again, or along with the query as "support".',
    )  # fmt: skip


def _unknown(model: str, name: str) -> Refusal:
    return not_found("unknown_adapter", f"{name[:40]!r} is no adapter of {model}. Make one with /adapt.")
