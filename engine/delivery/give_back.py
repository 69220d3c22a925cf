"""What becomes of the messages of a receiver that is gone, or whose stream we end.

Departures decides:

| the receiver | its messages |
| --- | --- |
| has not read them, so far as is known | due again, not counted |
| is gone, and held the message alone | due again, counted as a delivery; after the last attempt set aside |
| is gone, and held it beside others, where attempts are bounded | due again, not counted, and handed out alone |
| had a bounded result, which ended | leased until they are settled or their time is over |
| had `lease = 'connection'` | the same, or until its connection ends |
| holds them while the proxy stops | leased on: it may settle them through another proxy |

GiveBacks makes leases due again, so that others get the messages at once. A row that its dead client's open
transaction still locks cannot be given back yet, so a release that fell short is tried again a few times; after that
the lease simply runs out. While the database is away, or only lets itself be read, tries do not count: what was held
when it went is given back when it returns, unless the lease has run out by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.clock import DatabaseTime
from engine.delivery.company import Company, ConnectionLeases
from engine.delivery.context import WorkContext
from engine.delivery.in_flight import InFlight
from engine.delivery.rechecker import Rechecker
from engine.delivery.subscription import Subscription
from engine.leases.lapses import Lapses
from engine.model.backoff import DoublingDelay
from engine.model.epochs import is_spent
from engine.model.errors import READ_ONLY, BackendError, BackendUnavailable, EngineError
from engine.model.queue import MessageId, QueueSpec, SubscribeRequest
from engine.model.traced import GIVEN_BACK
from engine.store.base import Release, holds
from engine.traces import QueueTrace

RELEASE_MAX = 1000  # leases in one transaction, as in a claim
_TRIES_MAX = 6
_FIRST_PAUSE, _MOST_PAUSE = 0.1, 1.0  # with six tries: 2.5 s for a dead client's transaction to be rolled back


@dataclass(slots=True, eq=False)
class _GiveBack:
    """Leases of one receiver. `done` is set after the first try, whatever came of it.

    `alone`: the messages are to be handed out alone. `doubtful`: perhaps the leases were never made. `gone`: the
    receiver, where that its connection has ended is a failed attempt.
    """

    leases: Sequence[Release]
    counted: bool
    done: asyncio.Future[None]
    alone: bool = False
    doubtful: bool = False
    gone: SubscribeRequest | None = None
    due: float = 0.0
    tries: int = 0
    released: int = 0
    pauses: DoublingDelay = field(default_factory=lambda: DoublingDelay(_FIRST_PAUSE, _MOST_PAUSE))


class GiveBacks:
    """See the module. One pass tries everything that is due. `on_released`: messages of this queue are due again;
    `on_rejected`: some of them are set aside."""

    def __init__(
        self,
        context: WorkContext,
        time: DatabaseTime,
        on_released: Callable[[], None] = lambda: None,
        on_rejected: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_released, self._on_rejected = on_released, on_rejected
        self._time = time
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._metrics, self._logger = context.metrics, context.logger
        self._pending: list[_GiveBack] = []

    def __len__(self) -> int:
        return sum(len(entry.leases) for entry in self._pending)

    def add(
        self,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        doubtful: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> asyncio.Future[None]:
        """Take leases to give back; the future is done once the first try is over."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not leases:
            done.set_result(None)
        for start in range(0, len(leases), RELEASE_MAX):
            last = start + RELEASE_MAX >= len(leases)
            part_done = done if last else asyncio.get_running_loop().create_future()
            part = leases[start : start + RELEASE_MAX]
            self._pending.append(_GiveBack(part, counted, part_done, alone, doubtful, gone))
        return done

    def next_try(self) -> float | None:
        """When something is due to be tried; None when nothing is pending."""
        return min((entry.due for entry in self._pending), default=None)

    async def run_once(self, queue: QueueSpec) -> int:
        """Try what is due; returns how many messages became due again. Raises BackendError, to be tried again."""
        count = 0
        for entry in [e for e in self._pending if e.due <= self._clock.monotonic()]:
            count += await self._try(queue, entry)
        return count

    async def try_last(self, queue: QueueSpec, seconds: float) -> None:
        """Try what is due once, within this time; what is left then runs out."""
        try:
            await asyncio.wait_for(self.run_once(queue), seconds)
        except (BackendError, TimeoutError) as error:
            self._logger.warning("%s: leases run out, not given back: %s", queue.name, error)

    def abandon(self) -> None:
        """The queue is gone, or nothing can be done any more: the leases run out."""
        for entry in self._pending:
            _finish(entry.done)
        self._pending.clear()

    async def _try(self, queue: QueueSpec, entry: _GiveBack) -> int:
        entry.tries += 1
        entry.due = self._clock.monotonic() + entry.pauses.take()
        try:
            gone = entry.gone if entry.counted else None
            how = {"counted": entry.counted, "alone": entry.alone}
            released = await self._work.run(self._store.release(queue, entry.leases, **how, gone=gone))
            entry.released += released
            self._metrics.released += released
            if released:
                self._on_released()
                if entry.counted and any(is_spent(queue, lease.epoch) for lease in entry.leases):
                    self._on_rejected()
            over = await self._nothing_left(queue, entry)
        except BackendError as error:
            if isinstance(error, BackendUnavailable) or error.errno in READ_ONLY:
                entry.tries -= 1
            self._drop_if(entry.tries >= _TRIES_MAX or self._ran_out(entry), queue, entry, str(error))
            raise
        finally:
            _finish(entry.done)
        if over:
            self._pending.remove(entry)
        else:
            self._drop_if(entry.tries >= _TRIES_MAX, queue, entry, "still locked by another transaction")
        return released

    async def _nothing_left(self, queue: QueueSpec, entry: _GiveBack) -> bool:
        if entry.released >= len(entry.leases):
            return True
        left = await self._work.run(self._store.unsettled(queue, [lease.id for lease in entry.leases]))
        return not any(lease.id in left and holds(lease, left[lease.id]) for lease in entry.leases)

    def _ran_out(self, entry: _GiveBack) -> bool:
        return all(lease.lease_until_ns and self._time.is_past(lease.lease_until_ns) for lease in entry.leases)

    def _drop_if(self, hopeless: bool, queue: QueueSpec, entry: _GiveBack, reason: str) -> None:
        if hopeless:
            self._pending.remove(entry)
            left = len(entry.leases) - entry.released
            if not entry.doubtful:
                self._logger.warning("%s: could not give back %d leases, they run out: %s", queue.name, left, reason)


class Departures:
    """See the module; nothing here waits. Of one queue."""

    def __init__(
        self,
        in_flight: InFlight[Subscription],
        rechecker: Rechecker,
        kept: ConnectionLeases,
        company: Company,
        lapses: Lapses,
        give_backs: GiveBacks,
        trace: QueueTrace,
    ) -> None:
        self._in_flight, self._rechecker, self._kept, self._company = in_flight, rechecker, kept, company
        self._lapses, self._give_backs, self._trace = lapses, give_backs, trace

    def closed(
        self, queue: QueueSpec, subscription: Subscription, *, give_back: bool
    ) -> Sequence[asyncio.Future[None]] | None:
        """Its consumer is gone for good. The first tries to give back; None where its connection holds the messages
        on."""
        unread = _unread(subscription, cut=False)
        if self._kept.keeps(subscription, give_back=give_back or bool(unread)):
            return None
        ends = self._in_flight.deadlines(subscription)
        leases = self._rechecker.drop_holder(subscription)
        taken = [lease for lease in leases if lease.id not in unread]
        # What never reached the client is no attempt.
        tries = [self._give_backs.add([lease for lease in leases if lease.id in unread], counted=False)]
        if not give_back:
            self._lapses.left(taken, subscription.request)
            if queue.options.tries_alone:
                self._company.left(subscription, {lease.id: ends[lease.id] for lease in taken})
        else:
            self._trace.note(GIVEN_BACK, [lease.id for lease in leases], subscription.request)
            tries.append(self._give_back(queue, taken, subscription))
        return tries

    def _give_back(self, queue: QueueSpec, leases: Sequence[Release], gone: Subscription) -> asyncio.Future[None]:
        alone = queue.options.tries_alone
        if alone:
            counted = self._company.is_attempt(gone, [lease.id for lease in leases])
        else:
            counted = not queue.options.fails_at_once  # a receiver that restarts must not empty the queue
        return self._give_backs.add(leases, counted=counted, alone=alone, gone=gone.request)

    def end_all(self, subscriptions: Sequence[Subscription], error: EngineError) -> list[Release]:
        """The queue, or the proxy, ends these. The leases of what their clients have not read; of the rest nothing is
        known any more."""
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
    """Those of its messages that surely have not reached its client."""
    return {message.id for message in subscription.take_untaken()}.union(subscription.unread(cut=cut))


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
