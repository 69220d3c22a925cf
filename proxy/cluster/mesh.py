"""Mesh: this process's links to the other proxies of its database, over TCP.

They find each other in the table `queuegate_proxies` (engine.store.proxy_directory). The later one dials, so there is
one link between two processes, and a newcomer is linked at once. Workers of one proxy are linked otherwise
(proxy.cluster.worker_links).

Where there is no link, or no table, the safety scans find what is committed elsewhere, as without a mesh.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from dataclasses import dataclass, replace

from engine.model.backoff import DoublingDelay
from engine.model.errors import BackendError, BackendUnavailable
from engine.service import Service
from engine.shared_future import wait_shared
from engine.store.proxy_directory import BEAT_SECONDS, ProxyDirectory, ProxyEntry
from proxy.cluster.peer_handshake import HANDSHAKE_SECONDS, PeerHandshake
from proxy.cluster.peer_links import PeerEvents, PeerLinks
from proxy.cluster.questions import Item
from proxy.listen.admission import source_of
from proxy.listen.bounded_connections import BoundedConnections
from proxy.listen.listener import bind
from proxy.transport.addresses import Address

log = logging.getLogger(__name__)

UNAUTHENTICATED_MAX, OF_ADDRESS_MAX = 64, 32
"""Unauthenticated links, of all addresses and of one: proxies connect one by one, and each takes a second at most. One
more takes the place of another (proxy.listen.bounded_connections)."""

ANSWERS_MAX = 100  # questions of all peers that are being answered; peers do not ask that much at a time
FAILURES_LOGGED = 6  # tries to reach a proxy: one that has just died is in the table for a while
READ_PAUSE_SECONDS = 1.0  # between two reads of the table for an unknown number: any client can send one
_FIRST_PAUSE, _MOST_PAUSE = 0.1, 5.0  # between two tries to reach a proxy that is in the table
_RETRY_SECONDS = 5.0  # while the table cannot be used
_CLOSE_SECONDS = 1.0  # for the last messages to be sent, and for the row to be deleted
_NO_RIGHT = frozenset((1044, 1142, 1143))


@dataclass(frozen=True, slots=True)
class MeshAddress:
    """How other processes reach this one: where it listens, the address for others (None: the same), and its
    identity."""

    listen: Address
    advertise: Address | None
    proxy: str
    worker: int
    shared: str = ""


class Mesh(Service):
    """See the module."""

    def __init__(self, directory: ProxyDirectory, address: MeshAddress, events: PeerEvents) -> None:
        super().__init__("mesh", log)
        self.links = PeerLinks("another proxy", "other proxies", events, logging.INFO, ANSWERS_MAX)
        self._directory, self._address = directory, address
        self._loop = asyncio.get_running_loop()
        self._me: ProxyEntry | None = None
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._entries: dict[int, ProxyEntry] = {}
        self._live_numbers: frozenset[int] = frozenset()
        """Those that had renewed their rows when the table was last read."""
        self._unauthenticated: BoundedConnections[PeerHandshake] = BoundedConnections(
            UNAUTHENTICATED_MAX, OF_ADDRESS_MAX, self._rank
        )
        self._dialing: dict[int, asyncio.Task[None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self._failing = False

    def __repr__(self) -> str:
        return f"<Mesh {self._me and self._me.number} {self.links} dialing={sorted(self._dialing)}>"

    @property
    def leads(self) -> bool:
        """Of all proxies that are linked, and seen in the table, this one does what one of them has to do. One that is
        linked but cannot reach the database would do nothing."""
        me = self._me
        return me is None or not any(
            number < me.number and number in self._live_numbers
            for number, link in self.links.by_number.items()
            if link.peer.worker == 0
        )

    @property
    def is_registered(self) -> bool:
        """Whether it is in the table of proxies, by which all find each other."""
        return self._me is not None

    @property
    def others(self) -> frozenset[int]:
        """The processes of other proxies that there are, linked or not."""
        return frozenset(self._entries.keys() | self.links.by_number.keys())

    async def query(self, question: str, value: object = None, *, same_server: bool = False) -> list[Item]:
        """What all that are linked answer, or those at the same server."""
        members = self.links.at_same_server() if same_server else tuple(self.links.by_number)
        return await self.links.query(question, value, members)

    async def entry_of(self, number: int) -> ProxyEntry | None:
        """See PeerHandshake."""
        # One look for all that ask: numbers that no one has must not keep one waiting that someone has. A look that
        # had begun may have been too early.
        began = False
        while number not in self._entries and not began:
            if self._reading is None or self._reading.done():
                self._reading, began = self._loop.create_task(self._read()), True
            await wait_shared(self._reading)
        return self._entries.get(number)

    async def _read(self) -> None:
        assert self._me is not None
        await asyncio.sleep(self._read_at + READ_PAUSE_SECONDS - self._loop.time())
        self._read_at = self._loop.time()
        try:
            self._update_peers(await self._directory.others(self._me))
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                log.warning("the table of proxies cannot be read: %s", error)

    # --- membership

    async def open(self) -> None:
        """Listen, and look for the others in the background. Raises OSError where the address cannot be had."""
        if not self._sockets:
            self._sockets = bind(self._address.listen, "peers.listen")
        await super().open()

    async def close(self, *, grace_seconds: float = _CLOSE_SECONDS) -> None:
        """Send what is left to send, and leave."""
        await super().close(grace_seconds=grace_seconds)
        self._stop_listening()
        reading = () if self._reading is None else (self._reading,)
        for task in (*self._dialing.values(), *reading):
            task.cancel()
        for unauthenticated in self._unauthenticated:
            unauthenticated.abort()
        await self.links.close(grace_seconds)
        await self._leave(grace_seconds)

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        for bound in self._sockets:
            bound.close()
        self._servers, self._sockets = [], []

    async def _leave(self, grace_seconds: float) -> None:
        if self._me is not None:
            me, self._me = self._me, None
            try:
                await asyncio.wait_for(self._directory.leave(me), grace_seconds)
            except (BackendError, TimeoutError):
                pass  # then it is taken for dead in a while

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._beat()
                self._failing = False
                await self._pause(BEAT_SECONDS)
            except BackendError as error:
                self._failed(error)
                await self._pause(_RETRY_SECONDS)

    async def _beat(self) -> None:
        """Join or renew, and read the other entries."""
        if self._me is None:
            self._me = await self._directory.join(self._entry())
            self._servers = [await self._listen(bound) for bound in self._sockets]
            log.debug("listening for other proxies", extra={"at": self._me.address, "number": self._me.number})
        me, others = await self._directory.beat(self._me)
        if me.number != self._me.number:
            self._renumber(me)
        self._me = me
        self._update_peers(others)
        for address in await self._directory.fence(self._me, tuple(self.links.by_number)):
            log.warning("another proxy is not seen, its sessions at the database were ended", extra={"peer": address})

    def _renumber(self, me: ProxyEntry) -> None:
        """Its row was deleted, and another proxy has got the number: whoever is linked knows it by that."""
        log.warning("another proxy has this one's number; it is linked anew", extra={"number": me.number})
        for task in self._dialing.values():
            task.cancel()
        self._dialing.clear()
        for link in list(self.links.by_number.values()):
            link.abort()

    def _entry(self) -> ProxyEntry:
        own = self._address
        where = own.advertise or own.listen
        port = where.port or self._sockets[0].getsockname()[1]
        return ProxyEntry(own.proxy, own.worker, str(Address(where.host, port)), secrets.token_hex(32))

    async def _listen(self, bound: socket.socket) -> asyncio.Server:
        return await self._loop.create_server(self._accept_link, sock=bound)

    def _accept_link(self) -> asyncio.Protocol:
        assert self._me is not None
        handshake = PeerHandshake(self.links, self._me, self._address.shared, find=self.entry_of)
        handshake.on_connected = self._on_connected
        handshake.done.add_done_callback(lambda _: self._unauthenticated.discard(handshake))
        return handshake

    def _on_connected(self, handshake: PeerHandshake, host: str) -> None:
        evicted = self._unauthenticated.add(handshake, source_of(host))
        if evicted is not None:
            self._unauthenticated.discard(evicted)
            evicted.abort()

    def _rank(self, handshake: PeerHandshake) -> int:
        """The order of eviction: those that have sent nothing, those with a number that is not in the table, others."""
        if handshake.claims is None:
            return 0
        return 2 if handshake.claims in self._entries else 1

    def _failed(self, error: BackendError) -> None:
        if self._failing:
            return
        self._failing = True
        if error.errno in _NO_RIGHT:
            log.error(
                "other proxies of this database cannot be found, what they commit is noticed by safety scans only: %s;"
                " grant CREATE, SELECT, INSERT, UPDATE, DELETE on queuegate_proxies, or say peers: false", error
            )  # fmt: skip
        elif not isinstance(error, BackendUnavailable):  # the engine reports that
            log.warning("the table of proxies cannot be used, trying again: %s", error)

    def _update_peers(self, others: list[ProxyEntry]) -> None:
        """These are alive: dial the earlier ones that are not linked, forget the others."""
        me = self._me
        if me is None or self._stopping.is_set():
            return
        # An open link is a better sign of life than a renewed row: the database may be slow.
        self._live_numbers = frozenset(entry.number for entry in others)
        linked = {number: entry for number, entry in self._entries.items() if number in self.links.by_number}
        self._entries = linked | {entry.number: entry for entry in others if entry.proxy != me.proxy}
        self.links.server = me.server
        for number, link in self.links.by_number.items():
            if number in self._entries:  # not where it was linked while its row was old
                link.peer = replace(link.peer, server=self._entries[number].server)
        for number in [number for number in self._dialing if number not in self._entries]:
            self._dialing.pop(number).cancel()
        for number in self._entries:
            if number < me.number and number not in self._dialing:
                self._dialing[number] = self._loop.create_task(self._maintain_link(number))

    async def _maintain_link(self, number: int) -> None:
        pauses, failures = DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE), 0
        while not self._stopping.is_set() and number in self._entries:
            entry = self._entries[number]
            if await self._dial(entry):
                pauses.reset()
                failures = 0
            else:
                failures += 1
            if failures == FAILURES_LOGGED:
                log.warning("another proxy cannot be reached, trying again", extra={"peer": entry.address})
            await self._pause(pauses.take())

    async def _dial(self, entry: ProxyEntry) -> bool:
        """Link to it, until the link ends. Returns whether it was ever linked."""
        assert self._me is not None
        handshake = PeerHandshake(self.links, self._me, self._address.shared, peer=entry)
        host, _, port = entry.address.rpartition(":")
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await self._loop.create_connection(lambda: handshake, host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError) as error:
            log.debug("another proxy cannot be reached: %s", error, extra={"peer": entry.address})
            return False
        try:
            link = await asyncio.shield(handshake.done)
            if link is not None:
                await asyncio.shield(link.ended)
        finally:
            handshake.close()
        return link is not None
