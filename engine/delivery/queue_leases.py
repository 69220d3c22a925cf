"""QueueLeases: the leases of a queue that were handed out here, each from its hand-out until it is settled, released or
has run out; and what becomes of them when their receiver goes.

| the receiver | its messages |
| --- | --- |
| has not read them, so far as is known | due again, not counted |
| is gone, and had only this message | due again, counted as a delivery; after the last attempt set aside |
| is gone, and had others, where attempts are bounded | due again, not counted, and handed out alone |
| had a bounded result, which ended | leased until they are settled or the lease runs out |
| had `lease = 'connection'` | the same, or until its connection ends |
| has them while the proxy stops | leased on: it may settle them through another proxy |


Invariants
- A message is in flight for one receiver at most: a new lease ends the one before.
- Only the table knows how a lease ends. One is taken to end too early here, never too late: so nothing is sent whose
  lease may be over, and no window stays full for a message that nobody has.

No await here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from engine.clock import DatabaseTime
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.in_flight import InFlight
from engine.delivery.isolated_delivery import ConnectionLeases, IsolatedDelivery
from engine.delivery.lease_releases import LeaseReleases
from engine.delivery.rechecker import Rechecker
from engine.delivery.refusals import Refusals
from engine.delivery.subscription import Subscription
from engine.leases.expired_leases import ExpiredLeases
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.commit_report import Postponement
from engine.model.errors import EngineError
from engine.model.identity import is_spent
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Batch, Message, MessageId, QueueName, QueueSpec, SubscriptionStatus
from engine.model.trace_event import LEASE_RELEASED
from engine.store.base import Release, release_of


class Freed(NamedTuple):
    """What the end of some messages has freed: how many leases, and whether that may let a receiver have more: its
    window was full (`window`), or it had one of them alone (`alone`)."""

    leases: int
    window: bool
    alone: bool


class QueueLeases:
    """See the module. `pause`: while the queue's limits allow no claim."""

    def __init__(self, queue: QueueName, context: QueueContext, host: DeliveryHost) -> None:
        engine = context.engine
        self._context, self._clock, self._host = context, engine.clock, host
        self.pause = ClaimPause(engine.clock)
        self.time = DatabaseTime(engine.clock)
        self.in_flight: InFlight[Subscription] = InFlight(lambda holder: holder.receiver)
        self.isolated_delivery = IsolatedDelivery(self.in_flight, engine.clock)
        self.has_isolated_message = self.isolated_delivery.has_isolated_message
        self.rechecker = Rechecker(context, self.in_flight)
        self.connection_leases = ConnectionLeases(self.in_flight)
        self.alarms = LeaseAlarms(self.time)
        self.expired_leases = ExpiredLeases(
            queue, self.time, context.trace, engine.store.last_receivers, self._count_expired
        )
        self.releases = LeaseReleases(context, self.time, host.on_rejected)
        self.refusals = Refusals(queue, engine.clock, engine.logger)

    def holder(self, id_: MessageId) -> SubscriptionStatus | None:
        """The receiver to which this engine sent that message, if it is not settled."""
        return self.expired_leases.holder(id_) if (one := self.in_flight.holder(id_)) is None else one.status()

    # --- what commits report

    def settled(self, ids: Sequence[MessageId]) -> Freed:
        """These ended."""
        window, alone = self.connection_leases.window_full(ids), self.isolated_delivery.any_alone(ids)
        count = self.in_flight.settle(ids)
        self.isolated_delivery.settled(ids)
        self.alarms.ended(ids)
        self.expired_leases.forget(ids)
        if self.refusals.until:
            self.refusals.end(ids)
        return Freed(count, window, alone)

    def may_free(self, ids: Sequence[MessageId]) -> bool:
        """Whether the end of these may let a receiver have more."""
        return self.connection_leases.window_full(ids) or self.isolated_delivery.any_alone(ids)

    def changed(self, ids: Sequence[MessageId], *, renewed: bool, at_once: bool) -> int:
        """The leases of these were renewed, or else perhaps given up; returns how many of them are in flight."""
        in_flight = [id_ for id_ in ids if id_ in self.in_flight]
        self.rechecker.request(in_flight, renewed=renewed, at_once=at_once)
        if not renewed:
            self.expired_leases.forget(ids)
            self.isolated_delivery.settled(ids)
        return len(in_flight)

    def postponed(self, queue: QueueSpec, ids: Sequence[MessageId], reported: Postponement) -> float | None:
        """These were postponed; returns when the first of them falls due. None, and nothing is done, where that is not
        known."""
        if (due := self.rechecker.postponed(queue, ids, reported)) is not None:
            self.expired_leases.forget(ids)
            self.isolated_delivery.settled(ids)
        return due

    def may_be_spent(self, queue: QueueSpec, ids: Iterable[MessageId]) -> bool:
        """Whether the delivery of one of these was the last that it may have, or is not known here."""
        leases = (self.in_flight.lease(id_) for id_ in ids)
        return any(lease is None or is_spent(queue, lease.release.epoch) for lease in leases)

    def uncertain(self) -> None:
        """Any of them may have ended."""
        self.rechecker.uncertain()
        self.isolated_delivery.uncertain()

    # --- how they end without a commit

    def expire(self, now: float) -> None:
        """Remove those that ran out."""
        for lease in self.in_flight.expire(now):
            self.expired_leases.on_expired(lease.release, lease.holder.request.receiver, alongside=lease.alongside)

    def _count_expired(self) -> None:
        self._context.metrics.expired += 1

    def on_orphaned(self, messages: Sequence[Message]) -> None:
        """Leased, but their receiver ended, or the table changed, meanwhile: they are released."""
        self.releases.add([release_of(message) for message in messages], counted=False)

    def on_abandoned(self, leases: Sequence[Release]) -> None:
        """Perhaps leased, and the pass that was to hand them out was cancelled: they are released."""
        self.releases.add(leases, counted=False, unconfirmed=True)
        self._host.wake()

    def closed(self, queue: QueueSpec, subscription: Subscription, *, release: bool) -> Sequence[asyncio.Future[None]]:
        """Its consumer does not come back. Returns the first attempts to release; none where all stay leased."""
        unread = _unread(subscription, cut=False)
        if self.connection_leases.retain(subscription, release=release or bool(unread)):
            return ()
        ends = self.in_flight.deadlines(subscription)
        leases = self.rechecker.drop_holder(subscription)
        read = [lease for lease in leases if lease.id not in unread]
        attempts = []
        if unread:  # a delivery that never reached the client is no attempt
            attempts.append(self.releases.add([lease for lease in leases if lease.id in unread], counted=False))
        if not release:
            self.expired_leases.result_closed(read, subscription.request)
            if queue.options.tries_alone:
                self.isolated_delivery.result_closed(subscription, {lease.id: ends[lease.id] for lease in read})
        else:
            self._context.trace.note(LEASE_RELEASED, [lease.id for lease in leases], subscription.request.receiver)
            attempts.append(self._release(queue, read, subscription))
        return attempts

    def _release(self, queue: QueueSpec, leases: Sequence[Release], gone: Subscription) -> asyncio.Future[None]:
        alone = queue.options.tries_alone
        if alone:
            counted = self.isolated_delivery.is_attempt(gone, [lease.id for lease in leases])
        else:
            counted = not queue.options.fails_at_once  # a receiver that restarts must not empty the queue
        return self.releases.add(leases, counted=counted, alone=alone, gone=gone.request.receiver)

    def end_all(self, subscriptions: Sequence[Subscription], error: EngineError) -> list[Release]:
        """The queue, or the proxy, ends these. Returns the leases that their clients have not read; the rest is removed
        here, and stays leased."""
        unread: list[Release] = []
        for subscription in subscriptions:
            ids = _unread(subscription, cut=True)
            leases = self.rechecker.drop_holder(subscription)
            subscription.end(error)
            unread += [lease for lease in leases if lease.id in ids]
        for holder in self.in_flight.holders():
            self.rechecker.drop_holder(holder)
        return unread

    # --- called by subscriptions

    def unacked(self, subscription: Subscription) -> int:
        """How many of its messages are in flight, with those of earlier results that count for it."""
        count = self.in_flight.count(subscription)
        if subscription.request.by_connection:
            count += self.connection_leases.unacked_before(subscription)
        return count

    def seconds_left(self, batch: Batch) -> float:
        """Until the first lease of the batch ends, renewals aside."""
        return min(batch.ends) - self._clock.boottime() if batch.ends else math.inf

    def drop_expired(self, holder: Hashable, batch: Batch) -> Sequence[int]:
        """The positions in a batch of this holder of messages whose leases are over: they have no time left, or were
        settled or given up, or another receiver has the message. Those without time left are released, uncounted,
        unless another receiver has them by now."""
        if not batch.ends:
            return ()
        leases = [self.in_flight.lease(message.id) for message in batch.messages]
        ended = {
            at
            for at, (lease, message) in enumerate(zip(leases, batch.messages, strict=True))
            if lease is None or lease.holder is not holder or not _is_of(lease.release, message)
        }
        expired = []
        if self._clock.boottime() >= min(batch.ends):
            expired = [at for at in range(len(batch.messages)) if self._is_expired(batch, at, own=at not in ended)]
            self.on_orphaned([batch.messages[at] for at in expired])
        if over := sorted(ended.union(expired)):
            self._host.wake()
            self._context.engine.logger.info("%d messages were not sent, their leases were over", len(over))
        return over

    def _is_expired(self, batch: Batch, at: int, *, own: bool) -> bool:
        message, ends = batch.messages[at], batch.ends[at]
        if own and (lease := self.in_flight.lease(message.id)) is not None:
            # Its receiver may have renewed it, by a WHERE, before it received it.
            ends += (lease.until_ns - message.lease_until_ns) / NS_PER_SECOND
        expired = ends <= self._clock.boottime()
        if expired and own:
            self.in_flight.settle((message.id,))
        return expired


def _unread(subscription: Subscription, *, cut: bool) -> set[MessageId]:
    """Those of its messages that certainly have not reached its client."""
    return {message.id for message in subscription.take_undelivered()}.union(subscription.unread(cut=cut))


def _is_of(lease: Release, message: Message) -> bool:
    """Whether this is the lease with which the message was handed out. The next one may have the same epoch."""
    return (lease.epoch, lease.token) == (message.epoch, message.token)
