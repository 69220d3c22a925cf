"""What the parts of one queue share, each set of it as one value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.clock import DatabaseTime
from engine.context import EngineContext
from engine.database_work import DatabaseWork
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.filter_shares import FilterShares
from engine.delivery.in_flight import InFlight
from engine.delivery.isolated_delivery import IsolatedDelivery
from engine.delivery.metrics import QueueMetrics
from engine.delivery.subscription import Subscription
from engine.leases.expired_leases import ExpiredLeases
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.queue import Message, MessageId, QueueName
from engine.store.base import Release
from engine.traces import QueueTrace


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Of all services of a queue: delivery, purge, dead letters. `work`: the engine's, with a `waiting` of the queue's
    own."""

    engine: EngineContext
    work: DatabaseWork
    metrics: QueueMetrics
    trace: QueueTrace

    @classmethod
    def of(cls, engine: EngineContext, queue: QueueName) -> QueueContext:
        """Of a queue that begins."""
        return cls(engine, engine.work.for_queue(), QueueMetrics(), QueueTrace(engine.traces, queue))


class DeliveryHost(Protocol):
    """The queue's manager, as its receiver sets call it."""

    def wake(self) -> None:
        """Start a pass: there is something to do."""
        ...

    def on_orphaned(self, messages: Sequence[Message]) -> None:
        """These were leased for a receiver that can no longer take them."""
        ...

    def on_leased(self, ids: Collection[MessageId]) -> None:
        """These were leased, so no other receiver set need try."""
        ...

    def note_due(self, monotonic: float) -> None:
        """A lease runs out at that time."""
        ...

    def on_abandoned(self, leases: Sequence[Release]) -> None:
        """These may have been leased, and the pass that was to hand them out was cancelled."""
        ...

    def on_rejected(self) -> None:
        """A claim has set messages aside for the dead-letter queue."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """Of all receiver sets of a queue."""

    queue: QueueContext
    in_flight: InFlight[Subscription]
    isolated_delivery: IsolatedDelivery
    pause: ClaimPause
    time: DatabaseTime
    alarms: LeaseAlarms
    expired_leases: ExpiredLeases
    shares: FilterShares
    """Limits the time of polls without a match."""
    host: DeliveryHost
