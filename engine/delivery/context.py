"""What the parts of one queue share, each set of it as one value."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from engine.context import EngineContext
from engine.database_work import DatabaseWork
from engine.delivery.filter_shares import FilterShares
from engine.delivery.metrics import QueueMetrics
from engine.model.queue import MessageId, QueueName
from engine.traces import QueueTrace


class Changes:
    """`count`: how often a queue was changed, as far as this engine knows. Each commit on the queue adds one.

    Those that look after the queue compare it with what they saw last, so a commit calls none of them.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Of all services of a queue: delivery, purge, dead letters. `work`: the engine's, with a `waiting` of the queue's
    own. `shares`: limits the time of polls without a match; one for an engine."""

    engine: EngineContext
    work: DatabaseWork
    metrics: QueueMetrics
    trace: QueueTrace
    shares: FilterShares
    changes: Changes

    @classmethod
    def of(cls, engine: EngineContext, queue: QueueName, shares: FilterShares) -> QueueContext:
        """Of a queue that begins."""
        trace = QueueTrace(engine.traces, queue)
        return cls(engine, engine.work.for_queue(), QueueMetrics(), trace, shares, Changes())


class DeliveryHost(Protocol):
    """The queue's manager, as its leases and receiver sets call it."""

    def wake(self) -> None:
        """Start a pass: there is something to do."""
        ...

    def on_leased(self, ids: Collection[MessageId], *, retry_refused: bool = False) -> None:
        """These were leased, so no other receiver set need try. `retry_refused`: and refused ones may be leased now."""
        ...

    def note_due(self, monotonic: float) -> None:
        """A lease runs out at that time."""
        ...

    def on_rejected(self) -> None:
        """A claim has set messages aside for the dead-letter queue."""
        ...
