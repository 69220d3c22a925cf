"""Mesh: this process's links to the other proxies of its database, over TCP, and the messages on them.

They find each other in the table `queuegate_proxies` (engine.store.proxy_directory). The later one dials, so there is
one link between two processes, and a newcomer is linked at once. Workers of one proxy have their bus, and no links
among them.

No message has to arrive. When a link begins or ends messages may be lost, so both ends then poll everything once; where
there is no link, or no table, the safety scans find what is committed elsewhere, as without a mesh.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from engine.model.backoff import DoublingDelay
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, BackendUnavailable
from engine.service import Service
from engine.shared_future import wait_shared
from engine.store.proxy_directory import BEAT_SECONDS, ProxyDirectory, ProxyEntry
from proxy.cluster.messages import Frame, MessageKind, report_of
from proxy.cluster.outbox import CommitBatcher
from proxy.cluster.peer_link import LOGIN_SECONDS, PeerLink
from proxy.cluster.questions import Answer, Item, Questions, answer
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


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """The handlers of received messages."""

    commits: Callable[[CommitReport], None]
    lost: Callable[[], None]
    kill: Callable[[int, bool], None]
    answer: Answer


class Mesh(Service):
    """See the module."""

    def __init__(self, directory: ProxyDirectory, address: MeshAddress, events: PeerEvents) -> None:
        super().__init__("mesh", log)
        self._directory, self._address, self._events = directory, address, events
        self._loop = asyncio.get_running_loop()
        self._me: ProxyEntry | None = None
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._entries: dict[int, ProxyEntry] = {}
        self._live_numbers: frozenset[int] = (
            frozenset()
        )  # those that had renewed their rows when the table was last read
        self._links: dict[int, PeerLink] = {}
        self._unauthenticated: BoundedConnections[PeerLink] = BoundedConnections(
            UNAUTHENTICATED_MAX, OF_ADDRESS_MAX, self._rank
        )
        self._dialing: dict[int, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self._failing = False
        self._commit_batcher = CommitBatcher(self._broadcast)
        self._questions = Questions("other proxies")

    def __repr__(self) -> str:
        return f"<Mesh {self._me and self._me.number} links={sorted(self._links)} dialing={sorted(self._dialing)}>"

    # --- sending

    @property
    def leads(self) -> bool:
        """Of all proxies that are linked, and seen in the table, this one does what one of them has to do. One that is
        linked but cannot reach the database would do nothing."""
        me = self._me
        return me is None or not any(
            link.number < me.number and link.number in self._live_numbers
            for link in self._members()
            if link.worker == 0
        )

    @property
    def others(self) -> int:
        """How many processes of other proxies there are, linked or not."""
        return len(self._entries.keys() | self._links.keys())

    def committed(self, report: CommitReport) -> None:
        """Report to the others."""
        if self._links:
            self._commit_batcher.add(report)

    def kill(self, connection_id: int, query_only: bool) -> None:
        """The peer that has that connection of the same server ends it, or its statement."""
        for number in self._same_server_peers():
            self._links[number].send(MessageKind.KILL, [connection_id, query_only])

    async def query(self, question: str, value: object = None, *, same_server: bool = False) -> list[Item]:
        """What the others answer, or those at the same server. Those that do not answer in time are left out."""
        members: Collection[int] = self._same_server_peers() if same_server else tuple(self._links)

        def send(body: object) -> None:
            for number in members:
                self._links[number].send(MessageKind.ASK, body)

        return await self._questions.query(question, value, members, send)

    def _broadcast(self, kind: MessageKind, body: object) -> None:
        for link in self._links.values():
            link.send(kind, body)

    def _members(self) -> Iterator[ProxyEntry]:
        return (link.peer for link in self._links.values() if link.peer is not None)

    def _same_server_peers(self) -> tuple[int, ...]:
        """Those for whom a connection's id means the same connection."""
        me = self._me
        return tuple(peer.number for peer in self._members() if me is not None and peer.server == me.server)

    # --- receiving (peer_link.Owner)

    async def entry_of(self, number: int) -> ProxyEntry | None:
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

    def linked(self, link: PeerLink) -> bool:
        assert link.peer is not None
        self._unauthenticated.discard(link)
        if self._stopping.is_set():
            return False
        earlier = self._links.get(link.peer.number)
        self._links[link.peer.number] = link
        if earlier is not None:
            earlier.abort()
        log.info("linked to another proxy", extra={"peer": link.peer.address, "number": link.peer.number})
        self._events.lost()
        return True

    def unlinked(self, link: PeerLink) -> None:
        assert link.peer is not None
        if self._links.get(link.peer.number) is not link:
            return
        del self._links[link.peer.number]
        self._questions.on_members_left((link.peer.number,))
        if not self._stopping.is_set():
            log.info("link to another proxy is gone", extra={"peer": link.peer.address, "number": link.peer.number})
            self._events.lost()

    def on_frame(self, link: PeerLink, frame: Frame) -> None:
        assert link.peer is not None
        match frame.kind:
            case MessageKind.COMMITS:
                self._events.commits(report_of(frame.body))
            case MessageKind.LOST:
                self._events.lost()
            case MessageKind.KILL:
                connection_id, query_only = frame.body
                if link.peer.number in self._same_server_peers():
                    self._events.kill(int(connection_id), bool(query_only))
            case MessageKind.ASK:
                self._answer(link, *frame.body)
            case MessageKind.ANSWER:
                number, items, more = frame.body
                self._questions.on_answer(link.peer.number, number, list(items), bool(more))
            case _:
                pass  # PING, and kinds of a later version

    def _answer(self, link: PeerLink, number: int, question: str, value: Any) -> None:
        if len(self._answering) >= ANSWERS_MAX:
            return

        def reply(body: object) -> None:
            link.send(MessageKind.ANSWER, body)

        task = self._loop.create_task(answer(reply, self._events.answer, number, question, value))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    # --- membership

    async def open(self) -> None:
        """Listen, and look for the others in the background. Raises OSError where the address cannot be had."""
        if not self._sockets:
            self._sockets = bind(self._address.listen)
        await super().open()

    async def close(self, *, grace_seconds: float = _CLOSE_SECONDS) -> None:
        """Send what is left to send, and leave."""
        await super().close(grace_seconds=grace_seconds)
        self._stop_listening()
        reading = () if self._reading is None else (self._reading,)
        for task in (*self._dialing.values(), *self._answering, *reading):
            task.cancel()
        self._commit_batcher.close()
        self._questions.close()
        for unauthenticated in self._unauthenticated:
            unauthenticated.abort()
        links = list(self._links.values())
        for link in links:
            link.close()
        if links:
            await asyncio.wait([link.ended for link in links], timeout=grace_seconds)
        for link in links:
            link.abort()
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
        self._me, others = await self._directory.beat(self._me)
        self._update_peers(others)
        for address in await self._directory.fence(self._me, tuple(self._links)):
            log.warning("another proxy is not seen, its sessions at the database were ended", extra={"peer": address})

    def _entry(self) -> ProxyEntry:
        own = self._address
        where = own.advertise or own.listen
        port = where.port or self._sockets[0].getsockname()[1]
        return ProxyEntry(own.proxy, own.worker, str(Address(where.host, port)), secrets.token_hex(32))

    async def _listen(self, bound: socket.socket) -> asyncio.Server:
        return await self._loop.create_server(self._accept_link, sock=bound)

    def _accept_link(self) -> asyncio.Protocol:
        assert self._me is not None
        link = PeerLink(self, self._me, self._address.shared)
        link.on_connected = self._on_link_connected
        link.ended.add_done_callback(lambda _: self._unauthenticated.discard(link))
        return link

    def _on_link_connected(self, link: PeerLink, host: str) -> None:
        evicted = self._unauthenticated.add(link, source_of(host))
        if evicted is not None:
            self._unauthenticated.discard(evicted)
            evicted.abort()

    def _rank(self, link: PeerLink) -> int:
        """The order of eviction: links that have sent nothing, links with a number that is not in the table, others."""
        if link.claims is None:
            return 0
        return 2 if link.claims in self._entries else 1

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
        linked = {number: entry for number, entry in self._entries.items() if number in self._links}
        self._entries = linked | {entry.number: entry for entry in others if entry.proxy != me.proxy}
        for number, link in self._links.items():
            if link.peer is not None:
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
        me, host_port = self._me, entry.address.rpartition(":")
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                _, link = await self._loop.create_connection(
                    lambda: PeerLink(self, me, self._address.shared, entry), host_port[0].strip("[]"), int(host_port[2])
                )
        except (OSError, TimeoutError, ValueError) as error:
            log.debug("another proxy cannot be reached: %s", error, extra={"peer": entry.address})
            return False
        try:
            await asyncio.shield(link.ended)
        finally:
            link.close()
        return link.was_linked
