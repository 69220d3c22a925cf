"""MessageManager: the state of one queue in memory. Head of the engine's hot path, so its rules first.

Contents
    The receivers of one queue, in receiver sets (engine.delivery.receivers: the messages that wait for them, and when
    the table is polled), the leases in flight, and one owner task that does all database work for them, one call at a
    time. No locks: state changes between awaits only, and only the owner awaits.

Theory of operation
    A pass (`run_once`) does what is needed, in this order: release leases of receivers that are gone, read messages in
    flight from the table, remove leases that ran out, a step of each receiver set that has receivers (poll, claim and
    hand out), end bounded results for which nothing is left. Passes follow one another as long as each did something
    and there is more to do; otherwise the owner sleeps until it is woken (by a commit, by a receiver) or until the next
    time at which something is due. Without a receiver that waits, there are no polls; without any receiver nothing is
    cached (only the purger works on the queue).

Invariants
    - no message is handed out that is not leased in the table;
    - no message exists only here: all that is in memory can be lost at any moment;
    - no pass repeats without pause while it achieves nothing: rows that cannot be claimed pause (conflicts), and a
      database that fails pauses everything here (backoff), except that a reported commit ends the pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from engine.clock import DatabaseTime
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.context import DeliveryContext, QueueContext
from engine.delivery.filter_shares import FilterShares
from engine.delivery.in_flight import InFlight
from engine.delivery.isolated_delivery import ConnectionLeases, IsolatedDelivery
from engine.delivery.known_messages import Mode
from engine.delivery.lease_releases import DisconnectHandler, LeaseReleases
from engine.delivery.outage import Outage
from engine.delivery.receiver_sets import NO_SUCH_INDEX, ReceiverSets, is_condition_error
from engine.delivery.receivers import PassResult, ReceiverSet
from engine.delivery.recent_receivers import RecentReceivers
from engine.delivery.rechecker import Rechecker
from engine.delivery.send_times import SendTimes
from engine.delivery.subscription import Subscription
from engine.leases.expired_leases import ExpiredLeases
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.commit_report import Postponement
from engine.model.epochs import is_spent
from engine.model.errors import BackendError, EngineError, ShuttingDown
from engine.model.filter_limits import FilterLimits
from engine.model.identity import IdKind, all_normalised, id_kind
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import (
    Condition,
    Message,
    MessageId,
    QueueSpec,
    QueueStatus,
    SubscribeRequest,
    SubscriptionStatus,
)
from engine.service import Service
from engine.store.base import LeaseUnknown, Release, release_of

_CLOSE_WAIT_SECONDS = 1.0  # a session that closes need not wait longer for the release, which goes on without it
_AVERAGED_PASSES = 16  # passes
_STALE_CATALOG_ERRNOS = frozenset(
    (1054, 1146, NO_SUCH_INDEX)
)  # unknown column, table: the queue changed around the proxy


class MessageManager(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        *,
        on_rejected: Callable[[], None] = lambda: None,
        limits: FilterLimits | None = None,
        shares: FilterShares | None = None,
    ) -> None:
        super().__init__(f"manager of {queue.name}", context.engine.logger)
        engine, clock = context.engine, context.engine.clock
        self.queue, self.metrics = queue, context.metrics
        self._clock, self._engine, self.on_rejected = clock, engine.host, on_rejected
        self._kind = id_kind(queue.columns[_id_position(queue)])
        self._in_flight: InFlight[Subscription] = InFlight(lambda holder: holder.receiver)
        self._isolated_delivery = IsolatedDelivery(self._in_flight, clock)
        self._rechecker = Rechecker(context, self._in_flight)
        self._connection_leases = ConnectionLeases(self._in_flight)
        time = DatabaseTime(clock)
        self.alarms = LeaseAlarms(time)
        self.expired_leases = ExpiredLeases(queue.name, time, context.trace, engine.store.last_receivers)
        self._lease_releases = LeaseReleases(context, time, on_rejected)
        self._disconnects = DisconnectHandler(
            self._in_flight,
            self._rechecker,
            self._connection_leases,
            self._isolated_delivery,
            self.expired_leases,
            self._lease_releases,
            context.trace,
        )
        self._subscriptions: dict[Subscription, ReceiverSet] = {}
        self._recent = RecentReceivers()
        self._wakeup = asyncio.Event()
        self._context = DeliveryContext(
            context,
            in_flight=self._in_flight,
            isolated_delivery=self._isolated_delivery,
            pause=ClaimPause(clock),
            time=time,
            alarms=self.alarms,
            expired_leases=self.expired_leases,
            shares=shares or FilterShares(clock),
            host=self,
        )
        self._receiver_sets = ReceiverSets(ReceiverSet(queue, self._context), clock, self._context.pause)
        self._limits = limits or FilterLimits()
        self._deliveries = 0  # how often any receiver set got messages
        self._end_error: EngineError | None = None
        self._pass_began: float | None = None
        self._sleeps_until: float | None = None
        self.passes = 0  # how many have ended
        self.average_seconds = 0.0
        """How long a pass takes, on average over the last of them."""
        self._outage = Outage(queue.name, clock, engine.logger)

    def __repr__(self) -> str:
        return (
            f"<MessageManager {self.queue.name} {self.mode.value} subscribers={len(self._subscriptions)}"
            f" cached={self._receiver_sets.cached} in_flight={len(self._in_flight)} sent={self.metrics.sent}>"
        )

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        """The open ones."""
        return tuple(self._subscriptions)

    def streams(self) -> list[SubscriptionStatus]:
        """The open ones, as others see them."""
        seconds = self._context.pause.rate_limited_seconds
        return [replace(subscription.status(), rate_limited_seconds=seconds) for subscription in self._subscriptions]

    def holder(self, id_: MessageId) -> SubscriptionStatus | None:
        """The receiver to which this engine sent that message, if it is not settled."""
        return self.expired_leases.holder(id_) if (one := self._in_flight.holder(id_)) is None else one.status()

    def status(self) -> QueueStatus:
        """One row of SHOW QUEUES."""
        counts = (
            len(self._subscriptions),
            self._receiver_sets.cached,
            len(self._in_flight),
        )
        delays = self.metrics.delays
        waited = (tuple(delays.counts), delays.total_ns / NS_PER_SECOND)
        return QueueStatus(
            self.queue.name, *counts, self.metrics.snapshot(), *waited, self._receivers(), len(self.alarms)
        )

    def _receivers(self) -> int:
        active = [*self._subscriptions, *self._in_flight.holders()]
        return self._recent.count([one.request.connection_id for one in active], self._clock.monotonic())

    @property
    def mode(self) -> Mode:
        """The mode of the receiver set without a condition."""
        return self._receiver_sets.plain.messages.mode

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions of the open streams with a WHERE."""
        return tuple(self._receiver_sets.filtered)

    def _receiver_set_for(self, condition: Condition | None, user: str) -> ReceiverSet:
        if condition is None:
            return self._receiver_sets.plain
        receiver_set = self._receiver_sets.filtered.get(condition)
        if receiver_set is None:
            of_user = {receiver_set for one, receiver_set in self._subscriptions.items() if one.request.user == user}
            of_user.discard(self._receiver_sets.plain)
            self._limits.check(self.queue.name, len(self._receiver_sets.filtered), user, len(of_user))
            receiver_set = ReceiverSet(self.queue, self._context, condition)
            receiver_set.last_delivery = self._deliveries  # after those that wait already
        return receiver_set

    # --- read by the watchdog

    @property
    def has_pending_work(self) -> bool:
        """Whether there is work that only passes can do, so that one of them should end soon. Not while it waits for
        its turn at the database, however many others come first."""
        if self._end_error is not None or not self._subscriptions or self._context.queue.work.waiting:
            return False
        now = self._clock.monotonic()
        return self._pass_began is not None or any(receiver_set.starved(now) for receiver_set in self._receiver_sets)

    @property
    def database_failing(self) -> bool:
        """Whether the database fails its calls, which is known and logged already."""
        return self._outage.error is not None

    def describe(self) -> str:
        """What it is doing, and its state, for a log."""
        now, began = self._clock.monotonic(), self._pass_began
        doing = "asleep" if began is None else f"in a pass for {now - began:.1f} s"
        if self.died:
            doing = "its task has ended without being asked to"
        in_flight = f"{len(self._in_flight)} messages in flight"
        return f"{doing}; {in_flight}; " + "; ".join(receiver_set.describe(now) for receiver_set in self._receiver_sets)

    async def reset(self) -> bool:
        """Forget what is known of the table, and poll again with a new task. False where the old one cannot be
        cancelled."""
        for receiver_set in self._receiver_sets:
            receiver_set.reset()
        self._outage.end_pause()
        return await self.restart_task()

    # --- called by the engine

    def subscribe(self, request: SubscribeRequest) -> Subscription:
        """A new receiver; it takes part from the moment its consumer waits. Raises what ended this manager."""
        if self._end_error is not None:
            raise self._end_error
        receiver_set = self._receiver_set_for(request.condition, request.user)
        subscription = Subscription(self.queue, request, self, SendTimes(self._context))
        self._receiver_sets.joined(receiver_set)
        self._subscriptions[subscription] = receiver_set
        receiver_set.join(subscription)
        return subscription

    def touched(self, added: Sequence[int] = ()) -> bool:
        """A commit added or rescheduled messages, perhaps only these `added`; whether that concerns a receiver here."""
        if concerned := self._receiver_sets.touched(added):
            self._outage.end_pause()
            self.wake()
        return concerned

    def settled(self, ids: Iterable[MessageId], *, here: bool = True) -> None:
        """A commit ended these messages; `here`: by a client of this engine, not of a neighbour."""
        normalised = all_normalised(self._kind, ids)
        known = [id_ for id_ in normalised if id_ is not None]
        full = self._connection_leases.window_full(known)
        frees = self._may_free_receiver(known)
        waited = sum(receiver_set.settled(known) for receiver_set in self._receiver_sets)
        hits = waited + self._in_flight.settle(known)
        self._isolated_delivery.settled(known)
        self.alarms.ended(known)
        self.expired_leases.forget(known)
        self.metrics.settled_seen += hits
        # With the column's collation 'A' and 'a' may be the same message: only the table knows.
        unsure = len(known) < len(normalised) or (hits < len(known) and self._kind is not IdKind.INTEGER)
        if unsure and here:
            self.uncertain()
        elif waited or (hits and full) or frees or self.queue.options.waits_for_settlement:
            self.wake()

    def _may_free_receiver(self, ids: Sequence[MessageId]) -> bool:
        """Whether the end of these may free a receiver for a message that is to be handed out alone, or for others."""
        return self._receiver_sets.waits_for_idle_receiver or self._isolated_delivery.any_alone(ids)

    def changed(self, ids: Iterable[MessageId], *, renewed: bool, here: bool = True) -> None:
        """A commit renewed the leases of these messages, or else perhaps gave them up; `here` as in `settled`."""
        known = all_normalised(self._kind, ids)
        in_flight = [id_ for id_ in known if id_ is not None and id_ in self._in_flight]
        self._rechecker.request(in_flight, renewed=renewed)
        if not renewed:
            self.expired_leases.forget(known)
            self._isolated_delivery.settled([id_ for id_ in known if id_ is not None])
        if here and len(in_flight) < len(known) and self._kind is not IdKind.INTEGER:
            self.uncertain()
        if not renewed:
            self.wake()

    def may_be_spent(self, ids: Iterable[MessageId]) -> bool:
        """Whether one of these, whose leases a commit has ended, may have no attempts left, and so be set aside: its
        delivery was the last that it may have, or is not known here."""
        if not self.queue.options.max_attempts:
            return False
        leases = (self._in_flight.lease(id_) for id_ in all_normalised(self._kind, ids) if id_ is not None)
        return any(lease is None or is_spent(self.queue, lease.release.epoch) for lease in leases)

    def postponed(self, ids: Sequence[MessageId], reported: Postponement) -> bool:
        """A commit postponed all these messages. False, and nothing is done, where the table has to be read: the caller
        then calls `changed` and `touched`. That is so while a pass may claim one of them."""
        known = [id_ for id_ in all_normalised(self._kind, ids) if id_ is not None]
        if self._pass_began is not None or len(known) < len(ids) or self.queue.options.waits_for_settlement:
            return False
        full = self._connection_leases.window_full(known) or self._may_free_receiver(known)
        if (due := self._rechecker.postponed(self.queue, known, reported)) is None:
            return False
        self.expired_leases.forget(known)
        self._isolated_delivery.settled(known)
        self.note_due(due)
        if full or (self._sleeps_until is not None and due < self._sleeps_until):
            self.wake()
        return True

    def uncertain(self) -> None:
        """A commit may have ended some messages."""
        for receiver_set in self._receiver_sets:
            receiver_set.uncertain()
        self._rechecker.uncertain()
        self._isolated_delivery.uncertain()
        self.wake()

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = queue
        self._kind = id_kind(queue.columns[_id_position(queue)])
        for receiver_set in self._receiver_sets:
            receiver_set.reconfigure(queue)
        for subscription in list(self._subscriptions):
            subscription.reconfigure(queue)
        self._outage.end_pause()  # perhaps it was the definition that failed
        self.wake()

    async def open(self) -> None:
        self._end_error = self._end_error if self.running else None
        await super().open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Shut down: streams end. The messages that their clients have not read are released; the others stay
        leased."""
        await self.end(ShuttingDown("Server shutdown in progress"), release=True, grace_seconds=grace_seconds)

    async def end(self, error: EngineError, *, release: bool, grace_seconds: float = 5.0) -> None:
        """No new claims; every stream ends with the error. With `release`, messages that no receiver has read are
        released uncounted; receivers may continue with the others, and settle them through another proxy before their
        leases end."""
        if self._end_error is not None:
            return
        self._end_error = error
        deadline = self._clock.monotonic() + grace_seconds
        unread = self._disconnects.end_all(list(self._subscriptions), error)
        await super().close(grace_seconds=grace_seconds)
        if release:
            self._lease_releases.add(unread, counted=False)
            await self._lease_releases.attempt_last(self.queue, max(deadline - self._clock.monotonic(), 0.1))
        self._lease_releases.abandon()
        self.expired_leases.close()

    # --- called by subscriptions

    def unacked(self, subscription: Subscription) -> int:
        return self._in_flight.count(subscription) + self._connection_leases.unacked_before(subscription)

    def has_isolated_message(self, subscription: Subscription) -> bool:
        return self._isolated_delivery.has_isolated_message(subscription)

    def on_waiting(self, subscription: Subscription) -> None:
        self._subscriptions[subscription].on_waiting(subscription)

    def on_ended(self, subscription: Subscription) -> None:
        receiver_set = self._subscriptions.pop(subscription)
        receiver_set.leave(subscription)
        self._receiver_sets.left(receiver_set)

    async def on_closed(self, subscription: Subscription, *, release: bool) -> None:
        connection_id = subscription.request.connection_id
        if release:
            self._recent.gone(connection_id)
        else:
            self._recent.ended(connection_id, self._clock.monotonic())
        releases = self._disconnects.closed(self.queue, subscription, release=release)
        if releases is None:
            return
        self.wake()
        if self.running and self._outage.error is None:
            await asyncio.wait(releases, timeout=_CLOSE_WAIT_SECONDS)

    def on_orphaned(self, messages: Sequence[Message]) -> None:
        """Leased, but their receiver ended, or the table changed, meanwhile."""
        self._lease_releases.add([release_of(message) for message in messages], counted=False)

    def on_abandoned(self, leases: Sequence[Release]) -> None:
        """Perhaps leased, and the pass that was to hand them out was cancelled."""
        self._lease_releases.add(leases, counted=False, unconfirmed=True)
        self.wake()

    def on_leased(self, ids: Collection[MessageId]) -> None:
        if self._receiver_sets.filtered:
            for receiver_set in self._receiver_sets:
                receiver_set.messages.leased(ids)

    def note_due(self, monotonic: float) -> None:
        for receiver_set in self._receiver_sets:
            receiver_set.messages.note_due(monotonic)

    # --- the owner task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            # Most wake-ups only report that a message was acked, or that its receiver waits again.
            if not self._receiver_sets.may_work:
                at = self._next_time()
                if at is None or at > self._clock.monotonic():
                    await self._sleep(at)
                    continue
            if not (await self.run_once()).worked:
                await self._sleep(self._next_time())

    async def run_once(self) -> PassResult:
        """One pass; see the module. Never raises a BackendError: it only makes a pause."""
        self._pass_began = began = self._clock.monotonic()
        try:
            return await self._pass()
        finally:
            self._pass_began = None
            self.passes += 1
            self.average_seconds += (self._clock.monotonic() - began - self.average_seconds) / _AVERAGED_PASSES

    async def _pass(self) -> PassResult:
        result = PassResult()
        if self._outage.pausing:
            self._end_drained_by_outage()
            return result
        try:
            await self._do(result)
        except BackendError as error:
            self._failed(error)
            return PassResult(failed=True)
        if result.worked:
            self._outage.worked()
        for receiver_set in self._receiver_sets:
            receiver_set.end_drained()
        return result

    async def _do(self, result: PassResult) -> None:
        await self._return_leases(result)
        if self._subscriptions or self._connection_leases:
            await self._recheck(result)  # before leases run out here that were renewed
        now = self._clock.monotonic()
        for lease in (expired := self._in_flight.expire(now)):
            self.expired_leases.on_expired(lease.release, lease.holder.request, alongside=lease.alongside)
        self.metrics.expired += len(expired)
        if self._subscriptions:
            with self._receiver_sets.in_turn(now) as turns:
                for receiver_set in turns:
                    await self._step(receiver_set, result)

    async def _step(self, receiver_set: ReceiverSet, result: PassResult) -> None:
        sent = result.sent
        try:
            await receiver_set.step(result)
        except BackendError as error:
            if not await is_condition_error(error, receiver_set, self._context.queue):
                raise
            self._logger.warning("%s: streams ended, their WHERE failed: %s", self.queue.name, error)
            result.polled = True
            receiver_set.receivers.end(error)
            if error.errno in _STALE_CATALOG_ERRNOS:
                self._engine.request_refresh()
        if result.sent > sent:
            self._deliveries += 1
            receiver_set.last_delivery = self._deliveries

    async def _return_leases(self, result: PassResult) -> None:
        due = self._lease_releases.next_attempt()
        if due is not None and due <= self._clock.monotonic():
            result.released = await self._lease_releases.run_once(self.queue)
            if result.released:
                for receiver_set in self._receiver_sets:
                    receiver_set.messages.request_poll()

    async def _recheck(self, result: PassResult) -> None:
        due = self._next_recheck()
        if due is not None and due <= self._clock.monotonic():
            result.rechecked = True
            await self._rechecker.run_once(self.queue)

    def _next_recheck(self) -> float | None:
        may_wait = any(receiver_set.messages.may_wait for receiver_set in self._receiver_sets)
        return self._rechecker.next_time(messages_wait=may_wait, alone=self._receiver_sets.waits_for_idle_receiver)

    # --- failures

    def _failed(self, error: BackendError) -> None:
        self.metrics.backend_errors += 1
        for receiver_set in self._receiver_sets:
            receiver_set.failed()
        if isinstance(error, LeaseUnknown):
            self.on_abandoned(error.leases)
        self._outage.failed(error)
        self._end_drained_by_outage()
        if error.errno in _STALE_CATALOG_ERRNOS:
            self._engine.request_refresh()

    def _end_drained_by_outage(self) -> None:
        assert self._outage.error is not None
        for receiver_set in self._receiver_sets:
            receiver_set.receivers.bounded.end_with(self._outage.error)

    # --- time

    def wake(self) -> None:
        self._wakeup.set()

    def _wake(self) -> None:
        self._wakeup.set()

    def _next_time(self) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        sets_next = self._receiver_sets.next_time(self._clock.monotonic())
        times = [self._lease_releases.next_attempt(), self._in_flight.next_deadline(), sets_next]
        if self._subscriptions or self._connection_leases:
            times.append(self._next_recheck())
        earliest = min((time for time in times if time is not None), default=None)
        return None if earliest is None else max(earliest, self._outage.retry_at)

    async def _sleep(self, until: float | None) -> None:
        """Until woken or that time."""
        self._sleeps_until = until
        timer = None if until is None else asyncio.get_running_loop().call_at(until, self._wakeup.set)
        try:
            await self._wakeup.wait()
        finally:
            self._sleeps_until = None
            if timer is not None:
                timer.cancel()


def _id_position(queue: QueueSpec) -> int:
    return next(index for index, column in enumerate(queue.columns) if column.name.lower() == "id")
