"""What the parts of a queue work with, each set of things as one value: no constructor has a dozen parameters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from engine.clock import Clock, DatabaseTime, Jitter
from engine.database_work import DatabaseWork
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.company import Company
from engine.delivery.filter_shares import FilterShares
from engine.delivery.in_flight import InFlight
from engine.delivery.metrics import QueueMetrics
from engine.delivery.subscription import Subscription
from engine.leases.lapses import Lapses
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.queue import Message, MessageId
from engine.store.base import MessageStore, Release
from engine.traces import QueueTrace


@dataclass(frozen=True, slots=True)
class WorkContext:
    """What everything that works for a queue needs: delivery, purge, dead letters."""

    store: MessageStore
    work: DatabaseWork
    clock: Clock
    jitter: Jitter
    metrics: QueueMetrics
    logger: logging.Logger
    trace: QueueTrace


@dataclass(frozen=True, slots=True)
class QueueContext:
    """What all receiver sets of a queue work with."""

    common: WorkContext
    in_flight: InFlight[Subscription]
    company: Company
    pause: ClaimPause
    time: DatabaseTime
    alarms: LeaseAlarms
    lapses: Lapses
    shares: FilterShares
    """What conditions may take in vain."""
    wake: Callable[[], None]
    """There is something to do."""
    orphaned: Callable[[Sequence[Message]], None]
    """These were leased for a receiver that can no longer take them."""
    leased: Callable[[Collection[MessageId]], None]
    """These were leased, so no other receiver set need try."""
    note_due: Callable[[float], None]
    """Then a lease runs out."""
    unheard: Callable[[Sequence[Release]], None]
    """These may have been leased, and whoever was to hand them out no longer listened."""
    rejected: Callable[[], None]
    """A claim has set messages aside for the dead-letter queue."""
