"""Bus: a worker's line to the others, through the supervisor. Sends words, hands out those that come.

Rules: reports of a moment go together (proxy.cluster.outbox). What the line does not take is dropped and replaced by
LOST (proxy.cluster.frame_writer). When the line ends, the supervisor is gone, and so is the reason to go on.
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
    """What is done with the words that come."""

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
        self._introduced: asyncio.Future[None] = self._loop.create_future()
        self._gathering = CommitBatcher(lambda kind, body: self._send(kind, BROADCAST, body))
        self._saying: FrameWriter | None = None
        self._questions = Questions("other workers")
        self._answering: set[asyncio.Task[None]] = set()
        self._closing = False

    @classmethod
    async def connect(cls, line: socket.socket, worker: int, handlers: Handlers) -> Bus:
        """Take over this worker's end of its line."""
        _, bus = await asyncio.get_running_loop().create_unix_connection(lambda: cls(worker, handlers), sock=line)
        return bus

    async def introduced(self) -> None:
        """Return once it is known who else is there: before that nobody would hear anything."""
        await self._introduced

    @property
    def others(self) -> frozenset[int]:
        """The other workers that are there."""
        return self._others

    def close(self) -> None:
        """Hear and say no more."""
        self._closing = True
        for task in self._answering:
            task.cancel()
        self._gathering.close()
        if self._transport is not None:
            self._transport.close()

    # --- what is said

    def ready(self) -> None:
        """This worker accepts clients."""
        self._send(MessageKind.READY, SUPERVISOR)

    def committed(self, report: CommitReport) -> None:
        """Tell the others, now or with what follows in a moment."""
        if self._others:
            self._gathering.add(report)

    def login(self, source: str, good: bool) -> None:
        """A login from there failed, or succeeded where others had failed."""
        self._send(MessageKind.LOGIN, BROADCAST, [source, good])

    def kill(self, connection_id: int, query_only: bool) -> None:
        """Whoever has that connection shall end it, or what it is doing."""
        self._send(MessageKind.KILL, BROADCAST, [connection_id, query_only])

    async def ask(self, question: str, value: object = None) -> list[Item]:
        """What all the others answer. Those that do not answer in time are left out."""
        return await self._questions.ask(
            question, value, self._others, lambda body: self._send(MessageKind.ASK, BROADCAST, body)
        )

    def _send(self, kind: MessageKind, target: int, body: object = None) -> None:
        if self._saying is not None:
            self._saying.say(kind, target, body)

    # --- what is heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._saying = FrameWriter(self._transport, self.worker)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._framer.feed(data):
                self._hear(frame)
        except FrameError:
            log.exception("the line to the other workers is broken")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._others = frozenset()
        done(self._introduced)
        self._questions.close()
        if not self._closing:
            self._handlers.closed()

    def _hear(self, frame: Frame) -> None:
        try:
            self._take(frame)
        except (ValueError, KeyError, TypeError):
            # Only a defect can bring it here. What was said is lost, but the tables know it all.
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
                self._questions.answered(frame.sender, *frame.body)
            case _:
                pass  # a kind that a later version knows

    def _members(self, others: frozenset[int]) -> None:
        gone, self._others = self._others - others, others
        done(self._introduced)
        self._questions.left(gone)

    def _answer(self, asker: int, number: int, question: str, value: object) -> None:
        def reply(body: object) -> None:
            self._send(MessageKind.ANSWER, asker, body)

        task = self._loop.create_task(answer(reply, self._handlers.answer, number, question, value))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
