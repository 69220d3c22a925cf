"""Traces: recent events of messages, so far as they happened in this process.

A bounded ring buffer in memory: when a message was sent to which receiver, and what ended that delivery. An event of
many messages is one record with their ids, so tracing costs a tuple for each batch and each settlement; a query for one
message reads all of them. A record is made once, by the process where the event happened: neighbours that are notified
of it make none. Delivery does not need it, and all of it is lost with the process, except for records that are stored:
those of topics with the option trace_keep (engine.history).
"""

from __future__ import annotations

import secrets
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from engine.clock import Clock, DatabaseTime
from engine.model.commit_report import Settlement
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message, MessageId, QueueCatalog, QueueName, ReceiverIdentity
from engine.model.trace_event import SENT, TraceEvent, TraceRecord

TRACED_MAX = 100_000
"""Messages in all records together, a message in several of them counted as often: about 10 MB."""

_LONG = 64  # bytes of a text id, or of a reason, that weigh as much as one more message
_LATENCY_NS = NS_PER_SECOND  # longer than an answer takes
_STEP_NS = 1000  # the smallest difference that queuegate.traces shows: its column `at` is in microseconds
_ALL = 100  # per cent

RecordSink = Callable[[TraceRecord], None]
"""Takes a record that is to be stored. Called in the hot path of delivery: it must be cheap, and never raise."""


class Traces:
    """See the module. For all queues of an engine."""

    def __init__(self, clock: Clock, limit: int = TRACED_MAX) -> None:
        self._clock, self._limit = clock, limit
        self._time = DatabaseTime(clock)
        self._records: deque[TraceRecord] = deque()
        self._weight = 0
        self._last_ns = 0
        self._percent: dict[QueueName, int] = {}
        self._persisted: Collection[QueueName] = frozenset()
        self._sink: RecordSink | None = None
        self._number = 0  # of the next event
        self.process = secrets.token_hex(8)
        """A name that no other process has, nor this one after a restart."""
        self.ids_follow = False
        """Whether the database is known to give the rows of one INSERT ids that follow one another."""

    def __repr__(self) -> str:
        return f"<Traces records={len(self._records)} weight={self._weight}>"

    def configure(self, catalog: QueueCatalog) -> None:
        """The catalog was read again: for how many messages of a queue records are made. A group has its topic's
        option."""
        shares = ((topic.name, topic.options.trace) for topic in catalog.topics.values())
        self._percent = {name: share for name, share in shares if share is not None}
        for queue in catalog:
            topic = catalog.topics.get(QueueName(queue.name.database, queue.options.topic or ""))
            if topic is not None and topic.options.trace is not None:
                self._percent[queue.name] = topic.options.trace

    def persist(self, queues: Collection[QueueName], sink: RecordSink) -> None:
        """From now on records of these queues, and topics, also go to `sink`."""
        self._persisted, self._sink = queues, sink

    def persists(self, name: QueueName) -> bool:
        """Whether records of a queue, or topic, are stored."""
        return name in self._persisted

    def percent(self, queue: QueueName) -> int:
        """For how many messages of a queue records are made, in per cent."""
        return self._percent.get(queue, _ALL) if self._percent else _ALL

    def observe_time(self, now_ns: int) -> None:
        """An answer with the database's time has just come."""
        self._time.observe_time(now_ns)

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """A client's transaction with these settlements is committed."""
        for queue, what, ids, sure, reason, by in settlements:
            self.note(queue, what, ids, receiver=by, sure=sure, reason=reason)

    def note(
        self,
        queue: QueueName,
        what: str,
        ids: tuple[MessageId, ...],
        *,
        epochs: tuple[int, ...] = (),
        receiver: ReceiverIdentity | None = None,
        sure: bool = True,
        reason: str = "",
        at_ns: int | None = None,
    ) -> None:
        """This happened to these messages; now, unless it is known when."""
        percent = self.percent(queue)
        if percent < _ALL:
            chosen = [number for number, id_ in enumerate(ids) if _sample(id_) < percent]
            epochs = tuple([epochs[number] for number in chosen]) if epochs else ()
            ids = tuple([ids[number] for number in chosen])
        if not ids:
            return
        at_ns = self._now_ns() if at_ns is None else at_ns
        record = TraceRecord(queue, ids, at_ns, what, epochs, receiver, sure, reason, self._number)
        self._number += len(ids)
        self._records.append(record)
        if queue in self._persisted and self._sink is not None:
            self._sink(record)
        self._weight += _weight(record)
        while self._weight > self._limit and len(self._records) > 1:
            self._weight -= _weight(self._records.popleft())

    def _now_ns(self) -> int:
        """The database's time. It is late by the network latency, which varies: a later record must not seem the
        earlier one therefore, nor have the same time, because readers sort by it. If the clock was set back, the time
        goes back."""
        now_ns = self._time.now_ns() or self._clock.now_ns()
        if self._last_ns - _LATENCY_NS <= now_ns:
            now_ns = max(now_ns, self._last_ns + _STEP_NS)
        self._last_ns = now_ns
        return now_ns

    def of(self, queue: QueueName, id_: MessageId) -> list[TraceEvent]:
        """The events of a message, the first one first."""
        return [
            record.of(record.ids.index(id_), self.process)
            for record in self._records
            if record.queue == queue and id_ in record.ids
        ]

    def newest(self, count: int, queues: Collection[QueueName] | None = None) -> list[TraceEvent]:
        """The last events of messages of these queues or of all; the last one first."""
        return list(islice(self._backwards(queues), count))

    def _backwards(self, queues: Collection[QueueName] | None) -> Iterator[TraceEvent]:
        for record in reversed(self._records):
            if queues is None or record.queue in queues:
                yield from (record.of(number, self.process) for number in reversed(range(len(record.ids))))


def _weight(record: TraceRecord) -> int:
    """How much a record counts towards the limit. The ids of a queue are of one type."""
    ids, reason = record.ids, record.reason
    if isinstance(ids[0], int) and not reason:
        return len(ids)
    texts = sum(len(id_) for id_ in ids if not isinstance(id_, int))
    return len(ids) + (texts + len(reason)) // _LONG


def _sample(id_: MessageId) -> int:
    """A number from 0 to 99, always the same for a message: either all its events are recorded, or none."""
    text = str(id_).encode("utf-8", "surrogatepass") if not isinstance(id_, bytes) else id_
    return zlib.crc32(text) % _ALL


class QueueTrace:
    """The records of one queue."""

    def __init__(self, traces: Traces, queue: QueueName) -> None:
        self._traces, self._queue = traces, queue

    def sent(self, messages: Sequence[Message], receiver: ReceiverIdentity) -> None:
        """These were handed out."""
        if self._traces.percent(self._queue):
            ids = tuple([message.id for message in messages])
            epochs = tuple([message.epoch for message in messages])
            self._traces.note(self._queue, SENT, ids, epochs=epochs, receiver=receiver)

    def note(
        self,
        what: str,
        ids: Sequence[MessageId],
        receiver: ReceiverIdentity | None = None,
        *,
        sure: bool = True,
        reason: str = "",
        at_ns: int | None = None,
    ) -> None:
        """This happened to these messages; now, unless it is known when."""
        if ids:
            self._traces.note(self._queue, what, tuple(ids), receiver=receiver, sure=sure, reason=reason, at_ns=at_ns)

    @property
    def enabled(self) -> bool:
        """Whether records are made at all."""
        return self._traces.percent(self._queue) > 0

    def observe_time(self, now_ns: int) -> None:
        """See Traces."""
        self._traces.observe_time(now_ns)
