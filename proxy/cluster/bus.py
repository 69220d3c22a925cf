"""Bus: a worker's connection to the others, through the supervisor. Sends messages, dispatches those that arrive.

Rules: reports that follow each other closely are sent together (proxy.cluster.outbox). What the connection does not
take is dropped and replaced by LOST (proxy.cluster.frame_writer). The connection ends with the supervisor, and then the
worker stops.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from engine.model.commit_report import CommitReport
from proxy.cluster.frame_writer import FrameWriter
from proxy.cluster.messages import BROADCAST, SUPERVISOR, Frame, FrameError, Framer, MessageKind, report_of
from proxy.cluster.outbox import CommitBatcher
from proxy.cluster.questions import Answer, Item, Questions, answer, done

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Handlers:
    """The handlers of received messages."""

    commits: Callable[[CommitReport], None]
    lost: Callable[[], None]
    login: Callable[[str, bool], None]
    kill: Callable[[int, bool], None]
    answer: Answer
    closed: Callable[[], None]


class Bus(asyncio.Protocol):
    """See the module."""

    def __init__(self, worker: int, handlers: Handlers) -> None:
        self.worker = worker
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._framer = Framer()
        self._others: frozenset[int] = frozenset()
        self._members_known: asyncio.Future[None] = self._loop.create_future()
        self._commit_batcher = CommitBatcher(lambda kind, body: self._send(kind, BROADCAST, body))
        self._frame_writer: FrameWriter | None = None
        self._questions = Questions("other workers")
        self._answering: set[asyncio.Task[None]] = set()
        self._closing = False

    @classmethod
    async def connect(cls, bus_socket: socket.socket, worker: int, handlers: Handlers) -> Bus:
        """Take over this worker's end of its connection."""
        _, bus = await asyncio.get_running_loop().create_unix_connection(lambda: cls(worker, handlers), sock=bus_socket)
        return bus

    async def wait_for_members(self) -> None:
        """Return once the other workers are known: before that no worker would receive anything."""
        await self._members_known

    @property
    def others(self) -> frozenset[int]:
        """The other workers that are there."""
        return self._others

    def close(self) -> None:
        """Stop sending and receiving."""
        self._closing = True
        for task in self._answering:
            task.cancel()
        self._commit_batcher.close()
        if self._transport is not None:
            self._transport.close()

    # --- sending

    def ready(self) -> None:
        """This worker accepts clients."""
        self._send(MessageKind.READY, SUPERVISOR)

    def committed(self, report: CommitReport) -> None:
        """Report to the others, now or together with what follows in a moment."""
        if self._others:
            self._commit_batcher.add(report)

    def login(self, source: str, good: bool) -> None:
        """A login from there failed, or succeeded where others had failed."""
        self._send(MessageKind.LOGIN, BROADCAST, [source, good])

    def kill(self, connection_id: int, query_only: bool) -> None:
        """The process that has that connection ends it, or its statement."""
        self._send(MessageKind.KILL, BROADCAST, [connection_id, query_only])

    async def query(self, question: str, value: object = None) -> list[Item]:
        """What all the others answer. Those that do not answer in time are left out."""
        return await self._questions.query(
            question, value, self._others, lambda body: self._send(MessageKind.ASK, BROADCAST, body)
        )

    def _send(self, kind: MessageKind, target: int, body: object = None) -> None:
        if self._frame_writer is not None:
            self._frame_writer.send(kind, target, body)

    # --- receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._frame_writer = FrameWriter(self._transport, self.worker)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._framer.feed(data):
                self._dispatch(frame)
        except FrameError:
            log.exception("the line to the other workers is broken")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others = frozenset()
        done(self._members_known)
        self._questions.close()
        if not self._closing:
            self._handlers.closed()

    def _dispatch(self, frame: Frame) -> None:
        try:
            self._take(frame)
        except (ValueError, KeyError, TypeError):
            # Only a defect leads here. The message is lost, but the tables have everything.
            log.exception("a word was not understood", extra={"kind": frame.kind, "sender": frame.sender})
            self._handlers.lost()

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case MessageKind.COMMITS:
                self._handlers.commits(report_of(frame.body))
            case MessageKind.LOST:
                self._handlers.lost()
            case MessageKind.LOGIN:
                self._handlers.login(*frame.body)
            case MessageKind.KILL:
                self._handlers.kill(*frame.body)
            case MessageKind.MEMBERS:
                self._members(frozenset(frame.body) - {self.worker})
            case MessageKind.ASK:
                self._answer(frame.sender, *frame.body)
            case MessageKind.ANSWER:
                self._questions.on_answer(frame.sender, *frame.body)
            case _:
                pass  # a kind of a later version

    def _members(self, others: frozenset[int]) -> None:
        left, self._others = self._others - others, others
        done(self._members_known)
        self._questions.on_members_left(left)

    def _answer(self, asker: int, number: int, question: str, value: object) -> None:
        def reply(body: object) -> None:
            self._send(MessageKind.ANSWER, asker, body)

        task = self._loop.create_task(answer(reply, self._handlers.answer, number, question, value))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
