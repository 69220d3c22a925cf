"""Bus: a worker's line to the others, through the supervisor. Sends words, hands out those that come.

Rules: the first report after a rest goes out at once; those that follow within `GATHER_SECONDS` go together, so a word
costs the same for one commit or fifty. What the line does not take is dropped and replaced by LOST, for a worker that
hangs must not make others hold its words. When the line ends, the supervisor is gone, and so is the reason to go on.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from engine.model import CommitReport
from proxy.words import (
    EVERYBODY,
    SUPERVISOR,
    Frame,
    FrameError,
    Framer,
    Kind,
    encode,
    merged,
    portions,
    report_body,
    report_of,
)

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.002  # at most 500 words a second from each worker, whatever it commits
UNSENT_MAX_BYTES = 1 << 20  # thousands of words; the supervisor reads at once, or is not there
ASK_SECONDS = 2.0  # how long the answer to a question is waited for: a worker that is busy for longer is not well

Item = list[Any]
Answer = Callable[[str, Any], Awaitable[Iterable[Item]]]


@dataclass(eq=False, slots=True)
class Handlers:
    """What is done with the words that come."""

    commits: Callable[[CommitReport], None]
    lost: Callable[[], None]
    login: Callable[[str, bool], None]
    kill: Callable[[int, bool], None]
    answer: Answer
    closed: Callable[[], None]


@dataclass(eq=False, slots=True)
class _Question:
    waiting: set[int]
    done: asyncio.Future[None]
    items: list[Item] = field(default_factory=list)


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
        self._reports: list[CommitReport] = []
        self._gathering: asyncio.TimerHandle | None = None
        self._dropped = False
        self._numbers = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._closing = False

    @classmethod
    async def connect(cls, line: socket.socket, worker: int, handlers: Handlers) -> Bus:
        """Take over this worker's end of its line."""
        _, bus = await asyncio.get_running_loop().create_unix_connection(lambda: cls(worker, handlers), sock=line)
        return bus

    async def introduced(self) -> None:
        """Return once it is known who else is there: before that nobody would be told anything."""
        await self._introduced

    def close(self) -> None:
        """Hear and say no more."""
        self._closing = True
        for task in self._answering:
            task.cancel()
        if self._gathering is not None:
            self._gathering.cancel()
            self._send_reports()  # what was given back in the end, others can have at once
        if self._gathering is not None:
            self._gathering.cancel()
        if self._transport is not None:
            self._transport.close()

    # --- what is said

    def ready(self) -> None:
        """This worker accepts clients."""
        self._send(Kind.READY, SUPERVISOR)

    def committed(self, report: CommitReport) -> None:
        """Tell the others, now or with what follows in a moment."""
        if not self._others:
            return
        self._reports.append(report)
        if self._gathering is None:
            self._send_reports()

    def _send_reports(self) -> None:
        self._gathering = None
        if self._reports:
            reports, self._reports = self._reports, []
            try:
                self._send(Kind.COMMITS, EVERYBODY, report_body(merged(reports)))
            except ValueError:
                self._send(Kind.LOST, EVERYBODY)  # thousands of queues at once: let them look at all
            self._gathering = self._loop.call_later(GATHER_SECONDS, self._send_reports)

    def login(self, source: str, good: bool) -> None:
        """A login from there failed, or succeeded where others had failed."""
        self._send(Kind.LOGIN, EVERYBODY, [source, good])

    def kill(self, connection_id: int, query_only: bool) -> None:
        """Whoever has that connection shall end it, or what it is doing."""
        self._send(Kind.KILL, EVERYBODY, [connection_id, query_only])

    async def ask(self, question: str, value: object = None) -> list[Item]:
        """What all the others answer. Those that do not answer in time are left out."""
        if not self._others:
            return []
        number = next(self._numbers)
        asked = self._questions[number] = _Question(set(self._others), self._loop.create_future())
        self._send(Kind.ASK, EVERYBODY, [number, question, value])
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await asked.done
        except TimeoutError:
            log.warning("no answer from other workers", extra={"question": question, "missing": sorted(asked.waiting)})
        finally:
            del self._questions[number]
        return asked.items

    def _send(self, kind: Kind, target: int, body: object = None) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > UNSENT_MAX_BYTES:
            self._dropped = True
            return
        if self._dropped:
            self._dropped = False
            transport.write(encode(Kind.LOST, self.worker, EVERYBODY))
        transport.write(encode(kind, self.worker, target, body))

    # --- what is heard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

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
        _done(self._introduced)
        for question in self._questions.values():
            _done(question.done)
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
            case Kind.COMMITS:
                self._handlers.commits(report_of(frame.body))
            case Kind.LOST:
                self._handlers.lost()
            case Kind.LOGIN:
                self._handlers.login(*frame.body)
            case Kind.KILL:
                self._handlers.kill(*frame.body)
            case Kind.MEMBERS:
                self._members(frozenset(frame.body) - {self.worker})
            case Kind.ASK:
                task = self._loop.create_task(self._answer(frame.sender, *frame.body))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Kind.ANSWER:
                self._answered(frame.sender, *frame.body)
            case _:
                pass  # a kind that a later version knows

    def _members(self, others: frozenset[int]) -> None:
        gone, self._others = self._others - others, others
        _done(self._introduced)
        for question in self._questions.values():
            question.waiting -= gone
            if not question.waiting:
                _done(question.done)

    async def _answer(self, asker: int, number: int, question: str, value: Any) -> None:
        try:
            for items in portions(await self._handlers.answer(question, value)):
                self._send(Kind.ANSWER, asker, [number, items, True])
        except Exception:
            log.exception("a question of another worker was not answered", extra={"question": question})
        self._send(Kind.ANSWER, asker, [number, [], False])

    def _answered(self, sender: int, number: int, items: list[Item], more: bool) -> None:
        question = self._questions.get(number)
        if question is None:
            return  # it was waited for too long
        question.items += items
        if not more:
            question.waiting.discard(sender)
            if not question.waiting:
                _done(question.done)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
