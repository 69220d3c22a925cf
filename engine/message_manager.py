"""MessageManager: one queue's life in memory. Head of the engine's hot path, so its rules first.

What lives here
    The receivers of one queue, the cache of keys that wait, the leases in flight, and one owner task that does all
    database work for them, one call at a time. No locks: state changes between awaits only, and only the owner awaits.

Modes
    idle      no receiver: nothing is cached, the table is not looked at (the purger alone works on it)
    steady    the cache holds everything that was due at the last look
    pending   the table holds, or may hold, due messages that the cache does not
    What leads from one to another is the table TRANSITIONS; a (mode, event) that is not in it is a defect.

Theory of operation
    A pass (`run_once`) does what is needed, in this order: give back leases of receivers that are gone, drop leases
    that ran out, ask the table about messages in flight, look, claim and hand out, end bounded results for which
    nothing is left. Where receivers wait and there is no backlog, the look and the claim are one call to the store.
    A pass that did anything is followed by another at once; otherwise the owner sleeps until it is woken (a commit, a
    receiver) or the next thing falls due. Without a receiver that waits, nothing is looked for.

What must never be
    - a message handed out that is not leased in the table;
    - a message kept only here: whatever is in memory can be lost at any moment;
    - a pass that repeats without pause while it achieves nothing: rows that cannot be claimed pause (conflicts), and
      a database that fails pauses everything here (backoff), except that a commit heard of ends the pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.cache import MessageCache
from engine.clock import Clock, Jitter
from engine.conflicts import Conflicts
from engine.errors import BackendError, EngineError, ShuttingDown
from engine.give_back import GiveBacks
from engine.identity import IdKind, id_kind, normalise
from engine.in_flight import InFlight
from engine.metrics import QueueMetrics
from engine.model import Message, MessageId, QueueSpec, QueueStatus, SubscribeRequest, WaitMode
from engine.outage import Outage
from engine.poller import Looked, Poller
from engine.rechecker import Rechecker
from engine.sender import CLAIM_MAX, Sender, Sent, Taker
from engine.service import Service
from engine.store import MessageStore, Release
from engine.subscription import Subscription
from engine.work import DatabaseWork

_CLOSE_WAIT_SECONDS = 1.0  # a session that closes need not wait longer for its give back, which goes on without it
_DOUBTFUL_ERRNOS = frozenset((1054, 1146))  # unknown column or table: the queue changed around the proxy


class Mode(Enum):
    """See the module."""

    IDLE = "idle"
    STEADY = "steady"
    PENDING = "pending"


class Event(Enum):
    """What moves a manager from mode to mode."""

    SUBSCRIBED = "a receiver came"
    LAST_LEFT = "the last receiver left"
    TOUCHED = "a commit touched the queue"
    LOOKED_ALL = "a look brought everything due"
    LOOKED_PART = "a look brought less than is due"
    LOST = "a claim failed or the cache was cut"


TRANSITIONS: Mapping[tuple[Mode, Event], Mode] = {
    (Mode.IDLE, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.IDLE, Event.TOUCHED): Mode.IDLE,
    (Mode.IDLE, Event.LOOKED_ALL): Mode.IDLE,
    (Mode.IDLE, Event.LOOKED_PART): Mode.IDLE,
    (Mode.IDLE, Event.LOST): Mode.IDLE,
    (Mode.STEADY, Event.SUBSCRIBED): Mode.STEADY,
    (Mode.STEADY, Event.TOUCHED): Mode.PENDING,
    (Mode.STEADY, Event.LOOKED_ALL): Mode.STEADY,
    (Mode.STEADY, Event.LOOKED_PART): Mode.PENDING,
    (Mode.STEADY, Event.LOST): Mode.PENDING,
    (Mode.STEADY, Event.LAST_LEFT): Mode.IDLE,
    (Mode.PENDING, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.PENDING, Event.TOUCHED): Mode.PENDING,
    (Mode.PENDING, Event.LOOKED_ALL): Mode.STEADY,
    (Mode.PENDING, Event.LOOKED_PART): Mode.PENDING,
    (Mode.PENDING, Event.LOST): Mode.PENDING,
    (Mode.PENDING, Event.LAST_LEFT): Mode.IDLE,
}


@dataclass(slots=True)
class Pass:
    """What one pass did."""

    released: int = 0
    rechecked: bool = False
    looked: bool = False
    claimed: bool = False
    sent: int = 0
    failed: bool = False

    @property
    def worked(self) -> bool:
        return bool(self.released or self.rechecked or self.looked or self.claimed)


class MessageManager(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        store: MessageStore,
        work: DatabaseWork,
        clock: Clock,
        jitter: Jitter,
        metrics: QueueMetrics,
        logger: logging.Logger,
        doubt: Callable[[], None],
        released: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(f"manager of {queue.name}", logger)
        self.queue = queue
        self.mode = Mode.IDLE
        self.metrics = metrics
        self._clock, self._doubt = clock, doubt
        self._kind = id_kind(queue.columns[_id_position(queue)])
        self._cache = MessageCache(queue.options.cache_size)
        self._in_flight: InFlight[Subscription] = InFlight()
        self._conflicts = Conflicts()
        self._poller = Poller(store, work, clock, self._cache, self._conflicts, metrics)
        self._sender = Sender(
            store, work, clock, jitter, self._cache, self._in_flight, self._conflicts, metrics, self._poller.note_due
        )
        self._rechecker = Rechecker(store, work, clock, self._in_flight, metrics)
        self._give_backs = GiveBacks(store, work, clock, metrics, logger, released)
        self._subscriptions: dict[Subscription, None] = {}
        self._waiting: dict[Subscription, None] = {}  # in the order in which they began to wait
        self._bounded: dict[Subscription, asyncio.TimerHandle | None] = {}  # those that end by themselves, and when
        self._wakeup = asyncio.Event()
        self._end_error: EngineError | None = None
        self._outage = Outage(queue.name, clock, logger)

    def __repr__(self) -> str:
        return (
            f"<MessageManager {self.queue.name} {self.mode.value} subscribers={len(self._subscriptions)}"
            f" cached={len(self._cache)} in_flight={len(self._in_flight)} sent={self.metrics.sent}>"
        )

    def status(self) -> QueueStatus:
        """One row of SHOW QUEUES."""
        counts = (len(self._subscriptions), len(self._cache), len(self._in_flight))
        return QueueStatus(self.queue.name, *counts, self.metrics.snapshot())

    # --- heard from the engine

    def subscribe(self, request: SubscribeRequest) -> Subscription:
        """A new receiver; it takes part from the moment its consumer waits. Raises what ended this manager."""
        if self._end_error is not None:
            raise self._end_error
        subscription = Subscription(self.queue, request, self)
        self._subscriptions[subscription] = None
        self._on(Event.SUBSCRIBED)
        if subscription.needs_look:
            self._poller.want()
        if subscription.bounded:
            self._bounded[subscription] = self._wait_timer(subscription)
        return subscription

    def _wait_timer(self, subscription: Subscription) -> asyncio.TimerHandle | None:
        if subscription.request.wait_mode is not WaitMode.WAIT:
            return None
        until = self._clock.monotonic() + subscription.request.wait_seconds
        return asyncio.get_running_loop().call_at(until, self._wait_over, subscription)

    def touched(self) -> None:
        """A commit added or rescheduled messages."""
        self._on(Event.TOUCHED)
        if self.mode is not Mode.IDLE:
            self._poller.want()
            self._conflicts.end_pauses()
            self._outage.end_pause()
            self._wake()

    def settled(self, ids: Iterable[MessageId], *, here: bool = True) -> None:
        """A commit ended these messages; `here`: by a client of this engine, not of a neighbour's."""
        known = []
        unsure = False
        for given in ids:
            id_ = normalise(self._kind, given)
            if id_ is None:
                unsure = True
            else:
                known.append(id_)
                self._conflicts.remove(id_)
        hits = self._sender.settled(known) + self._cache.discard(known) + self._in_flight.settle(known)
        self.metrics.settled_seen += hits
        if hits < len(known):
            # 'A' may be the same message as 'a' by the column's collation: only the table knows.
            unsure = unsure or self._kind is not IdKind.INTEGER
        if unsure and here:
            self.uncertain()
        elif hits:
            self._wake()

    def uncertain(self) -> None:
        """A commit may have ended some messages."""
        self._sender.uncertain()
        self._rechecker.uncertain()
        self._wake()

    def retune(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = queue
        self._kind = id_kind(queue.columns[_id_position(queue)])
        self._cache.limit = queue.options.cache_size
        self._cache.clear()
        self._on(Event.LOST)
        for subscription in list(self._subscriptions):
            subscription.retune(queue)
        self._poller.want()
        self._wake()

    async def open(self) -> None:
        if not self.running:
            self._end_error = None
        await super().open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Shut down: streams end, and what is unacked goes back uncounted."""
        await self.end(ShuttingDown("Server shutdown in progress"), release=True, grace_seconds=grace_seconds)

    async def end(self, error: EngineError, *, release: bool, grace_seconds: float = 5.0) -> None:
        """No new claims; every stream ends with the error; leases go back uncounted if `release`."""
        if self._end_error is not None:
            return
        self._end_error = error
        deadline = self._clock.monotonic() + grace_seconds
        holders = self._in_flight.holders()
        held = [lease for holder in holders for lease in self._in_flight.drop_holder(holder)]
        for subscription in list(self._subscriptions):
            subscription.end(error)
        await super().close(grace_seconds=grace_seconds)
        if release:
            self._give_backs.add(held, counted=False)
            await self._release_all(max(deadline - self._clock.monotonic(), 0.1))
        self._give_backs.abandon()

    # --- heard from subscriptions

    def unacked(self, subscription: Subscription) -> int:
        return self._in_flight.count(subscription)

    def wants(self, subscription: Subscription) -> None:
        self._waiting.pop(subscription, None)
        self._waiting[subscription] = None
        self._wake()

    def ended(self, subscription: Subscription) -> None:
        del self._subscriptions[subscription]
        self._waiting.pop(subscription, None)
        if timer := self._bounded.pop(subscription, None):
            timer.cancel()
        if not self._subscriptions:
            self._on(Event.LAST_LEFT)
            self._forget()

    def _forget(self) -> None:
        self._cache.clear()
        self._conflicts.clear()
        self._poller.reset()

    async def closed(self, subscription: Subscription, *, give_back: bool) -> None:
        untaken = {message.id for message in subscription.take_untaken()}
        leases = self._in_flight.drop_holder(subscription)
        # What never reached the consumer is no attempt.
        futures = [self._give_backs.add([lease for lease in leases if lease.id in untaken], counted=False)]
        if give_back:
            futures.append(self._give_backs.add([x for x in leases if x.id not in untaken], counted=True))
        self._wake()
        if self.running and self._outage.error is None:
            await asyncio.wait(futures, timeout=_CLOSE_WAIT_SECONDS)

    def _wait_over(self, subscription: Subscription) -> None:
        subscription.draining = True
        self._wake()

    # --- the owner task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            self._wakeup.clear()
            if not (await self.run_once()).worked:
                await self._sleep(self._next_time())

    async def run_once(self) -> Pass:
        """One pass; see the module. Never raises a BackendError: trouble only makes a pause."""
        result = Pass()
        if self._outage.pausing:
            self._end_drained_by_outage()
            return result
        try:
            await self._do(result)
        except BackendError as error:
            self._failed(error)
            return Pass(failed=True)
        if result.worked:
            self._outage.worked()
        self._end_drained()
        return result

    async def _do(self, result: Pass) -> None:
        await self._return_leases(result)
        self.metrics.expired += self._in_flight.expire(self._clock.monotonic())
        if self._subscriptions:
            await self._recheck(result)
            if takers := self._takers_of_a_look():
                await self._look_and_send(result, takers)
            else:
                await self._look(result)
                await self._send(result)

    async def _return_leases(self, result: Pass) -> None:
        due = self._give_backs.next_try()
        if due is not None and due <= self._clock.monotonic():
            result.released = await self._give_backs.run_once(self.queue)
            if result.released:
                self._poller.want()

    async def _recheck(self, result: Pass) -> None:
        due = self._rechecker.next_time(messages_wait=self._messages_may_wait())
        if due is not None and due <= self._clock.monotonic():
            result.rechecked = True
            await self._rechecker.run_once(self.queue)

    def _messages_may_wait(self) -> bool:
        overdue = self._poller.next_look(self.queue) <= self._clock.monotonic()
        return bool(self._cache) or self.mode is Mode.PENDING or overdue

    async def _look(self, result: Pass) -> None:
        room = self._room()
        if not room or not self._look_due(room):
            return
        asking = self._asking()
        result.looked = True
        self._looked(await self._poller.run_once(self.queue, room), asking)

    def _takers_of_a_look(self) -> list[Taker]:
        """Whom a look that is due serves at once.

        Nobody, where the cache holds messages that come first, and in a backlog: there a look takes long enough for
        further receivers to come to wait, and one claim after it serves them all.
        """
        room = self._room()
        if self._cache or self._poller.backlog or not room or not self._look_due(room):
            return []
        return self._sender.takers(self._waiting)

    async def _look_and_send(self, result: Pass, takers: Sequence[Taker]) -> None:
        queue, asking = self.queue, self._asking()
        result.looked = True
        limit = self._poller.start(sum(capacity for _, capacity in takers))
        try:
            found = await self._sender.look_and_claim(queue, takers, limit)
        except BaseException:
            self._poller.want()
            self._on(Event.LOST)
            raise
        result.claimed = bool(found.leased)
        looked = self._poller.finish(found.look, found.gone)
        self._gave(result, self._sender.hand_out(queue, takers, found.leased))
        self._looked(looked, asking)

    def _asking(self) -> list[Subscription]:
        """Results that have to be answered from a look that begins now, or later."""
        return [subscription for subscription in self._bounded if subscription.needs_look]

    def _looked(self, looked: Looked, asking: Iterable[Subscription]) -> None:
        for subscription in asking:
            subscription.needs_look = False
        self._on(Event.LOOKED_ALL if looked.complete else Event.LOOKED_PART)
        if self.mode is Mode.IDLE:
            self._forget()  # the last receiver left meanwhile

    def _room(self) -> int:
        """How many messages the waiting receivers can take, counted up to what one claim can give."""
        room = 0
        for subscription in self._waiting:
            room += subscription.capacity()
            if room >= CLAIM_MAX:
                break
        return room

    def _look_due(self, room: int) -> bool:
        if self.mode is Mode.PENDING and len(self._cache) < room:
            return True
        return self._poller.next_look(self.queue) <= self._clock.monotonic()

    async def _send(self, result: Pass) -> None:
        if not self._cache or not self._room():
            return
        result.claimed = True
        try:
            sent = await self._sender.run_once(self.queue, self._waiting)
        except BaseException:
            self._on(Event.LOST)
            raise
        self._gave(result, sent)

    def _gave(self, result: Pass, sent: Sent) -> None:
        result.sent = sent.handed_out
        self._give_backs.add([_release_of(message) for message in sent.orphans], counted=False)
        for subscription in sent.served:
            if not subscription.waiting:
                self._waiting.pop(subscription, None)

    def _end_drained(self) -> None:
        """End the bounded results for which nothing is left."""
        draining = [s for s in self._bounded if s.draining and s.waiting and not s.needs_look]
        if not draining or self._cache or self.mode is Mode.PENDING:
            return
        if self._poller.next_look(self.queue) > self._clock.monotonic():
            for subscription in draining:
                subscription.finish()

    # --- trouble

    def _failed(self, error: BackendError) -> None:
        self.metrics.backend_errors += 1
        self._on(Event.LOST)
        if self._subscriptions:
            self._poller.want()
        self._outage.failed(error)
        self._end_drained_by_outage()
        if error.errno in _DOUBTFUL_ERRNOS:
            self._doubt()

    def _end_drained_by_outage(self) -> None:
        """A result that has to end now must not end as if nothing had been due."""
        assert self._outage.error is not None
        for subscription in [s for s in self._bounded if s.draining and s.waiting]:
            if subscription.sent:
                subscription.finish()
            else:
                subscription.end(self._outage.error)

    async def _release_all(self, grace_seconds: float) -> None:
        try:
            await asyncio.wait_for(self._give_backs.run_once(self.queue), grace_seconds)
        except (BackendError, TimeoutError) as error:
            self._logger.warning("%s: leases run out, not given back: %s", self.queue.name, error)

    # --- modes and time

    def _on(self, event: Event) -> None:
        self.mode = TRANSITIONS[self.mode, event]

    def _wake(self) -> None:
        self._wakeup.set()

    def _next_time(self) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        times = [self._give_backs.next_try(), self._in_flight.next_deadline()]
        if self._subscriptions:
            times.append(self._rechecker.next_time(messages_wait=self._messages_may_wait()))
        if self._room():
            times.append(self._poller.next_look(self.queue))
        wanted = min((time for time in times if time is not None), default=None)
        return None if wanted is None else max(wanted, self._outage.retry_at)

    async def _sleep(self, until: float | None) -> None:
        """Until woken or that time."""
        if until is None:
            await self._wakeup.wait()
            return
        timer = asyncio.get_running_loop().call_at(until, self._wakeup.set)
        try:
            await self._wakeup.wait()
        finally:
            timer.cancel()


def _id_position(queue: QueueSpec) -> int:
    return next(index for index, column in enumerate(queue.columns) if column.name.lower() == "id")


def _release_of(message: Message) -> Release:
    return Release(message.id, message.due_ns, message.lease_until_ns, message.epoch)
