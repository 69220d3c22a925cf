"""The dependencies of a queue's parts, each set of them as one value: no constructor has a dozen parameters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from engine.clock import Clock, DatabaseTime, Jitter
from engine.database_work import DatabaseWork
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.filter_shares import FilterShares
from engine.delivery.in_flight import InFlight
from engine.delivery.isolated_delivery import IsolatedDelivery
from engine.delivery.metrics import QueueMetrics
from engine.delivery.subscription import Subscription
from engine.leases.expired_leases import ExpiredLeases
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.queue import Message, MessageId
from engine.store.base import MessageStore, Release
from engine.traces import QueueTrace


@dataclass(frozen=True, slots=True)
class WorkContext:
    """Common dependencies of all services of a queue: delivery, purge, dead letters."""

    store: MessageStore
    work: DatabaseWork
    clock: Clock
    jitter: Jitter
    metrics: QueueMetrics
    logger: logging.Logger
    trace: QueueTrace


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Common dependencies of all receiver sets of a queue."""

    common: WorkContext
    in_flight: InFlight[Subscription]
    isolated_delivery: IsolatedDelivery
    pause: ClaimPause
    time: DatabaseTime
    alarms: LeaseAlarms
    expired_leases: ExpiredLeases
    shares: FilterShares
    """Limits the time of polls without a match."""
    wake: Callable[[], None]
    """Starts a pass: there is something to do."""
    on_orphaned: Callable[[Sequence[Message]], None]
    """These were leased for a receiver that can no longer take them."""
    on_leased: Callable[[Collection[MessageId]], None]
    """These were leased, so no other receiver set need try."""
    note_due: Callable[[float], None]
    """A lease runs out at that time."""
    on_abandoned: Callable[[Sequence[Release]], None]
    """These may have been leased, and the pass that was to hand them out was cancelled."""
    on_rejected: Callable[[], None]
    """A claim has set messages aside for the dead-letter queue."""
