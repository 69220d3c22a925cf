"""Traces: what happened to messages lately, as far as this process did it or heard of it.

A bounded ring in memory: when a message was sent to whom, and what ended that delivery. What happens to many messages
at once is one record with their ids, so tracing costs a tuple for each batch and each settlement; who asks for one
message looks through all of them. A record is made once, by the process where the thing happened: neighbours that hear
of it make none. Nothing here is needed for delivery, and all of it is gone with the process, but for what is handed on
to be kept: records of topics with the option trace_keep (engine.history).
"""

from __future__ import annotations

import secrets
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from engine.clock import Clock, DatabaseTime
from engine.model.commit_report import Settlement
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message, MessageId, QueueCatalog, QueueName, SubscribeRequest
from engine.model.traced import SENT, Traced, TraceRecord

TRACED_MAX = 100_000
"""Messages in all records together, a message in several of them counted as often: about 10 MB."""

_LONG = 64  # bytes of a text id, or of a reason, that weigh as much as one more message
_WAY_NS = NS_PER_SECOND  # longer than an answer takes
_STEP_NS = 1000  # the smallest difference that queuegate.traces shows: its column `at` is in microseconds
_ALL = 100  # per cent

Keep = Callable[[TraceRecord], None]
"""Takes a record that is to outlive the process. Called on the path of delivery: it must be cheap, and never raise."""


class Traces:
    """See the module. For all queues of an engine."""

    def __init__(self, clock: Clock, most: int = TRACED_MAX) -> None:
        self._clock, self._most = clock, most
        self._time = DatabaseTime(clock)
        self._records: deque[TraceRecord] = deque()
        self._weight = 0
        self._last_ns = 0
        self._percent: dict[QueueName, int] = {}
        self._kept: Collection[QueueName] = frozenset()
        self._keep: Keep | None = None
        self._number = 0  # of the next event
        self.process = secrets.token_hex(8)
        """A name that no other process has, nor this one after a restart."""
        self.ids_follow = False
        """Whether the database is known to give the rows of one INSERT ids that follow one another."""

    def __repr__(self) -> str:
        return f"<Traces records={len(self._records)} weight={self._weight}>"

    def tune(self, catalog: QueueCatalog) -> None:
        """The catalog was read anew: of how many messages of a queue records are made. A group has its topic's say."""
        shares = ((topic.name, topic.options.trace) for topic in catalog.topics.values())
        self._percent = {name: share for name, share in shares if share is not None}
        for queue in catalog:
            topic = catalog.topics.get(QueueName(queue.name.database, queue.options.topic or ""))
            if topic is not None and topic.options.trace is not None:
                self._percent[queue.name] = topic.options.trace

    def keep(self, queues: Collection[QueueName], keep: Keep) -> None:
        """From now on records of these queues, and topics, go to `keep` as well."""
        self._kept, self._keep = queues, keep

    def keeps(self, name: QueueName) -> bool:
        """Whether records of a queue, or topic, outlive the process."""
        return name in self._kept

    def percent(self, queue: QueueName) -> int:
        """Of how many messages of a queue records are made."""
        return self._percent.get(queue, _ALL) if self._percent else _ALL

    def heard(self, now_ns: int) -> None:
        """The database has just said that it is this time."""
        self._time.heard(now_ns)

    def settled(self, settlements: Sequence[Settlement]) -> None:
        """A client's committed transaction did this."""
        for queue, what, ids, sure, reason, by in settlements:
            self.note(queue, what, ids, receiver=by, sure=sure, reason=reason)

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
        at_ns: int | None = None,
    ) -> None:
        """This happened to these messages; now, unless it is known when."""
        percent = self.percent(queue)
        if percent < _ALL:
            chosen = [number for number, id_ in enumerate(ids) if _share(id_) < percent]
            epochs = tuple([epochs[number] for number in chosen]) if epochs else ()
            ids = tuple([ids[number] for number in chosen])
        if not ids:
            return
        at_ns = self._now_ns() if at_ns is None else at_ns
        record = TraceRecord(queue, ids, at_ns, what, epochs, receiver, sure, reason, self._number)
        self._number += len(ids)
        self._records.append(record)
        if queue in self._kept and self._keep is not None:
            self._keep(record)
        self._weight += _weight(record)
        while self._weight > self._most and len(self._records) > 1:
            self._weight -= _weight(self._records.popleft())

    def _now_ns(self) -> int:
        """The database's time. What it says is late by its way here, each time by another span: a later record must
        not seem the earlier one for that, nor be of the same time: who reads them sorts by it. If the clock was set,
        it was."""
        now_ns = self._time.now_ns() or self._clock.now_ns()
        if self._last_ns - _WAY_NS <= now_ns:
            now_ns = max(now_ns, self._last_ns + _STEP_NS)
        self._last_ns = now_ns
        return now_ns

    def of(self, queue: QueueName, id_: MessageId) -> list[Traced]:
        """What happened to a message, the first thing first."""
        return [
            record.of(record.ids.index(id_), self.process)
            for record in self._records
            if record.queue == queue and id_ in record.ids
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
                yield from (record.of(number, self.process) for number in reversed(range(len(record.ids))))


def _weight(record: TraceRecord) -> int:
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
        at_ns: int | None = None,
    ) -> None:
        """This happened to these messages; now, unless it is known when."""
        if ids:
            self._traces.note(self._queue, what, tuple(ids), receiver=receiver, sure=sure, reason=reason, at_ns=at_ns)

    @property
    def wanted(self) -> bool:
        """Whether records are made at all."""
        return self._traces.percent(self._queue) > 0

    def heard(self, now_ns: int) -> None:
        """See Traces."""
        self._traces.heard(now_ns)
