"""Who asks, and how much each may hold of what all share: connections, and work that waits.

A client is an address. Behind a proxy all clients share the proxy's.
"""

import ipaddress
import math
from collections import Counter
from functools import lru_cache
from typing import Any

from fewstep.serve._limits import Limits
from fewstep.serve._refusal import Refusal, overloaded


@lru_cache(4096)
def client_name(host: str) -> str:
    """The client of an address: of IPv6 the network of 64 bits, since one machine has all the addresses in it."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def client_of(address: Any) -> str:
    """The client of a scope's `client`, which is an address and a port, or nothing where there is none."""
    return client_name(address[0]) if address else ""


class Connections:
    """The open connections, by client and in all."""

    def __init__(self, limits: Limits):
        self._limits = limits
        self._open: Counter[str] = Counter()
        self.total = 0

    def enter(self, client: str) -> Refusal | None:
        """Counts a connection; returns why it may not stay if there are too many."""
        own = self._open[client]
        self._open[client] += 1
        self.total += 1
        if own >= self._limits.client_connections:
            return _crowded(f"{client} has {own} connections, which is the limit for one client")
        if self.total > self._limits.connections:
            return _crowded(f"The service has {self.total - 1} connections, which is the limit")
        return None

    def leave(self, client: str) -> None:
        """Counts it no more."""
        self.total -= 1
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]


class Backlog:
    """The estimated seconds of work that each client has waiting."""

    def __init__(self, most: float):
        self._most = most
        self._waiting: dict[str, float] = {}

    def enter(self, client: str, seconds: float) -> None:
        """Counts work. Raises a `Refusal` if that client has too much already; one piece is always admitted."""
        waiting = self._waiting.get(client, 0.0)
        if waiting and waiting + seconds > self._most:
            raise overloaded(
                f"About {waiting:.1f} s of work of yours ({client}) is waiting, this request takes about {seconds:.1f} "
                f"s, and the limit for one client is {self._most:g} s. Wait for answers before you send more, or ask "
                "for fewer steps, samples or rows.",
                wait=math.ceil(waiting),
            )
        self._waiting[client] = waiting + seconds

    def leave(self, client: str, seconds: float) -> None:
        """Counts it no more."""
        rest = self._waiting[client] - seconds
        if rest > 1e-9:
            self._waiting[client] = rest
        else:
            del self._waiting[client]


def _crowded(fact: str) -> Refusal:
    told = f"{fact}. Close some, or use one connection for many requests."
    return Refusal(503, "too_many_connections", told, [(b"retry-after", b"1")])
