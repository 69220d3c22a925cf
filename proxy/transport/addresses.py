"""Addresses: the addresses of the database's name, cached for a few seconds.

Every client has a connection of its own to the database, and the system's resolver is asked in a thread: a hundred
clients that come at once would be a hundred questions to the name server. A failover that changes the name is followed
within `CACHE_SECONDS`, and at once where the address from before does not answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

CACHE_SECONDS = 3.0  # far below what name servers promise (60 s is short), long enough for a burst of clients
NAMES_MAX = 64  # a configuration names one database; tests and reloads may have a few

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]


class Addresses:
    """A cache of lookups. `lookup` asks the system; only names that are no addresses are looked up."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or _system_lookup
        self._cache: dict[tuple[str, int], tuple[float, asyncio.Future[Sequence[str]]]] = {}

    async def of(self, host: str, port: int) -> Sequence[str]:
        """Its addresses, best first. Raises OSError: the name is not known, or there is no answer."""
        if _is_address(host):
            return (host,)
        loop = asyncio.get_running_loop()
        until, lookup = self._cache.get((host, port), (0.0, None))
        if lookup is None or lookup.get_loop() is not loop or (lookup.done() and loop.time() >= until):
            lookup = loop.create_task(self._resolve(host, port))
            lookup.add_done_callback(_retrieved)
            self._store(host, port, lookup, loop.time() + CACHE_SECONDS)
        # A caller that gives up must not cancel it for the others.
        return await asyncio.shield(lookup)

    def forget(self, host: str, port: int) -> None:
        """None of its cached addresses answered."""
        self._cache.pop((host, port), None)

    def _store(self, host: str, port: int, lookup: asyncio.Future[Sequence[str]], until: float) -> None:
        if len(self._cache) >= NAMES_MAX:
            self._cache.clear()
        self._cache[host, port] = (until, lookup)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._lookup(host, port)
        except OSError:
            self.forget(host, port)  # a name server's trouble may be over with the next question
            raise


def _retrieved(lookup: asyncio.Future[Sequence[str]]) -> None:
    """All callers may have given up; then no one retrieves the error."""
    if not lookup.cancelled():
        lookup.exception()


async def _system_lookup(host: str, port: int) -> Sequence[str]:
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in results))


@lru_cache(maxsize=NAMES_MAX)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class Address(NamedTuple):
    """Where to listen. Port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """True where only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
