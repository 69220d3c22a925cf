"""MessageManager: the state of one queue in memory. Head of the engine's hot path, so its rules first.

Contents
    The receivers of one queue, in receiver sets (engine.delivery.receivers: the messages that wait for them, and when
    the table is polled), the leases in flight (engine.delivery.queue_leases), what commits do to both
    (engine.delivery.commits), and one owner task that does all database work for them, one call at a time
    (engine.delivery.passes). No locks: state changes between awaits only, and only the owner awaits.

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

from engine.delivery.commits import QueueCommits
from engine.delivery.context import QueueContext
from engine.delivery.passes import DeliveryPass, PassTimes
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receiver_sets import ReceiverSets
from engine.delivery.receivers import PassResult
from engine.delivery.subscription import Subscription
from engine.model.errors import BackendUnavailable, EngineError, ShuttingDown
from engine.model.filter_limits import FilterLimits
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import MessageId, QueueSpec, QueueStatus, SubscribeRequest, SubscriptionStatus
from engine.service import Service

_CLOSE_WAIT_SECONDS = 1.0  # a session that closes need not wait longer for the release, which goes on without it


class MessageManager(Service):
    """See the module. `on_rejected` is called when messages were set aside for the dead-letter queue."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        *,
        on_rejected: Callable[[], None] = lambda: None,
        limits: FilterLimits | None = None,
    ) -> None:
        super().__init__(f"manager of {queue.name}", context.engine.logger)
        self.queue, self.metrics, self.on_rejected = queue, context.metrics, on_rejected
        self._clock, self._work = context.engine.clock, context.work
        self.times = PassTimes(self._clock)
        self.leases = QueueLeases(queue.name, context, self)
        self.receiver_sets = ReceiverSets(queue, context, self.leases, self, limits or FilterLimits())
        self.commits = QueueCommits(queue, context, self.leases, self.receiver_sets, self, self.times)
        self._pass = DeliveryPass(queue, context, self.leases, self.receiver_sets)
        self._end_error: EngineError | None = None

    def __repr__(self) -> str:
        sets, in_flight = self.receiver_sets, len(self.leases.in_flight)
        plain = sets.plain.messages
        return (
            f"<MessageManager {self.queue.name} {plain.mode.value} subscribers={len(sets.subscriptions)}"
            f" cached={len(plain.cache)} in_flight={in_flight} sent={self.metrics.sent}>"
        )

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        """The open ones."""
        return tuple(self.receiver_sets.subscriptions)

    def streams(self) -> list[SubscriptionStatus]:
        """The open ones, as others see them."""
        seconds = self.leases.pause.rate_limited_seconds
        return [
            replace(subscription.status(receiver_set.key_range), rate_limited_seconds=seconds)
            for subscription, receiver_set in tuple(self.receiver_sets.subscriptions.items())
        ]

    def status(self) -> QueueStatus:
        """One row of SHOW QUEUES."""
        sets, in_flight, delays = self.receiver_sets, self.leases.in_flight, self.metrics.delays
        counts = (len(sets.subscriptions), sets.cached, len(in_flight))
        waited = (tuple(delays.counts), delays.total_ns / NS_PER_SECOND)
        receivers, refusals = sets.count(in_flight.holders()), self.leases.refusals
        refused, counters, alarms = refusals.shown(), self.metrics.snapshot(), len(self.leases.alarms)
        error, refuses_all = self._pass.outage.error, refusals.trouble
        failing = "" if error is None or isinstance(error, BackendUnavailable) else error.number_only
        return QueueStatus(
            self.queue.name, *counts, counters, *waited, receivers, alarms, refused, refuses_all, failing
        )

    # --- read by the watchdog

    @property
    def has_pending_work(self) -> bool:
        """Whether there is work that only passes can do, so that one of them should end soon. Not while it waits for
        its turn at the database, however many others come first."""
        if self._end_error is not None or not self.receiver_sets.subscriptions or self._work.waiting:
            return False
        now = self._clock.monotonic()
        return self.times.began is not None or any(receiver_set.starved(now) for receiver_set in self.receiver_sets)

    @property
    def database_failing(self) -> bool:
        """Whether the database fails its calls, which is known and logged already."""
        return self._pass.outage.error is not None

    def describe(self) -> str:
        """What it is doing, and its state, for a log."""
        now, began = self._clock.monotonic(), self.times.began
        doing = "asleep" if began is None else f"in a pass for {now - began:.1f} s"
        if self.died:
            doing = "its task has ended without being asked to"
        in_flight = f"{len(self.leases.in_flight)} messages in flight"
        return f"{doing}; {in_flight}; " + "; ".join(receiver_set.describe(now) for receiver_set in self.receiver_sets)

    async def reset(self) -> bool:
        """Forget what is known of the table, and poll again with a new task. False where the old one cannot be
        cancelled."""
        for receiver_set in self.receiver_sets:
            receiver_set.reset()
        self._pass.outage.end_pause()
        return await self.restart_task()

    # --- called by the engine

    def subscribe(self, request: SubscribeRequest) -> Subscription:
        """A new receiver; it takes part from the moment its consumer waits. Raises what ended this manager."""
        if self._end_error is not None:
            raise self._end_error
        subscription = Subscription(self.queue, request, self, self.leases)
        self.receiver_sets.join(subscription, self.receiver_sets.set_for(subscription))
        return subscription

    def touched(self, added: Sequence[int] = ()) -> bool:
        """A commit added or rescheduled messages, perhaps only these `added`; whether that concerns a receiver here."""
        if concerned := self.receiver_sets.touched(added):
            self._pass.outage.end_pause()
            self.wake()
        return concerned

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = self._pass.queue = queue
        self.leases.refusals.clear()
        self.commits.reconfigure(queue)
        self.receiver_sets.reconfigure(queue)
        for subscription in self.subscriptions:
            subscription.reconfigure(queue)
        self._pass.outage.end_pause()  # perhaps it was the definition that failed
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
        self.receiver_sets.plain.births.close()
        unread = self.leases.end_all(list(self.subscriptions), error)
        self.receiver_sets.sticky.receivers.close()
        await super().close(grace_seconds=grace_seconds)
        releases = self.leases.releases
        if release:
            releases.add(unread, counted=False)
            await releases.attempt_last(self.queue, max(deadline - self._clock.monotonic(), 0.1))
        releases.abandon()
        self.leases.expired_leases.close()

    # --- called by subscriptions

    def on_waiting(self, subscription: Subscription) -> None:
        self.receiver_sets.subscriptions[subscription].on_waiting(subscription)

    def on_ended(self, subscription: Subscription) -> None:
        self.receiver_sets.leave(subscription)

    async def on_closed(self, subscription: Subscription, *, release: bool) -> None:
        if release:
            self.on_connection_ended(subscription)
        else:
            self.receiver_sets.recent.ended(subscription.request.receiver.connection_id, self._clock.monotonic())
        releases = self.leases.closed(self.queue, subscription, release=release)
        if releases or self.receiver_sets.sticky.receivers:  # parts of the ring may be others' now
            self.wake()
        if releases and self.running and not self.database_failing:
            await asyncio.wait(releases, timeout=_CLOSE_WAIT_SECONDS)

    def on_connection_ended(self, subscription: Subscription) -> None:
        self.receiver_sets.recent.gone(subscription.request.receiver.connection_id)
        self.receiver_sets.sticky.receivers.gone(subscription.receiver)

    # --- called by leases and receiver sets

    def on_leased(self, ids: Collection[MessageId], *, retry_refused: bool = False) -> None:
        """These were leased, so no other receiver set need try. `retry_refused`: and refused ones may be leased now."""
        if retry_refused or self.receiver_sets.filtered:
            for receiver_set in self.receiver_sets:
                receiver_set.messages.leased(ids, retry_refused=retry_refused)

    def note_due(self, monotonic: float) -> None:
        """A lease runs out at that time."""
        for receiver_set in self.receiver_sets:
            receiver_set.messages.note_due(monotonic)

    def wake(self) -> None:
        """Start a pass: there is something to do."""
        self.times.wakeup.set()

    # --- the owner task

    def _wake(self) -> None:
        self.times.wakeup.set()

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self.times.wakeup.clear()
            # Most wake-ups only report that a message was acked, or that its receiver waits again.
            if not self.receiver_sets.may_work:
                at = self._pass.next_time()
                if at is None or at > self._clock.monotonic():
                    await self.times.sleep(at)
                    continue
            if (await self.run_once()).worked:
                self.times.in_vain = 0
            else:
                await self.times.sleep(self._pass.next_time())

    async def run_once(self) -> PassResult:
        """One pass; see the module. Never raises a BackendError: it only makes a pause."""
        self.times.begin()
        try:
            return await self._pass.run_once()
        finally:
            self.times.end()
