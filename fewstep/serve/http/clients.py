"""Who sends requests, and how many connections each may have.

A client is an address. Behind a proxy all clients share the proxy's.
"""

import ipaddress
from collections import Counter
from functools import lru_cache

from fewstep.serve.errors import Refusal, unavailable
from fewstep.serve.limits import Limits


@lru_cache(4096)
def client_name(host: str) -> str:
    """The client of an address: of IPv6 the network of 64 bits, since one machine has all the addresses in it."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def client_of(address: tuple[str, int] | None) -> str:
    """The client of a scope's `client`, which is an address and a port, or None."""
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
            return _too_many(f"{client} has {own} connections, which is the limit for one client")
        if self.total > self._limits.connections:
            return _too_many(f"The service has {self.total - 1} connections, which is the limit")
        return None

    def leave(self, client: str) -> None:
        """Counts it no more."""
        self.total -= 1
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]


def _too_many(fact: str) -> Refusal:
    return unavailable("too_many_connections", f"{fact}. Close some, or use one connection for many requests.")
