"""The release of leases when a receiver is gone, or when the engine ends its stream.

DisconnectHandler decides:

| the receiver | its messages |
| --- | --- |
| has not read them, so far as is known | due again, not counted |
| is gone, and had only this message | due again, counted as a delivery; after the last attempt set aside |
| is gone, and had others, where attempts are bounded | due again, not counted, and handed out alone |
| had a bounded result, which ended | leased until they are settled or the lease runs out |
| had `lease = 'connection'` | the same, or until its connection ends |
| has them while the proxy stops | leased on: it may settle them through another proxy |

LeaseReleases makes leased messages due again, so that other receivers get them at once. A row that the open transaction
of a dead client still locks cannot be released yet, so an incomplete release is tried again a few times; after that the
lease runs out. While the database cannot be reached, or is read-only, attempts do not count: the leases are released
when it works again, unless they have run out by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.clock import DatabaseTime
from engine.delivery.context import QueueContext
from engine.delivery.in_flight import InFlight
from engine.delivery.isolated_delivery import ConnectionLeases, IsolatedDelivery
from engine.delivery.rechecker import Rechecker
from engine.delivery.subscription import Subscription
from engine.leases.expired_leases import ExpiredLeases
from engine.model.backoff import DoublingDelay
from engine.model.epochs import is_spent
from engine.model.errors import READ_ONLY, BackendError, BackendUnavailable, EngineError
from engine.model.queue import MessageId, QueueSpec, SubscribeRequest
from engine.model.trace_event import LEASE_RELEASED
from engine.store.base import Release, lease_is_current
from engine.traces import QueueTrace

RELEASE_MAX = 1000  # leases in one transaction, as in a claim
_ATTEMPTS_MAX = 6
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 1.0  # with six attempts: 2.5 s for a dead client's transaction to be rolled back


@dataclass(slots=True, eq=False)
class _PendingRelease:
    """Leases of one receiver. `done` is set after the first attempt, whatever its result.

    `alone`: the messages are to be handed out alone. `unconfirmed`: perhaps the leases were never made. `gone`: the
    receiver, where the end of its connection is a failed attempt.
    """

    leases: Sequence[Release]
    counted: bool
    done: asyncio.Future[None]
    alone: bool = False
    unconfirmed: bool = False
    gone: SubscribeRequest | None = None
    due: float = 0.0
    attempts: int = 0
    released: int = 0
    pauses: DoublingDelay = field(default_factory=lambda: DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE))


class LeaseReleases:
    """See the module. One pass attempts everything that is due. `on_rejected`: called when messages were set aside."""

    def __init__(
        self,
        context: QueueContext,
        time: DatabaseTime,
        on_rejected: Callable[[], None] = lambda: None,
    ) -> None:
        self._time, self._on_rejected = time, on_rejected
        self._store, self._work, self._clock = context.engine.store, context.work, context.engine.clock
        self._metrics, self._logger, self._host = context.metrics, context.engine.logger, context.engine.host
        self._pending: list[_PendingRelease] = []

    def __len__(self) -> int:
        return sum(len(entry.leases) for entry in self._pending)

    def add(
        self,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        unconfirmed: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> asyncio.Future[None]:
        """Add leases to release; the future is done once the first attempt has ended."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not leases:
            done.set_result(None)
        for start in range(0, len(leases), RELEASE_MAX):
            last = start + RELEASE_MAX >= len(leases)
            part_done = done if last else asyncio.get_running_loop().create_future()
            part = leases[start : start + RELEASE_MAX]
            self._pending.append(_PendingRelease(part, counted, part_done, alone, unconfirmed, gone))
        return done

    def next_attempt(self) -> float | None:
        """When the next attempt is due; None when nothing is pending."""
        return min((entry.due for entry in self._pending), default=None)

    async def run_once(self, queue: QueueSpec) -> int:
        """Attempt what is due; returns how many messages became due again. Raises BackendError, to be tried again."""
        count = 0
        for entry in [e for e in self._pending if e.due <= self._clock.monotonic()]:
            count += await self._attempt(queue, entry)
        return count

    async def attempt_last(self, queue: QueueSpec, seconds: float) -> None:
        """Attempt what is due once, within this time; the leases left then run out."""
        try:
            await asyncio.wait_for(self.run_once(queue), seconds)
        except (BackendError, TimeoutError) as error:
            self._logger.warning("%s: leases run out, not given back: %s", queue.name, error)

    def abandon(self) -> None:
        """The queue is gone, or the database cannot be used any more: the leases run out."""
        for entry in self._pending:
            _set_done(entry.done)
        self._pending.clear()

    async def _attempt(self, queue: QueueSpec, entry: _PendingRelease) -> int:
        entry.attempts += 1
        entry.due = self._clock.monotonic() + entry.pauses.take()
        try:
            gone = entry.gone if entry.counted else None
            how = {"counted": entry.counted, "alone": entry.alone}
            released = await self._work.run(self._store.release(queue, entry.leases, **how, gone=gone))
            entry.released += released
            self._metrics.released += released
            if released:
                self._host.released(queue.name)
                if entry.counted and any(is_spent(queue, lease.epoch) for lease in entry.leases):
                    self._on_rejected()
            complete = await self._all_released(queue, entry)
        except BackendError as error:
            if isinstance(error, BackendUnavailable) or error.errno in READ_ONLY:
                entry.attempts -= 1
            self._drop_if(entry.attempts >= _ATTEMPTS_MAX or self._all_expired(entry), queue, entry, str(error))
            raise
        finally:
            _set_done(entry.done)
        if complete:
            self._pending.remove(entry)
        else:
            self._drop_if(entry.attempts >= _ATTEMPTS_MAX, queue, entry, "still locked by another transaction")
        return released

    async def _all_released(self, queue: QueueSpec, entry: _PendingRelease) -> bool:
        if entry.released >= len(entry.leases):
            return True
        states = await self._work.run(self._store.unsettled(queue, [lease.id for lease in entry.leases]))
        return not any(lease.id in states and lease_is_current(lease, states[lease.id]) for lease in entry.leases)

    def _all_expired(self, entry: _PendingRelease) -> bool:
        return all(lease.lease_until_ns and self._time.is_past(lease.lease_until_ns) for lease in entry.leases)

    def _drop_if(self, condition: bool, queue: QueueSpec, entry: _PendingRelease, reason: str) -> None:
        if condition:
            self._pending.remove(entry)
            left = len(entry.leases) - entry.released
            if not entry.unconfirmed:
                self._logger.warning("%s: could not give back %d leases, they run out: %s", queue.name, left, reason)


class DisconnectHandler:
    """See the module; nothing here waits. Of one queue."""

    def __init__(
        self,
        in_flight: InFlight[Subscription],
        rechecker: Rechecker,
        connection_leases: ConnectionLeases,
        isolated_delivery: IsolatedDelivery,
        expired_leases: ExpiredLeases,
        lease_releases: LeaseReleases,
        trace: QueueTrace,
    ) -> None:
        self._in_flight, self._rechecker, self._trace = in_flight, rechecker, trace
        self._connection_leases, self._isolated_delivery = connection_leases, isolated_delivery
        self._expired_leases, self._lease_releases = expired_leases, lease_releases

    def closed(
        self, queue: QueueSpec, subscription: Subscription, *, release: bool
    ) -> Sequence[asyncio.Future[None]] | None:
        """Its consumer does not come back. Returns the first attempts to release; None where the messages stay leased
        to its connection."""
        unread = _unread(subscription, cut=False)
        if self._connection_leases.retain(subscription, release=release or bool(unread)):
            return None
        ends = self._in_flight.deadlines(subscription)
        leases = self._rechecker.drop_holder(subscription)
        read = [lease for lease in leases if lease.id not in unread]
        # A delivery that never reached the client is no attempt.
        attempts = [self._lease_releases.add([lease for lease in leases if lease.id in unread], counted=False)]
        if not release:
            self._expired_leases.result_closed(read, subscription.request)
            if queue.options.tries_alone:
                self._isolated_delivery.result_closed(subscription, {lease.id: ends[lease.id] for lease in read})
        else:
            self._trace.note(LEASE_RELEASED, [lease.id for lease in leases], subscription.request)
            attempts.append(self._release(queue, read, subscription))
        return attempts

    def _release(self, queue: QueueSpec, leases: Sequence[Release], gone: Subscription) -> asyncio.Future[None]:
        alone = queue.options.tries_alone
        if alone:
            counted = self._isolated_delivery.is_attempt(gone, [lease.id for lease in leases])
        else:
            counted = not queue.options.fails_at_once  # a receiver that restarts must not empty the queue
        return self._lease_releases.add(leases, counted=counted, alone=alone, gone=gone.request)

    def end_all(self, subscriptions: Sequence[Subscription], error: EngineError) -> list[Release]:
        """The queue, or the proxy, ends these. Returns the leases that their clients have not read; the rest is removed
        here, and stays leased."""
        unread: list[Release] = []
        for subscription in subscriptions:
            ids = _unread(subscription, cut=True)
            leases = self._rechecker.drop_holder(subscription)
            subscription.end(error)
            unread += [lease for lease in leases if lease.id in ids]
        for holder in self._in_flight.holders():
            self._rechecker.drop_holder(holder)
        return unread


def _unread(subscription: Subscription, *, cut: bool) -> set[MessageId]:
    """Those of its messages that certainly have not reached its client."""
    return {message.id for message in subscription.take_undelivered()}.union(subscription.unread(cut=cut))


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
