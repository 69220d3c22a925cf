"""WorkerLinks: this worker's links to the other workers of its proxy, over Unix sockets.

The supervisor binds one listening socket for each worker before it starts the first, at a name that the kernel chooses
and that is in no file system. All workers inherit all of them: a worker listens at its own, and connections to one that
is being started again wait there until it accepts them. The worker with the higher number dials, so there is one link
between two workers. No login: the kernel names the process that has dialed, which has to be one that the shared counts
show as a worker; and nobody can listen at a name that is bound. The listener sends one byte as it accepts.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import cast

from engine.store.proxy_directory import ProxyEntry
from proxy.cluster.peer_link import PeerLink
from proxy.cluster.peer_links import PeerEvents, PeerLinks
from proxy.cluster.questions import Item
from proxy.listen.listener import WorkerSlot

log = logging.getLogger(__name__)

BACKLOG = 128  # links that wait for a worker that starts: one of each other worker, and of those that died waiting
LINK_SECONDS = 2.0  # for workers that start at the same time; one that takes longer is linked later
_DIAL_PAUSE_SECONDS = 0.1  # after a link ended; it is then dialed once, however long the other end takes
_WAIT_SECONDS = 0.01
_CLOSE_SECONDS = 1.0  # for the last messages to be sent
_ACCEPTED = b"+"
_CREDENTIALS = struct.Struct("3i")  # of a process: its number, its user's, its group's


def listening(workers: int) -> tuple[socket.socket, ...]:
    """A listening socket for each worker."""
    return tuple(_listening() for _ in range(workers))


def _listening() -> socket.socket:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind("")
    bound.listen(BACKLOG)
    bound.setblocking(False)
    return bound


def process_of(sock: socket.socket) -> int:
    """The process that has dialed."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


class WorkerLinks:
    """See the module."""

    def __init__(self, slot: WorkerSlot, events: PeerEvents) -> None:
        self.links = PeerLinks("another worker", "other workers", events, logging.DEBUG, float("inf"))
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._dialing: list[asyncio.Task[None]] = []

    @property
    def others(self) -> frozenset[int]:
        """The other workers that are there, linked or not."""
        return frozenset(self._slot.tally.processes())

    async def query(self, question: str, value: object = None) -> list[Item]:
        """What all that are there answer."""
        return await self.links.query(question, value, self.others)

    async def open(self) -> None:
        """Returns once all others that are there are linked, or have had their time."""
        own = self._slot.worker
        self._server = await self._loop.create_unix_server(lambda: _Accepted(self.accepted), sock=self._slot.links[own])
        self._dialing = [self._loop.create_task(self._maintain_link(number)) for number in range(own)]
        try:
            async with asyncio.timeout(LINK_SECONDS):
                while not self.links.by_number.keys() >= self.others:  # noqa: ASYNC110 (no event is shared)
                    await asyncio.sleep(_WAIT_SECONDS)
        except TimeoutError:
            pass  # it hangs, or starts slowly

    async def close(self) -> None:
        """Send what is left to send, and end all links."""
        if self._server is not None:
            self._server.close()
        for task in self._dialing:
            task.cancel()
        await self.links.close(_CLOSE_SECONDS)

    def accepted(self, transport: asyncio.Transport) -> None:
        """Another worker has dialed; whatever else it is, is cut off."""
        dialer = process_of(transport.get_extra_info("socket"))
        for number, process in self._slot.tally.processes().items():
            if process == dialer and number > self._slot.worker:
                transport.write(_ACCEPTED)
                link = self._link(number)
                transport.set_protocol(link)
                link.connection_made(transport)
                return
        transport.abort()

    async def _maintain_link(self, number: int) -> None:
        while True:
            try:
                link = await self._dial(number)
            except OSError as error:
                log.debug("another worker cannot be reached: %s", error, extra={"number": number})
            else:
                await asyncio.shield(link.ended)
            await asyncio.sleep(_DIAL_PAUSE_SECONDS)

    async def _dial(self, number: int) -> PeerLink:
        """Link to it, as soon as it accepts. Raises OSError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(self._slot.links[number].getsockname())
            if await self._loop.sock_recv(sock, len(_ACCEPTED)) != _ACCEPTED:
                raise OSError("it did not accept the link")
            _, link = await self._loop.create_unix_connection(lambda: self._link(number), sock=sock)
        except BaseException:
            sock.close()
            raise
        return link

    def _link(self, number: int) -> PeerLink:
        return PeerLink(self.links, ProxyEntry(self._slot.proxy, number, f"worker {number}", "", number))


class _Accepted(asyncio.Protocol):
    """A new connection, for a moment."""

    def __init__(self, accept: Callable[[asyncio.Transport], None]) -> None:
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accept(cast(asyncio.Transport, transport))
