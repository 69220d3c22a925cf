"""MessageManager: one queue's life in memory. Head of the engine's hot path, so its rules first.

What lives here
    The receivers of one queue, in receiver sets (engine.delivery.receivers: what waits for them, and when the table is
    looked at), the leases in flight, and one owner task that does all database work for them, one call at a time. No
    locks: state changes between awaits only, and only the owner awaits.

Theory of operation
    A pass (`run_once`) does what is needed, in this order: give back leases of receivers that are gone, drop leases
    that ran out, ask the table about messages in flight, a step of each receiver set that has receivers (look, claim
    and hand out), end bounded results for which nothing is left. Passes follow one another as long as each did
    something and there is more to do; otherwise the owner sleeps until it is woken (a commit, a receiver) or the next
    thing falls due. Without a receiver that waits, nothing is looked for; without any receiver nothing is cached (the
    purger alone works on the queue).

What must never be
    - a message handed out that is not leased in the table;
    - a message kept only here: whatever is in memory can be lost at any moment;
    - a pass that repeats without pause while it achieves nothing: rows that cannot be claimed pause (conflicts), and
      a database that fails pauses everything here (backoff), except that a commit heard of ends the pause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from engine.clock import DatabaseTime
from engine.delivery.claim_pause import ClaimPause
from engine.delivery.company import Company, ConnectionLeases
from engine.delivery.context import QueueContext, WorkContext
from engine.delivery.filter_shares import FilterShares
from engine.delivery.give_back import Departures, GiveBacks
from engine.delivery.in_flight import InFlight
from engine.delivery.outage import Outage
from engine.delivery.receiver_modes import Mode
from engine.delivery.receiver_sets import NO_SUCH_INDEX, ReceiverSets, is_of_condition
from engine.delivery.receivers import PassResult, ReceiverSet
from engine.delivery.recent_receivers import RecentReceivers
from engine.delivery.rechecker import Rechecker
from engine.delivery.send_times import SendTimes
from engine.delivery.subscription import Subscription
from engine.leases.lapses import Lapses
from engine.leases.lease_alarms import LeaseAlarms
from engine.model.commit_report import PutOff
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

_CLOSE_WAIT_SECONDS = 1.0  # a session that closes need not wait longer for its give back, which goes on without it
_USUAL_OVER = 16  # passes
_DOUBTFUL_ERRNOS = frozenset((1054, 1146, NO_SUCH_INDEX))  # unknown column, table: the queue changed around the proxy


class MessageManager(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        context: WorkContext,
        *,
        doubt: Callable[[], None],
        released: Callable[[], None] = lambda: None,
        rejected: Callable[[], None] = lambda: None,
        limits: FilterLimits | None = None,
        shares: FilterShares | None = None,
    ) -> None:
        super().__init__(f"manager of {queue.name}", context.logger)
        clock = context.clock
        self.queue, self.metrics = queue, context.metrics
        self._clock, self._doubt = clock, doubt
        self._kind = id_kind(queue.columns[_id_position(queue)])
        self._in_flight: InFlight[Subscription] = InFlight(lambda holder: holder.receiver)
        self._company = Company(self._in_flight, clock)
        self._rechecker = Rechecker(context, self._in_flight)
        self._kept = ConnectionLeases(self._in_flight)
        time = DatabaseTime(clock)
        self.alarms = LeaseAlarms(time)
        self.lapses = Lapses(queue.name, time, context.trace, context.store.last_receivers)
        self._give_backs = GiveBacks(context, time, released, rejected)
        self._departures = Departures(
            self._in_flight,
            self._rechecker,
            self._kept,
            self._company,
            self.lapses,
            self._give_backs,
            context.trace,
        )
        self._subscriptions: dict[Subscription, ReceiverSet] = {}
        self._recent = RecentReceivers()
        self._wakeup = asyncio.Event()
        self._context = QueueContext(
            context,
            in_flight=self._in_flight,
            company=self._company,
            pause=ClaimPause(clock),
            time=time,
            alarms=self.alarms,
            lapses=self.lapses,
            shares=shares or FilterShares(clock),
            wake=self._wake,
            orphaned=self._orphaned,
            leased=self._leased,
            note_due=self._note_due,
            unheard=self._unheard,
            rejected=rejected,
        )
        self._receiver_sets = ReceiverSets(ReceiverSet(queue, self._context), clock, self._context.pause)
        self._limits = limits or FilterLimits()
        self._served = 0  # how often any receiver set was given messages
        self._end_error: EngineError | None = None
        self._pass_began: float | None = None
        self._sleeps_until: float | None = None
        self.passes = 0  # how many have ended
        self.usual_seconds = 0.0
        """How long a pass takes, on average over the last of them."""
        self._outage = Outage(queue.name, clock, context.logger)

    def __repr__(self) -> str:
        return (
            f"<MessageManager {self.queue.name} {self.mode.value} subscribers={len(self._subscriptions)}"
            f" cached={self._receiver_sets.plain.cached} in_flight={len(self._in_flight)} sent={self.metrics.sent}>"
        )

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        """The open ones."""
        return tuple(self._subscriptions)

    def streams(self) -> list[SubscriptionStatus]:
        """The open ones, as others see them."""
        held_back = self._context.pause.held_back_seconds
        return [replace(subscription.status(), held_back=held_back) for subscription in self._subscriptions]

    def holder(self, id_: MessageId) -> SubscriptionStatus | None:
        """Who was sent that message by this engine and has not settled it."""
        return self.lapses.holder(id_) if (one := self._in_flight.holder(id_)) is None else one.status()

    def status(self) -> QueueStatus:
        """One row of SHOW QUEUES."""
        counts = (len(self._subscriptions), sum(one.cached for one in self._receiver_sets), len(self._in_flight))
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
        """What is known of the messages that wait."""
        return self._receiver_sets.plain.mode

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What the open streams with a WHERE ask for."""
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
            receiver_set.served = self._served  # after those that wait already
        return receiver_set

    # --- asked by the watchdog

    @property
    def standing(self) -> bool:
        """Whether there is something to do that only passes can do: one of them should end soon. Not while it waits for
        its turn at the database, however many others are before it."""
        if self._end_error is not None or not self._subscriptions or self._context.common.work.waiting:
            return False
        now = self._clock.monotonic()
        return self._pass_began is not None or any(receiver_set.starved(now) for receiver_set in self._receiver_sets)

    @property
    def in_trouble(self) -> bool:
        """Whether the database fails it, which is known and logged already."""
        return self._outage.error is not None

    def describe(self) -> str:
        """What it is doing and what it believes, for a log."""
        now, began = self._clock.monotonic(), self._pass_began
        doing = "asleep" if began is None else f"in a pass for {now - began:.1f} s"
        if self.died:
            doing = "its task has ended without being asked to"
        held = f"{len(self._in_flight)} messages in flight"
        return f"{doing}; {held}; " + "; ".join(receiver_set.describe(now) for receiver_set in self._receiver_sets)

    async def begin_anew(self) -> bool:
        """Look at the table from scratch, with a new task. False where the old one cannot be ended."""
        for receiver_set in self._receiver_sets:
            receiver_set.begin_anew()
        self._outage.end_pause()
        return await self.revive()

    # --- heard from the engine

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
        """A commit added or rescheduled messages, perhaps just these `added`; whether that concerns anybody here."""
        if concerned := self._receiver_sets.touched(added):
            self._outage.end_pause()
            self._wake()
        return concerned

    def settled(self, ids: Iterable[MessageId], *, here: bool = True) -> None:
        """A commit ended these messages; `here`: by a client of this engine, not of a neighbour's."""
        given = all_normalised(self._kind, ids)
        known = [id_ for id_ in given if id_ is not None]
        full = self._kept.window_full(known)
        frees = self._frees(known)
        waited = sum(receiver_set.settled(known) for receiver_set in self._receiver_sets)
        hits = waited + self._in_flight.settle(known)
        self._company.settled(known)
        self.alarms.ended(known)
        self.lapses.forget(known)
        self.metrics.settled_seen += hits
        # 'A' may be the same message as 'a' by the column's collation: only the table knows.
        unsure = len(known) < len(given) or (hits < len(known) and self._kind is not IdKind.INTEGER)
        if unsure and here:
            self.uncertain()
        elif waited or (hits and full) or frees or self.queue.options.waits_for_settlement:
            self._wake()

    def _frees(self, ids: Sequence[MessageId]) -> bool:
        """Whether the end of these may free a receiver for a message that is to be handed out alone, or for others."""
        return self._receiver_sets.wait_for_free or self._company.any_alone(ids)

    def changed(self, ids: Iterable[MessageId], *, renewed: bool, here: bool = True) -> None:
        """A commit renewed the leases of these messages, or else perhaps gave them up; `here` as in `settled`."""
        known = all_normalised(self._kind, ids)
        ours = [id_ for id_ in known if id_ is not None and id_ in self._in_flight]
        self._rechecker.ask(ours, renewed=renewed)
        if not renewed:
            self.lapses.forget(known)
            self._company.settled([id_ for id_ in known if id_ is not None])
        if here and len(ours) < len(known) and self._kind is not IdKind.INTEGER:
            self.uncertain()
        if not renewed:
            self._wake()

    def perhaps_spent(self, ids: Iterable[MessageId]) -> bool:
        """Whether one of these, whose leases a commit has ended, may be out of its attempts, and set aside therefore:
        its delivery was the last that it may have, or is not known here."""
        if not self.queue.options.max_attempts:
            return False
        leases = (self._in_flight.lease(id_) for id_ in all_normalised(self._kind, ids) if id_ is not None)
        return any(lease is None or is_spent(self.queue, lease.release.epoch) for lease in leases)

    def put_off(self, ids: Sequence[MessageId], told: PutOff) -> bool:
        """A commit put off all these messages. False, and nothing is done, where the table has to be asked: `changed`
        and `touched` then. That is so while a pass may claim one of them."""
        known = [id_ for id_ in all_normalised(self._kind, ids) if id_ is not None]
        if self._pass_began is not None or len(known) < len(ids) or self.queue.options.waits_for_settlement:
            return False
        full = self._kept.window_full(known) or self._frees(known)
        if (due := self._rechecker.put_off(self.queue, known, told)) is None:
            return False
        self.lapses.forget(known)
        self._company.settled(known)
        self._note_due(due)
        if full or (self._sleeps_until is not None and due < self._sleeps_until):
            self._wake()
        return True

    def uncertain(self) -> None:
        """A commit may have ended some messages."""
        for receiver_set in self._receiver_sets:
            receiver_set.uncertain()
        self._rechecker.uncertain()
        self._company.uncertain()
        self._wake()

    def retune(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = queue
        self._kind = id_kind(queue.columns[_id_position(queue)])
        for receiver_set in self._receiver_sets:
            receiver_set.retune(queue)
        for subscription in list(self._subscriptions):
            subscription.retune(queue)
        self._outage.end_pause()  # perhaps it was the definition that failed
        self._wake()

    async def open(self) -> None:
        self._end_error = self._end_error if self.running else None
        await super().open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Shut down: streams end. What their clients have not read goes back; what they hold stays leased."""
        await self.end(ShuttingDown("Server shutdown in progress"), release=True, grace_seconds=grace_seconds)

    async def end(self, error: EngineError, *, release: bool, grace_seconds: float = 5.0) -> None:
        """No new claims; every stream ends with the error. If `release`, what no receiver has read goes back uncounted;
        what receivers hold they may go on with, and settle through another proxy before their leases end."""
        if self._end_error is not None:
            return
        self._end_error = error
        deadline = self._clock.monotonic() + grace_seconds
        unread = self._departures.end_all(list(self._subscriptions), error)
        await super().close(grace_seconds=grace_seconds)
        if release:
            self._give_backs.add(unread, counted=False)
            await self._give_backs.try_last(self.queue, max(deadline - self._clock.monotonic(), 0.1))
        self._give_backs.abandon()
        self.lapses.close()

    # --- heard from subscriptions

    def unacked(self, subscription: Subscription) -> int:
        return self._in_flight.count(subscription) + self._kept.beside(subscription)

    def closed_to_more(self, subscription: Subscription) -> bool:
        return self._company.closed(subscription)

    def wants(self, subscription: Subscription) -> None:
        self._subscriptions[subscription].wants(subscription)

    def ended(self, subscription: Subscription) -> None:
        receiver_set = self._subscriptions.pop(subscription)
        receiver_set.leave(subscription)
        self._receiver_sets.left(receiver_set)

    async def closed(self, subscription: Subscription, *, give_back: bool) -> None:
        connection_id = subscription.request.connection_id
        if give_back:
            self._recent.gone(connection_id)
        else:
            self._recent.ended(connection_id, self._clock.monotonic())
        tries = self._departures.closed(self.queue, subscription, give_back=give_back)
        if tries is None:
            return
        self._wake()
        if self.running and self._outage.error is None:
            await asyncio.wait(tries, timeout=_CLOSE_WAIT_SECONDS)

    def _orphaned(self, messages: Sequence[Message]) -> None:
        """Leased, but their receiver ended, or the table changed, meanwhile."""
        self._give_backs.add([release_of(message) for message in messages], counted=False)

    def _unheard(self, leases: Sequence[Release]) -> None:
        """Perhaps leased, and whoever was to hand them out no longer listened."""
        self._give_backs.add(leases, counted=False, doubtful=True)
        self._wake()

    def _leased(self, ids: Collection[MessageId]) -> None:
        if self._receiver_sets.filtered:
            for receiver_set in self._receiver_sets:
                receiver_set.leased(ids)

    def _note_due(self, monotonic: float) -> None:
        for receiver_set in self._receiver_sets:
            receiver_set.note_due(monotonic)

    # --- the owner task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            # Most wakes only tell that a message was acked, or that its receiver waits again.
            if not self._receiver_sets.may_work:
                at = self._next_time()
                if at is None or at > self._clock.monotonic():
                    await self._sleep(at)
                    continue
            if not (await self.run_once()).worked:
                await self._sleep(self._next_time())

    async def run_once(self) -> PassResult:
        """One pass; see the module. Never raises a BackendError: trouble only makes a pause."""
        self._pass_began = began = self._clock.monotonic()
        try:
            return await self._pass()
        finally:
            self._pass_began = None
            self.passes += 1
            self.usual_seconds += (self._clock.monotonic() - began - self.usual_seconds) / _USUAL_OVER

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
        if self._subscriptions or self._kept:
            await self._recheck(result)  # before leases run out here that were renewed
        now = self._clock.monotonic()
        for lease in (over := self._in_flight.expire(now)):
            self.lapses.ran_out(lease.release, lease.holder.request, beside=lease.beside)
        self.metrics.expired += len(over)
        if self._subscriptions:
            with self._receiver_sets.in_turn(now) as turns:
                for receiver_set in turns:
                    await self._step(receiver_set, result)

    async def _step(self, receiver_set: ReceiverSet, result: PassResult) -> None:
        sent = result.sent
        try:
            await receiver_set.step(result)
        except BackendError as error:
            if not await is_of_condition(error, receiver_set, self._context.common):
                raise
            self._logger.warning("%s: streams ended, their WHERE failed: %s", self.queue.name, error)
            result.looked = True
            receiver_set.end(error)
            if error.errno in _DOUBTFUL_ERRNOS:
                self._doubt()
        if result.sent > sent:
            self._served += 1
            receiver_set.served = self._served

    async def _return_leases(self, result: PassResult) -> None:
        due = self._give_backs.next_try()
        if due is not None and due <= self._clock.monotonic():
            result.released = await self._give_backs.run_once(self.queue)
            if result.released:
                for receiver_set in self._receiver_sets:
                    receiver_set.want_look()

    async def _recheck(self, result: PassResult) -> None:
        due = self._next_recheck()
        if due is not None and due <= self._clock.monotonic():
            result.rechecked = True
            await self._rechecker.run_once(self.queue)

    def _next_recheck(self) -> float | None:
        may_wait = any(receiver_set.messages_may_wait for receiver_set in self._receiver_sets)
        return self._rechecker.next_time(messages_wait=may_wait, alone=self._receiver_sets.wait_for_free)

    # --- trouble

    def _failed(self, error: BackendError) -> None:
        self.metrics.backend_errors += 1
        for receiver_set in self._receiver_sets:
            receiver_set.failed()
        if isinstance(error, LeaseUnknown):
            self._unheard(error.leases)
        self._outage.failed(error)
        self._end_drained_by_outage()
        if error.errno in _DOUBTFUL_ERRNOS:
            self._doubt()

    def _end_drained_by_outage(self) -> None:
        assert self._outage.error is not None
        for receiver_set in self._receiver_sets:
            receiver_set.end_drained_by(self._outage.error)

    # --- time

    def _wake(self) -> None:
        self._wakeup.set()

    def _next_time(self) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        sets_next = self._receiver_sets.next_time(self._clock.monotonic())
        times = [self._give_backs.next_try(), self._in_flight.next_deadline(), sets_next]
        if self._subscriptions or self._kept:
            times.append(self._next_recheck())
        wanted = min((time for time in times if time is not None), default=None)
        return None if wanted is None else max(wanted, self._outage.retry_at)

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
