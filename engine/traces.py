"""Traces: what happened to messages lately, as far as this process did it or heard of it.

A bounded ring in memory: when a message was sent to whom, and what ended that delivery. What happens to many messages
at once is one record with their ids, so tracing costs a tuple for each batch and each settlement; who asks for one
message looks through all of them. A record is made once, by the process where the thing happened: neighbours that hear
of it make none. Nothing here is needed for delivery, and all of it is gone with the process.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from engine.clock import Clock, DatabaseTime
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message, MessageId, QueueCatalog, QueueName, Settlement, SubscribeRequest

TRACED_MAX = 100_000
"""Messages in all records together, a message in several of them counted as often: about 10 MB."""

_LONG = 64  # bytes of a text id, or of a reason, that weigh as much as one more message
_WAY_NS = NS_PER_SECOND  # longer than an answer takes
_ALL = 100  # per cent

SENT, LEASE_ENDED, GIVEN_BACK = "sent", "lease ended", "given back"
ENDED, RETURNED = "ended", "returned"
REJECTED, DEAD_LETTERED = "rejected", "dead-lettered"
"""Besides these there are the names of counters that a settlement is counted by (engine.delivery.metrics)."""


class Traced(NamedTuple):
    """One thing that happened to one message. `epoch`: which delivery it was, of one that was sent. `receiver`: to
    whom it was sent, where it is known. `sure`: False where it happened to some of several messages, and perhaps not to
    this one. `place`: the process that recorded it; empty for this one."""

    queue: QueueName
    id: MessageId
    at_ns: int
    what: str
    epoch: int | None
    receiver: SubscribeRequest | None
    sure: bool
    reason: str
    place: str = ""


class _Record(NamedTuple):
    """The same for several messages. `epochs`: as many, or none."""

    queue: QueueName
    ids: tuple[MessageId, ...]
    at_ns: int
    what: str
    epochs: tuple[int, ...]
    receiver: SubscribeRequest | None
    sure: bool
    reason: str

    def of(self, number: int) -> Traced:
        """What it says of one of its messages."""
        epoch = self.epochs[number] if self.epochs else None
        id_, at_ns, what = self.ids[number], self.at_ns, self.what
        return Traced(self.queue, id_, at_ns, what, epoch, self.receiver, self.sure, self.reason)


class Traces:
    """See the module. For all queues of an engine."""

    def __init__(self, clock: Clock, most: int = TRACED_MAX) -> None:
        self._clock, self._most = clock, most
        self._time = DatabaseTime(clock)
        self._records: deque[_Record] = deque()
        self._weight = 0
        self._last_ns = 0
        self._percent: dict[QueueName, int] = {}

    def __repr__(self) -> str:
        return f"<Traces records={len(self._records)} weight={self._weight}>"

    def tune(self, catalog: QueueCatalog) -> None:
        """The catalog was read anew: of how many messages of a queue records are made. A group has its topic's say."""
        self._percent = {}
        for queue in catalog:
            topic = catalog.topics.get(QueueName(queue.name.database, queue.options.topic or ""))
            if topic is not None and topic.options.trace is not None:
                self._percent[queue.name] = topic.options.trace

    def percent(self, queue: QueueName) -> int:
        """Of how many messages of a queue records are made."""
        return self._percent.get(queue, _ALL) if self._percent else _ALL

    def heard(self, now_ns: int) -> None:
        """The database has just said that it is this time."""
        self._time.heard(now_ns)

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """A client's committed transaction did this."""
        for queue, what, ids, sure, reason in settlements:
            self.note(queue, what, ids, sure=sure, reason=reason)

    def note(
        self,
        queue: QueueName,
        what: str,
        ids: tuple[MessageId, ...],
        *,
        epochs: tuple[int, ...] = (),
        receiver: SubscribeRequest | None = None,
        sure: bool = True,
        reason: str = "",
    ) -> None:
        """This happened to these messages."""
        percent = self.percent(queue)
        if percent < _ALL:
            chosen = [number for number, id_ in enumerate(ids) if _share(id_) < percent]
            epochs = tuple([epochs[number] for number in chosen]) if epochs else ()
            ids = tuple([ids[number] for number in chosen])
        if not ids:
            return
        record = _Record(queue, ids, self._now_ns(), what, epochs, receiver, sure, reason)
        self._records.append(record)
        self._weight += _weight(record)
        while self._weight > self._most and len(self._records) > 1:
            self._weight -= _weight(self._records.popleft())

    def _now_ns(self) -> int:
        """The database's time. What it says is late by its way here, each time by another span: a later record must
        not seem the earlier one for that. If the clock was set, it was."""
        now_ns = self._time.now_ns() or self._clock.now_ns()
        if self._last_ns - _WAY_NS <= now_ns:
            now_ns = max(now_ns, self._last_ns)
        self._last_ns = now_ns
        return now_ns

    def of(self, queue: QueueName, id_: MessageId) -> list[Traced]:
        """What happened to a message, the first thing first."""
        return [
            record.of(record.ids.index(id_)) for record in self._records if record.queue == queue and id_ in record.ids
        ]

    def newest(self, count: int, queues: Collection[QueueName] | None = None) -> list[Traced]:
        """What happened last, to messages of these queues or of all; the last thing first."""
        found: list[Traced] = []
        for traced in self._backwards(queues):
            if len(found) == count:
                break
            found.append(traced)
        return found

    def _backwards(self, queues: Collection[QueueName] | None) -> Iterator[Traced]:
        for record in reversed(self._records):
            if queues is None or record.queue in queues:
                yield from (record.of(number) for number in reversed(range(len(record.ids))))


def _weight(record: _Record) -> int:
    """What a record counts towards the most. The ids of a queue are of one type."""
    ids, reason = record.ids, record.reason
    if isinstance(ids[0], int) and not reason:
        return len(ids)
    texts = sum(len(id_) for id_ in ids if not isinstance(id_, int))
    return len(ids) + (texts + len(reason)) // _LONG


def _share(id_: MessageId) -> int:
    """A number from 0 to 99, the same for a message wherever it is asked: all that happens to it is recorded, or
    nothing."""
    text = str(id_).encode("utf-8", "surrogatepass") if not isinstance(id_, bytes) else id_
    return zlib.crc32(text) % _ALL


class QueueTrace:
    """The records of one queue."""

    def __init__(self, traces: Traces, queue: QueueName) -> None:
        self._traces, self._queue = traces, queue

    def sent(self, messages: Sequence[Message], receiver: SubscribeRequest) -> None:
        """These were handed out."""
        if self._traces.percent(self._queue):
            ids = tuple([message.id for message in messages])
            epochs = tuple([message.epoch for message in messages])
            self._traces.note(self._queue, SENT, ids, epochs=epochs, receiver=receiver)

    def note(
        self,
        what: str,
        ids: Sequence[MessageId],
        receiver: SubscribeRequest | None = None,
        *,
        sure: bool = True,
        reason: str = "",
    ) -> None:
        """This happened to these messages."""
        if ids:
            self._traces.note(self._queue, what, tuple(ids), receiver=receiver, sure=sure, reason=reason)

    def heard(self, now_ns: int) -> None:
        """See Traces."""
        self._traces.heard(now_ns)
