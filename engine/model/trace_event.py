"""What happened to a message, as it is recorded: in the memory of the process where it happened, and, of topics with
the option trace_keep, in a table of the database."""

from __future__ import annotations

from typing import NamedTuple

from engine.model.queue import MessageId, QueueName, ReceiverIdentity

TRACES_TABLE = "queuegate_traces"
"""The stored history of a database's topics."""

SENT, LEASE_ENDED, LEASE_RELEASED = "sent", "lease ended", "given back"
ENDED, RETURNED = "ended", "returned"
REJECTED, DEAD_LETTERED = "rejected", "dead-lettered"
ENQUEUED, RELEASED, RENEWED = "enqueued", "released", "renewed"
"""Besides these there are the names of counters that a settlement is counted by (engine.delivery.metrics)."""


class TraceEvent(NamedTuple):
    """One thing that happened to one message. `epoch`: which delivery it was, of one that was sent. `receiver`: to
    whom it was sent, or by whom it was enqueued, where that is known. `sure`: False where it happened to some of
    several messages, and perhaps not to this one. `place`: the process that recorded it, to be read; empty for this
    one. `process` and `number`: what no other event has, also after a restart."""

    queue: QueueName
    id: MessageId
    at_ns: int
    what: str
    epoch: int | None
    receiver: ReceiverIdentity | None
    sure: bool
    reason: str
    place: str = ""
    process: str = ""
    number: int = 0


class TraceRecord(NamedTuple):
    """The same for several messages. `epochs`: as many, or none. `number`: of the event of the first message; the
    others' follow."""

    queue: QueueName
    ids: tuple[MessageId, ...]
    at_ns: int
    what: str
    epochs: tuple[int, ...]
    receiver: ReceiverIdentity | None
    sure: bool
    reason: str
    number: int

    def of(self, index: int, process: str, place: str = "") -> TraceEvent:
        """The event of one of its messages."""
        epoch = self.epochs[index] if self.epochs else None
        what = (self.at_ns, self.what, epoch, self.receiver, self.sure, self.reason)
        return TraceEvent(self.queue, self.ids[index], *what, place, process, self.number + index)


def in_order(records: list[TraceEvent]) -> list[TraceEvent]:
    """Each event once, the first thing first. Of one moment: as their process numbered them."""
    events = {(traced.process, traced.number): traced for traced in records}
    return sorted(events.values(), key=lambda traced: (traced.at_ns, traced.process, traced.number))
