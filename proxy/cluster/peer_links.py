"""PeerLinks: all links of this process to the other workers, or to the other proxies, and the messages on them.

Reports that follow each other closely are sent together (`CommitBatcher`). Questions are answered at once, and those of
this process wait for the peers that were asked (proxy.cluster.questions).

No message has to arrive. When a link begins or ends messages may be lost, so both ends then poll everything once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.model.assignment import Member
from engine.model.commit_report import CommitReport
from engine.model.queue import QueueName
from engine.sticky_members import Members
from proxy.cluster.messages import (
    Frame,
    MessageKind,
    encode,
    members_bodies,
    members_body,
    members_of,
    merged,
    report_body,
    report_of,
)
from proxy.cluster.peer_link import PeerLink
from proxy.cluster.questions import Answer, Item, Questions, answer

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.002  # at most 500 messages a second from each process, whatever it commits


class MembersEvents(Protocol):
    """The receivers with keys of their own, as the links exchange them (engine.sticky_members)."""

    @property
    def here(self) -> Members:
        """Those of this process."""
        ...

    def reported(self, neighbour: Hashable, members: Members, *, all_queues: bool) -> None:
        """Those of a peer."""
        ...

    def gone(self, neighbour: Hashable) -> None:
        """A peer has none any more."""
        ...


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """The handlers of received messages. Failed logins are counted by the workers of one proxy only."""

    commits: Callable[[CommitReport], None]
    lost: Callable[[], None]
    kill: Callable[[int, bool], None]
    answer: Answer
    members: MembersEvents
    login: Callable[[str, bool], None] | None = None


class CommitBatcher:
    """Reports of commits, sent at once after a pause, and together while many arrive. `send` is called with a kind and
    its body. A message costs the same for one commit or fifty."""

    def __init__(self, send: Callable[[MessageKind, object], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: list[CommitReport] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Nothing waits, and the next report would be sent at once."""
        return self._timer is None

    def add(self, report: CommitReport) -> None:
        """Send it, now or together with what follows in a moment."""
        self._reports.append(report)
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        """Send what waits: others can have the released messages at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._timer = None
        if self._reports:
            reports, self._reports = self._reports, []
            try:
                self._send(MessageKind.COMMITS, report_body(merged(reports)))
            except ValueError:
                self._send(MessageKind.LOST, None)  # thousands of queues at once: let them poll all
            self._timer = self._loop.call_later(BATCH_SECONDS, self._flush)


class PeerLinks:
    """See the module. `one`, `all_`: what a peer, and what all of them, are called in the log, on `level`.
    `answers_max`: questions of all peers that are being answered at a time."""

    def __init__(self, one: str, all_: str, events: PeerEvents, level: int, answers_max: float) -> None:
        self.one = one
        self.by_number: dict[int, PeerLink] = {}
        self.server = ""
        """The database server of this process: ids of connections mean the same to peers that have the same."""
        self.closing = False
        self.questions = Questions(all_)
        self._events, self._level, self._answers_max = events, level, answers_max
        self._commit_batcher = CommitBatcher(self.broadcast)
        self._answering: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<PeerLinks {sorted(self.by_number)}>"

    async def close(self, grace_seconds: float) -> None:
        """Send what is left to send, and end all links."""
        self.closing = True
        for task in self._answering:
            task.cancel()
        self._commit_batcher.close()
        self.questions.close()
        links = list(self.by_number.values())
        for link in links:
            link.close()
        if links:
            await asyncio.wait([link.ended for link in links], timeout=grace_seconds)
        for link in links:
            link.abort()

    # --- sending

    def committed(self, report: CommitReport) -> None:
        """Report to the others, now or together with what follows in a moment."""
        if self.by_number:
            self._commit_batcher.add(report)

    def members_changed(self, queue: QueueName, members: Sequence[Member]) -> None:
        """These are now this process's receivers of that queue that have keys of their own."""
        self.broadcast(MessageKind.MEMBERS, members_body(queue, members))

    def kill(self, connection_id: int, query_only: bool) -> None:
        """The peer that has that connection of the same server ends it, or its statement."""
        self._send(MessageKind.KILL, [connection_id, query_only], self.at_same_server())

    def broadcast(self, kind: MessageKind, body: object) -> None:
        """Send it to all."""
        self._send(kind, body, self.by_number)

    async def query(self, question: str, value: object, members: Collection[int]) -> list[Item]:
        """What these answer. Those that do not answer in time are left out. One that has no link yet is asked when it
        has."""
        return await self.questions.query(
            question, value, members, lambda body: self._send(MessageKind.ASK, body, members)
        )

    def _send(self, kind: MessageKind, body: object, members: Collection[int]) -> None:
        frame = encode(kind, body)
        for number in members:
            if link := self.by_number.get(number):
                link.send_frame(frame)

    def at_same_server(self) -> tuple[int, ...]:
        """Those for whom a connection's id means the same connection."""
        return tuple(number for number, link in self.by_number.items() if link.peer.server == self.server)

    # --- receiving (peer_link.Owner)

    def linked(self, link: PeerLink) -> None:
        if self.closing:
            link.abort()
            return
        earlier = self.by_number.get(link.peer.number)
        self.by_number[link.peer.number] = link
        if earlier is not None:
            earlier.abort()
            self._forget_members(link)
        self._log("linked to %s", link)
        for body in self.questions.waiting_for(link.peer.number):
            link.send(MessageKind.ASK, body)
        if self._events.members.here:
            self.dropped_some(link)
        self._events.lost()

    def dropped_some(self, link: PeerLink) -> None:
        for body in members_bodies(self._events.members.here):
            link.send(MessageKind.MEMBERS, body)

    def unlinked(self, link: PeerLink) -> None:
        if self.by_number.get(link.peer.number) is not link:
            return
        del self.by_number[link.peer.number]
        self.questions.on_members_left((link.peer.number,))
        self._forget_members(link)
        if not self.closing:
            self._log("link to %s is gone", link)
            self._events.lost()

    def _forget_members(self, link: PeerLink) -> None:
        self._events.members.gone((self.one, link.peer.number))

    def _log(self, text: str, link: PeerLink) -> None:
        log.log(self._level, text, self.one, extra={"peer": link.peer.address, "number": link.peer.number})

    def on_frame(self, link: PeerLink, frame: Frame) -> None:
        match frame.kind:
            case MessageKind.COMMITS:
                self._events.commits(report_of(frame.body))
            case MessageKind.LOST:
                self._events.lost()
            case MessageKind.MEMBERS:
                members, all_queues = members_of(frame.body)
                self._events.members.reported((self.one, link.peer.number), members, all_queues=all_queues)
            case MessageKind.LOGIN if self._events.login is not None:
                source, good = frame.body
                self._events.login(str(source), bool(good))
            case MessageKind.KILL:
                connection_id, query_only = frame.body
                if link.peer.server == self.server:
                    self._events.kill(int(connection_id), bool(query_only))
            case MessageKind.ASK:
                self._answer(link, *frame.body)
            case MessageKind.ANSWER:
                number, items, more = frame.body
                self.questions.on_answer(link.peer.number, number, list(items), bool(more))
            case _:
                pass  # PING, and kinds of a later version

    def _answer(self, link: PeerLink, number: int, question: str, value: Any) -> None:
        if len(self._answering) >= self._answers_max:
            return

        def reply(body: object) -> None:
            link.send(MessageKind.ANSWER, body)

        task = asyncio.get_running_loop().create_task(answer(reply, self._events.answer, number, question, value))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
