"""Mesh: this process's links to the other proxies of its database, over TCP, and what they tell each other.

They find each other in the table `queuegate_proxies` (engine.store.proxy_directory). The later one dials, so there is
one link between two processes, and a newcomer is linked at once. Workers of one proxy have their bus, and no links
among them.

No word has to arrive. A link that begins or ends may have cost words, so both ends look at everything once; where there
is no link, or no table, the safety scans find what is committed elsewhere, as if there were no mesh.
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
from proxy.listen.listener import bind
from proxy.listen.unknown_clients import Crowd
from proxy.transport.addresses import Address

log = logging.getLogger(__name__)

STRANGERS_MAX, OF_ADDRESS_MAX = 64, 32
"""Links that have not proved themselves, of all and of one address: proxies come one by one, and each takes a second at
most. One more takes the place of another (proxy.listen.unknown_clients)."""

ANSWERS_MAX = 100  # questions of all peers that are being answered; nobody asks so much at a time
FAILURES_TOLD = 6  # tries to reach a proxy: one that has just died is in the table for a while
READ_PAUSE_SECONDS = 1.0  # between two looks into the table for a number that is not known: anybody may name one
_FIRST_PAUSE, _MOST_PAUSE = 0.1, 5.0  # between two tries to reach a proxy that is in the table
_RETRY_SECONDS = 5.0  # while the table cannot be used
_FAREWELL_SECONDS = 1.0  # for the last words to be sent, and for the row to be deleted
_NO_RIGHT = frozenset((1044, 1142, 1143))


@dataclass(frozen=True, slots=True)
class MeshAddress:
    """How this process is to be known: where it listens, where others reach it (None: there), and as what."""

    listen: Address
    advertise: Address | None
    proxy: str
    worker: int
    shared: str = ""


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """What is done with the words that come."""

    commits: Callable[[CommitReport], None]
    lost: Callable[[], None]
    kill: Callable[[int, bool], None]
    answer: Answer


class Mesh(Service):
    """See the module."""

    def __init__(self, directory: ProxyDirectory, place: MeshAddress, hearing: PeerEvents) -> None:
        super().__init__("mesh", log)
        self._directory, self._place, self._hearing = directory, place, hearing
        self._loop = asyncio.get_running_loop()
        self._me: ProxyEntry | None = None
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._entries: dict[int, ProxyEntry] = {}
        self._seen: frozenset[int] = frozenset()  # those that renewed their rows, at our last look
        self._links: dict[int, PeerLink] = {}
        self._strangers: Crowd[PeerLink] = Crowd(STRANGERS_MAX, OF_ADDRESS_MAX, self._rank)
        self._dialing: dict[int, asyncio.Task[None]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self._failing = False
        self._gathering = CommitBatcher(self._say)
        self._questions = Questions("other proxies")

    def __repr__(self) -> str:
        return f"<Mesh {self._me and self._me.number} links={sorted(self._links)} dialing={sorted(self._dialing)}>"

    # --- what is said

    @property
    def leads(self) -> bool:
        """Of all proxies that are linked, and seen in the table, this one does what one of them has to do. One that is
        linked but cannot reach the database would do nothing."""
        me = self._me
        return me is None or not any(
            link.number < me.number and link.number in self._seen for link in self._members() if link.worker == 0
        )

    @property
    def others(self) -> int:
        """How many processes of other proxies there are, linked or not."""
        return len(self._entries.keys() | self._links.keys())

    def committed(self, report: CommitReport) -> None:
        """Tell the others."""
        if self._links:
            self._gathering.add(report)

    def kill(self, connection_id: int, query_only: bool) -> None:
        """Whoever has that connection of the same server shall end it, or what it is doing."""
        for number in self._beside():
            self._links[number].say(MessageKind.KILL, [connection_id, query_only])

    async def ask(self, question: str, value: object = None, *, same_server: bool = False) -> list[Item]:
        """What the others answer, or those at the same server. Those that do not answer in time are left out."""
        members: Collection[int] = self._beside() if same_server else tuple(self._links)

        def send(body: object) -> None:
            for number in members:
                self._links[number].say(MessageKind.ASK, body)

        return await self._questions.ask(question, value, members, send)

    def _say(self, kind: MessageKind, body: object) -> None:
        for link in self._links.values():
            link.say(kind, body)

    def _members(self) -> Iterator[ProxyEntry]:
        return (link.peer for link in self._links.values() if link.peer is not None)

    def _beside(self) -> tuple[int, ...]:
        """Those for whom a connection's id means the same connection."""
        me = self._me
        return tuple(peer.number for peer in self._members() if me is not None and peer.server == me.server)

    # --- what is heard (peer_link.Owner)

    async def entry_of(self, number: int) -> ProxyEntry | None:
        # One look for all that ask: numbers that nobody has must not keep one waiting that somebody has. A look that
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
            self._know(await self._directory.others(self._me))
        except BackendError as error:
            if not isinstance(error, BackendUnavailable):
                log.warning("the table of proxies cannot be read: %s", error)

    def linked(self, link: PeerLink) -> bool:
        assert link.peer is not None
        self._strangers.discard(link)
        if self._stopping.is_set():
            return False
        earlier = self._links.get(link.peer.number)
        self._links[link.peer.number] = link
        if earlier is not None:
            earlier.abort()
        log.info("linked to another proxy", extra={"peer": link.peer.address, "number": link.peer.number})
        self._hearing.lost()
        return True

    def unlinked(self, link: PeerLink) -> None:
        assert link.peer is not None
        if self._links.get(link.peer.number) is not link:
            return
        del self._links[link.peer.number]
        self._questions.left((link.peer.number,))
        if not self._stopping.is_set():
            log.info("link to another proxy is gone", extra={"peer": link.peer.address, "number": link.peer.number})
            self._hearing.lost()

    def heard(self, link: PeerLink, frame: Frame) -> None:
        assert link.peer is not None
        match frame.kind:
            case MessageKind.COMMITS:
                self._hearing.commits(report_of(frame.body))
            case MessageKind.LOST:
                self._hearing.lost()
            case MessageKind.KILL:
                connection_id, query_only = frame.body
                if link.peer.number in self._beside():
                    self._hearing.kill(int(connection_id), bool(query_only))
            case MessageKind.ASK:
                self._answer(link, *frame.body)
            case MessageKind.ANSWER:
                number, items, more = frame.body
                self._questions.answered(link.peer.number, number, list(items), bool(more))
            case _:
                pass  # PING, and what a later version says

    def _answer(self, link: PeerLink, number: int, question: str, value: Any) -> None:
        if len(self._answering) >= ANSWERS_MAX:
            return

        def reply(body: object) -> None:
            link.say(MessageKind.ANSWER, body)

        task = self._loop.create_task(answer(reply, self._hearing.answer, number, question, value))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    # --- who is there

    async def open(self) -> None:
        """Listen, and look for the others in the background. Raises OSError where the address cannot be had."""
        if not self._sockets:
            self._sockets = bind(self._place.listen)
        await super().open()

    async def close(self, *, grace_seconds: float = _FAREWELL_SECONDS) -> None:
        """Say what is left to say, and leave."""
        await super().close(grace_seconds=grace_seconds)
        self._stop_listening()
        reading = () if self._reading is None else (self._reading,)
        for task in (*self._dialing.values(), *self._answering, *reading):
            task.cancel()
        self._gathering.close()
        self._questions.close()
        for stranger in self._strangers:
            stranger.abort()
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
        """Join, or renew; and know who else is there."""
        if self._me is None:
            self._me = await self._directory.join(self._entry())
            self._servers = [await self._listen(bound) for bound in self._sockets]
            log.debug("listening for other proxies", extra={"at": self._me.address, "number": self._me.number})
        self._me, others = await self._directory.beat(self._me)
        self._know(others)
        for address in await self._directory.fence(self._me, tuple(self._links)):
            log.warning("another proxy is not seen, its sessions at the database were ended", extra={"peer": address})

    def _entry(self) -> ProxyEntry:
        place = self._place
        where = place.advertise or place.listen
        port = where.port or self._sockets[0].getsockname()[1]
        return ProxyEntry(place.proxy, place.worker, str(Address(where.host, port)), secrets.token_hex(32))

    async def _listen(self, bound: socket.socket) -> asyncio.Server:
        return await self._loop.create_server(self._stranger, sock=bound)

    def _stranger(self) -> asyncio.Protocol:
        assert self._me is not None
        link = PeerLink(self, self._me, self._place.shared)
        link.on_connected = self._arrived
        link.ended.add_done_callback(lambda _: self._strangers.discard(link))
        return link

    def _arrived(self, link: PeerLink, host: str) -> None:
        one_too_many = self._strangers.add(link, source_of(host))
        if one_too_many is not None:
            self._strangers.discard(one_too_many)
            one_too_many.abort()

    def _rank(self, link: PeerLink) -> int:
        """Who goes first: those that have said nothing, those that named a number that is not in the table, others."""
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
        elif not isinstance(error, BackendUnavailable):  # the engine tells of that
            log.warning("the table of proxies cannot be used, trying again: %s", error)

    def _know(self, others: list[ProxyEntry]) -> None:
        """These are alive: dial the earlier ones that are not linked, forget the others."""
        me = self._me
        if me is None or self._stopping.is_set():
            return
        # A link that stands is better proof of life than a row that is not renewed: the database may be slow.
        self._seen = frozenset(entry.number for entry in others)
        kept = {number: entry for number, entry in self._entries.items() if number in self._links}
        self._entries = kept | {entry.number: entry for entry in others if entry.proxy != me.proxy}
        for number, link in self._links.items():
            if link.peer is not None:
                link.peer = replace(link.peer, server=self._entries[number].server)
        for number in [number for number in self._dialing if number not in self._entries]:
            self._dialing.pop(number).cancel()
        for number in self._entries:
            if number < me.number and number not in self._dialing:
                self._dialing[number] = self._loop.create_task(self._keep_linked(number))

    async def _keep_linked(self, number: int) -> None:
        pauses, failures = DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE), 0
        while not self._stopping.is_set() and number in self._entries:
            entry = self._entries[number]
            if await self._dial(entry):
                pauses.reset()
                failures = 0
            else:
                failures += 1
            if failures == FAILURES_TOLD:
                log.warning("another proxy cannot be reached, trying again", extra={"peer": entry.address})
            await self._pause(pauses.take())

    async def _dial(self, entry: ProxyEntry) -> bool:
        """Link to it, until the link ends. Returns whether it was ever linked."""
        assert self._me is not None
        me, host_port = self._me, entry.address.rpartition(":")
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                _, link = await self._loop.create_connection(
                    lambda: PeerLink(self, me, self._place.shared, entry), host_port[0].strip("[]"), int(host_port[2])
                )
        except (OSError, TimeoutError, ValueError) as error:
            log.debug("another proxy cannot be reached: %s", error, extra={"peer": entry.address})
            return False
        try:
            await asyncio.shield(link.ended)
        finally:
            link.close()
        return link.was_linked
