"""Addresses: where the database's name leads, remembered for a few seconds.

Every client has a connection of its own to the database, and the system's resolver is asked in a thread: a hundred
clients that come at once would be a hundred questions to the name server. A failover that changes the name is followed
within `KEPT_SECONDS`, and at once where the address from before does not answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

KEPT_SECONDS = 3.0  # far below what name servers promise (60 s is short), long enough for a burst of clients
NAMES_MAX = 64  # a configuration names one database; tests and reloads may have a few

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]


class Addresses:
    """What is known of names. `lookup` asks the system; only names that are no addresses are looked up."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or _ask_the_system
        self._known: dict[tuple[str, int], tuple[float, asyncio.Future[Sequence[str]]]] = {}

    async def of(self, host: str, port: int) -> Sequence[str]:
        """Its addresses, best first. Raises OSError: the name is not known, or there is no answer."""
        if _is_address(host):
            return (host,)
        loop = asyncio.get_running_loop()
        until, asked = self._known.get((host, port), (0.0, None))
        if asked is None or asked.get_loop() is not loop or (asked.done() and loop.time() >= until):
            asked = loop.create_task(self._ask(host, port))
            asked.add_done_callback(_retrieved)
            self._keep(host, port, asked, loop.time() + KEPT_SECONDS)
        # Who gives up waiting must not end it for the others.
        return await asyncio.shield(asked)

    def forget(self, host: str, port: int) -> None:
        """No address that is known of it answered."""
        self._known.pop((host, port), None)

    def _keep(self, host: str, port: int, asked: asyncio.Future[Sequence[str]], until: float) -> None:
        if len(self._known) >= NAMES_MAX:
            self._known.clear()
        self._known[host, port] = (until, asked)

    async def _ask(self, host: str, port: int) -> Sequence[str]:
        try:
            return await self._lookup(host, port)
        except OSError:
            self.forget(host, port)  # a name server's trouble may be over with the next question
            raise


def _retrieved(asked: asyncio.Future[Sequence[str]]) -> None:
    """All who waited may have given up by now; then the error is nobody's."""
    if not asked.cancelled():
        asked.exception()


async def _ask_the_system(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


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
