"""HistoryWriter: writes records of topics with trace_keep to a table, in batches and away from the path of delivery.

Rules
- `take` is called where the event happens. It appends to a buffer, and never waits.
- Each database has a bounded buffer of its own. Events beyond the bound are dropped and counted.
- A batch is written as a whole. While the database is unreachable or locked, the same batch is retried. A batch that
  the database refuses is dropped, counted and logged; the next one is tried after a pause that doubles.
- Events that are not written when the process is killed are lost: those of the last second, or of the time in which the
  database could not be written.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.context import EngineContext
from engine.model.backoff import DoublingDelay
from engine.model.errors import BackendError, is_transient
from engine.model.queue import QueueName
from engine.model.trace_event import TraceEvent, TraceRecord
from engine.service import Service

BUFFER_MAX = 50_000
"""Events of one database that wait to be written: some seconds of a busy topic, and 10 MB."""

BATCH_MAX = 1000
"""Events in one transaction, unless a record has more: some ten milliseconds."""

GATHER_SECONDS = 0.5
"""For which events are gathered, so that an idle topic costs few commits and a busy one has large batches."""

RECENT_SECONDS = 3600.0
"""For which dropped events are reported as recent."""

_FIRST_PAUSE, _MOST_PAUSE = 1.0, 60.0  # after the database refused


def own_place() -> str:
    """This process, to be read: the machine's name and the number of the process."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True)
class HistoryState:
    """The state of a topic's history at one process. `dropped`: events, since it started; `recently`: some of them
    within RECENT_SECONDS. `problem`: why it is not written now, or not cleaned; empty without one."""

    dropped: int = 0
    recently: bool = False
    problem: str = ""


@dataclass(slots=True)
class _Buffer:
    """The waiting events of one database. `batch`: those being written; the outcome may be unknown."""

    records: deque[TraceRecord] = field(default_factory=deque)
    waiting: int = 0
    batch: tuple[TraceEvent, ...] = ()
    pause: DoublingDelay = field(default_factory=lambda: DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE))
    retry_at: float = 0.0
    problem: str = ""


class HistoryWriter(Service):
    """See the module."""

    def __init__(self, context: EngineContext) -> None:
        super().__init__("writer of histories", context.logger)
        self._context = context
        self._buffers: dict[str, _Buffer] = {}
        self._wakeup = asyncio.Event()
        self._topics: Mapping[QueueName, QueueName] = {}
        self._dropped: Counter[QueueName] = Counter()
        self._dropped_at: dict[QueueName, float] = {}

    def tune(self, topics: Mapping[QueueName, QueueName]) -> None:
        """Set the topic of each queue or topic whose history is stored."""
        self._topics = topics

    def take(self, record: TraceRecord) -> None:
        """Buffer a record. Cheap; never waits, never raises."""
        database, count = record.queue.database, len(record.ids)
        buffer = self._buffers.get(database)
        if buffer is None:
            buffer = self._buffers[database] = _Buffer()
        if buffer.waiting + count > BUFFER_MAX:
            self._drop(record.queue, count)
            return
        buffer.records.append(record)
        buffer.waiting += count
        self._wakeup.set()

    def _drop(self, queue: QueueName, count: int) -> None:
        topic = self._topics.get(queue, queue)
        self._dropped[topic] += count
        self._dropped_at[topic] = self._context.clock.monotonic()

    def state(self, topic: QueueName) -> HistoryState:
        """The state of a topic's history at this process."""
        buffer, at = self._buffers.get(topic.database), self._dropped_at.get(topic)
        recently = at is not None and self._context.clock.monotonic() - at < RECENT_SECONDS
        return HistoryState(self._dropped[topic], recently, "" if buffer is None else buffer.problem)

    async def run_once(self) -> int:
        """Write the waiting events, except those of databases in a pause. Returns how many events were written."""
        written, more = 0, True
        while more:  # a batch of each in turn
            more = False
            for database, buffer in list(self._buffers.items()):
                if self._fill(buffer) and self._context.clock.monotonic() >= buffer.retry_at:
                    written += await self._write(database, buffer)
                    more = True
        return written

    def _fill(self, buffer: _Buffer) -> bool:
        """Whether there is a batch to write: the one that failed, or a new one."""
        if not buffer.batch and buffer.records:
            place, process = own_place(), self._context.traces.process
            batch: list[TraceEvent] = []
            while buffer.records and len(batch) < BATCH_MAX:
                record = buffer.records.popleft()
                batch += [record.of(index, process, place) for index in range(len(record.ids))]
            buffer.batch = tuple(batch)
        return bool(buffer.batch)

    async def _write(self, database: str, buffer: _Buffer) -> int:
        context, batch = self._context, buffer.batch
        try:
            await context.work.run(context.store.traces.write(database, batch))
        except BackendError as error:
            self._failed(database, buffer, error)
            return 0
        if buffer.problem:
            context.logger.info("the history of messages in database '%s' is written again", database)
        self._done(buffer)
        buffer.problem = ""
        buffer.pause.reset()
        return len(batch)

    def _done(self, buffer: _Buffer) -> None:
        buffer.waiting -= len(buffer.batch)
        buffer.batch = ()

    def _failed(self, database: str, buffer: _Buffer, error: BackendError) -> None:
        buffer.retry_at = self._context.clock.monotonic() + buffer.pause.take()
        if is_transient(error):
            return  # the same batch again; an unreachable database is logged elsewhere
        for event in buffer.batch:
            self._drop(event.queue, 1)
        self._done(buffer)
        if not buffer.problem:  # once, until it is written again
            self._context.logger.warning(
                "the history of messages in database '%s' is not written, deliveries go on: %s", database, error
            )
        buffer.problem = f"the history is not written: {error.number_only}"

    def _wake(self) -> None:
        self._wakeup.set()

    def _waits_until(self) -> float | None:
        """When there is something to try again; None: nothing waits."""
        return min((buffer.retry_at for buffer in self._buffers.values() if buffer.waiting), default=None)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            again_at = self._waits_until()
            seconds = None if again_at is None else max(0.0, again_at - self._context.clock.monotonic())
            await self._is_set_within(self._wakeup, seconds)
            await self._pause(GATHER_SECONDS)
            self._wakeup.clear()
            await self.run_once()
        for buffer in self._buffers.values():
            buffer.retry_at = 0.0  # the last try
        await self.run_once()
