"""ReceiverSet: the receivers of one queue with the same condition, and the messages that wait for them.

Contents
    The receivers, the cache of keys that wait, and when the table must be polled for them. Turns, the leases in flight
    and all that concerns the queue as a whole belong to the manager (engine.delivery.message_manager).

Modes
    idle      no receiver: nothing is cached, the table is not polled
    steady    the cache has everything that was due at the last poll
    pending   the table has, or may have, due messages that the cache does not have
    The table TRANSITIONS has what leads from one to another; a (mode, event) that is not in it is a defect.

A step polls, and claims and hands out. Where receivers wait and there is no backlog, the poll and the claim are one
call to the store. No locks: state changes between awaits only, and only the manager's owner task awaits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from engine.delivery.cache import CONFIRM_SECONDS, AddedIds, MessageCache
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import DeliveryContext
from engine.delivery.filter_shares import ReceiverSetShare
from engine.delivery.filtered_poller import FilteredPoller
from engine.delivery.isolated_delivery import NO_SPLIT, ReceiverSplit
from engine.delivery.poller import Poller, PollOutcome
from engine.delivery.receiver_modes import TRANSITIONS, Event, Mode
from engine.delivery.sender import CLAIM_MAX, Sender, SendResult
from engine.delivery.subscription import BoundedResults, Subscription
from engine.model.errors import EngineError
from engine.model.queue import Condition, MessageId, QueueSpec, WaitMode


@dataclass(slots=True)
class PassResult:
    """What one pass of the manager did, in whichever receiver sets."""

    released: int = 0
    rechecked: bool = False
    polled: bool = False
    claimed: bool = False
    sent: int = 0
    failed: bool = False

    @property
    def worked(self) -> bool:
        return bool(self.released or self.rechecked or self.polled or self.claimed)


class ReceiverSet:
    """See the module."""

    def __init__(self, queue: QueueSpec, context: DeliveryContext, condition: Condition | None = None) -> None:
        common, engine = context.queue, context.queue.engine
        self.queue = queue
        self.condition = condition
        self.mode = Mode.IDLE
        self.last_delivery = 0
        """When it last got messages, as a number that the manager counts up."""
        self._clock, self._host = engine.clock, context.host
        self._takes_added = condition is None and queue.takes_added
        self._added = AddedIds()
        self._cache = MessageCache(queue.options.cache_size)
        self._cache.separate_alone = queue.options.tries_alone
        self._isolated_delivery = context.isolated_delivery
        self._conflicts = Conflicts()
        cache, conflicts, self._pause = self._cache, self._conflicts, context.pause
        self._poller: Poller | FilteredPoller
        if condition is None:
            self._poller = Poller(common, cache, conflicts)
        else:
            share = ReceiverSetShare(context.shares, engine.clock)
            self._poller = FilteredPoller(condition, common, cache, conflicts, share)
        self._sender = Sender(context, cache, conflicts, condition)
        self._subscriptions: dict[Subscription, None] = {}
        self._waiting: dict[Subscription, None] = {}  # in the order in which they began to wait
        self._ack_waits: Counter[int | None] = Counter()  # of the receivers
        self._bounded = BoundedResults(engine.clock, context.host.wake)
        self._awaiting_poll: list[Subscription] = []  # results that the current poll answers

    def __repr__(self) -> str:
        return f"<ReceiverSet {self.mode.value} subscribers={len(self._subscriptions)} cached={self.cached}>"

    @property
    def cached(self) -> int:
        """Keys that wait here."""
        return len(self._cache)

    @property
    def occupied(self) -> bool:
        """Whether it has receivers."""
        return bool(self._subscriptions)

    @property
    def may_work(self) -> bool:
        """Whether a step, or the end of a pass, may do anything now; of one without a condition."""
        if self._bounded:  # those results may be at their end
            return True
        room = self._room()
        return self._can_send(room) or (bool(room) and (bool(self._added) or self._poll_due(room)))

    # --- receivers

    def join(self, subscription: Subscription) -> None:
        """A new receiver; it takes part from the moment it waits."""
        self._subscriptions[subscription] = None
        self._ack_waits[subscription.request.ack_wait_ns] += 1
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.join(subscription.request.user)
        self._on(Event.SUBSCRIBED)
        if subscription.needs_poll:
            self.request_poll()
        if subscription.bounded:
            self._bounded.join(subscription)

    def on_waiting(self, subscription: Subscription) -> None:
        """It waits for a batch."""
        self._waiting.pop(subscription, None)
        self._waiting[subscription] = None
        self._host.wake()

    def leave(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        del self._subscriptions[subscription]
        self._ack_waits[subscription.request.ack_wait_ns] -= 1
        self._ack_waits += Counter()  # without those of which none is left
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.leave(subscription.request.user)
        self._waiting.pop(subscription, None)
        self._bounded.leave(subscription)
        if not self._subscriptions:
            self._on(Event.LAST_LEFT)
            self._clear()

    def _clear(self) -> None:
        self._added.take()
        self._cache.clear()
        self._conflicts.clear()
        self._poller.reset()

    # --- what happened to the queue

    def touched(self) -> bool:
        """A commit added or rescheduled messages; whether that concerns a receiver here."""
        self._on(Event.TOUCHED)
        if self.mode is Mode.IDLE:
            return False
        self._poller.request_poll()
        self._conflicts.end_pauses()
        self._pause.maybe_slot_freed()
        return True

    def expects(self, added: Sequence[int]) -> bool:
        """A commit added messages, probably just these; whether they will be claimed without a poll: if all messages
        that were due before are handed out, and receivers wait that can take them."""
        if not self._takes_added or not self._all_handed_out:
            return False
        return self._room(len(added)) >= len(added) and self._added.add(added)

    @property
    def _all_handed_out(self) -> bool:
        return self.mode is Mode.STEADY and not self._cache

    def settled(self, ids: Sequence[MessageId]) -> int:
        """These ended; returns how many of them waited here or were being claimed."""
        if self._added.discard(ids):
            self._poll_for_added()
            self._host.wake()
        self._conflicts.remove(ids)
        self._on_slot_freed()
        return self._sender.settled(ids) + self._cache.discard(ids)

    def uncertain(self) -> None:
        """Some messages may have ended."""
        self._sender.uncertain()
        self._on_slot_freed()

    def _on_slot_freed(self) -> None:
        """The end of one message may let others be claimed: with max_concurrency at once, with order_key after a
        poll."""
        self._pause.on_slot_freed()
        if self.queue.options.order_key is not None and self.mode is not Mode.IDLE:
            self._on(Event.TOUCHED)
            self.request_poll()
            self._conflicts.end_pauses()

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = queue
        self._takes_added = self.condition is None and queue.takes_added
        self._added.take()
        self._pause.clear()
        self._cache.limit, self._cache.separate_alone = queue.options.cache_size, queue.options.tries_alone
        self._cache.clear()
        self._on(Event.LOST)
        self._poller.request_poll()

    def request_poll(self) -> None:
        """Messages became due again, or all that is due is requested."""
        self._pause.on_slot_freed()
        if isinstance(self._poller, FilteredPoller):
            self._poller.request_poll(full=True)
        else:
            self._poller.request_poll()

    def note_due(self, monotonic: float) -> None:
        """A message falls due then."""
        self._poller.note_due(monotonic)

    def leased(self, ids: Collection[MessageId]) -> None:
        """These were leased for another receiver set."""
        self._cache.discard(ids)

    def end(self, error: EngineError) -> None:
        """All its streams end."""
        for subscription in list(self._subscriptions):
            subscription.end(error)

    async def retry(self) -> None:
        """Poll once more where the last poll failed. Raises BackendError."""
        if isinstance(self._poller, FilteredPoller):
            await self._poller.retry(self.queue)

    def reset(self) -> None:
        """Forget all that is known of the table and of waiting receivers, and poll."""
        self._waiting = {subscription: None for subscription in self._subscriptions if subscription.waiting}
        self._added.take()
        self._cache.clear()
        self._conflicts.clear()
        self._pause.clear()
        self._on(Event.LOST)
        if self._subscriptions:
            self._poller.request_poll()

    def failed(self) -> None:
        """The database failed the queue's work."""
        self._on(Event.LOST)
        if self._subscriptions:
            self._poller.request_poll()

    # --- a step

    def rests_until(self, now: float) -> float:
        """Until when a pass can only wait until its accounts may be polled for again; a time in the past means that
        there is something to do. It has to cost little: one account may have many receiver sets."""
        if self._cache or not isinstance(self._poller, FilteredPoller):
            return 0.0
        return self._poller.share.ready_at(self._poller.in_progress, now)

    def begin_pass(self) -> None:
        """All receiver sets that may be polled for now may be so until the end of this pass."""
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.begin_turn(self._poller.in_progress)

    def end_pass(self) -> None:
        """See `begin_pass`."""
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.end_turn()

    async def step(self, result: PassResult) -> None:
        """Poll if that is due, claim and hand out what can be. Raises BackendError."""
        if not self._subscriptions or self.queue.options.paused:
            return
        if self._added:
            if not (room := self._room()):
                return
            fits = room >= len(self._added) and len(self._ack_waits) == 1
            if fits and self._all_handed_out and not self._poll_due(room):
                await self._claim_added(result)
                return
            self._poll_for_added()
        if self._pause.active:
            if self._polls_ahead:
                await self._poll(result)
        elif self._poll_and_claim_due:
            await self._poll_and_send(result)
        else:
            await self._poll(result)
            await self._send(result)

    def _poll_for_added(self) -> None:
        self._added.take()
        self.touched()

    async def _claim_added(self, result: PassResult) -> None:
        queue, ids, first = self.queue, self._added.take(), self._sender.first_receivers(self._waiting)
        result.claimed = True
        try:
            leased, complete = await self._sender.claim_added(queue, first, ids)
        except BaseException:
            self._on(Event.LOST)
            raise
        self._added.record_outcome(correct=complete)
        self._on_sent(result, self._sender.hand_out(queue, self._waiting, first, leased))
        if self.mode is Mode.IDLE:
            self._clear()  # the last receiver left meanwhile
        elif complete:
            self._poller.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        else:
            self._poll_for_added()

    @property
    def _polls_ahead(self) -> bool:
        """Whether to poll although nothing may be claimed yet. With a condition it may take many pages to find the
        first message: a receiver set that polled only while nothing is paused would never have one when the pause
        ends."""
        return self.condition is not None and not self._cache

    async def _poll(self, result: PassResult) -> None:
        room = self._room()
        if not room or not self._poll_due(room):
            return
        if not self._in_progress:
            self._awaiting_poll = self._bounded.awaiting_poll()
        result.polled = True
        outcome = await self._poller.run_once(self.queue, room)
        self._on_polled(outcome, [] if self._in_progress else self._awaiting_poll)

    @property
    def _in_progress(self) -> bool:
        """Whether a poll has begun that takes several steps."""
        return isinstance(self._poller, FilteredPoller) and self._poller.in_progress

    @property
    def _poll_and_claim_due(self) -> bool:
        """Whether a poll is due that a claim for the receivers, all of one ack_wait, follows at once.

        Not where the cache has messages that come first, nor in a backlog: there a poll takes so long that further
        receivers begin to wait meanwhile, and one claim after it is for all of them. But the messages that are fed to a
        consumer group are leased without a poll.
        """
        room, together = self._room(), not self._poller.backlog or self.queue.takes_directly
        if self.condition is not None or self._cache or not together or not room or not self._poll_due(room):
            return False
        return len(self._ack_waits) == 1

    async def _poll_and_send(self, result: PassResult) -> None:
        queue, awaiting_poll = self.queue, self._bounded.awaiting_poll()
        assert isinstance(self._poller, Poller)
        result.polled = True
        first = self._sender.first_receivers(self._waiting)
        limit = self._poller.start(sum(capacity for _, capacity in first))
        try:
            claimed = await self._sender.poll_and_claim(queue, first, limit)
        except BaseException:
            self._poller.failed()
            self._on(Event.LOST)
            raise
        result.claimed = result.claimed or bool(claimed.leased)
        known = self._added.discard({key.id for key in claimed.poll.keys})
        outcome = self._poller.finish(claimed.poll, claimed.removed)
        if known:
            self._poller.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        self._on_sent(result, self._sender.hand_out(queue, self._waiting, first, claimed.leased))
        self._on_polled(outcome, awaiting_poll)

    def _on_polled(self, outcome: PollOutcome, awaiting_poll: Iterable[Subscription]) -> None:
        for subscription in awaiting_poll:
            subscription.needs_poll = False
        self._on(Event.POLLED_ALL if outcome.complete else Event.POLLED_PART)
        if self.mode is Mode.IDLE:
            self._clear()  # the last receiver left meanwhile

    def _room(self, enough: int = CLAIM_MAX) -> int:
        """How many messages the waiting receivers can take that get several at once, counted up to `enough`."""
        room = 0
        for subscription in self._receiver_split().others(self._waiting):
            room += subscription.capacity()
            if room >= enough:
                break
        return room

    def _receiver_split(self) -> ReceiverSplit:
        """Which receivers get a message alone, and which are reserved for one."""
        if not self._cache.alone:
            return NO_SPLIT
        return self._isolated_delivery.split(self._cache, tuple(self._waiting), len(self._subscriptions))

    def _can_send(self, room: int) -> bool:
        """Whether a message of the cache can go to a receiver now. `room`: see `_room`."""
        return bool(self._cache) and (bool(room and self._cache.together) or bool(self._receiver_split().alone))

    @property
    def waits_for_idle_receiver(self) -> bool:
        """Whether messages wait for a receiver that has none."""
        return self._cache.alone > 0

    def _poll_due(self, room: int) -> bool:
        return self._poller.poll_due(self.queue, needs_more=self._needs_more(room))

    def _needs_more(self, room: int) -> bool:
        return self.mode is Mode.PENDING and self._cache.together < room

    async def _send(self, result: PassResult) -> None:
        if not self._can_send(self._room()):
            return
        result.claimed, split = True, self._receiver_split()
        try:
            sent = await self._sender.run_once(self.queue, split.others(self._waiting), split.alone)
        except BaseException:
            self._on(Event.LOST)
            raise
        self._on_sent(result, sent)

    def _on_sent(self, result: PassResult, sent: SendResult) -> None:
        result.sent += sent.handed_out
        self._host.on_orphaned(sent.orphans)
        for subscription in sent.receivers:
            if not subscription.waiting:
                self._waiting.pop(subscription, None)

    # --- bounded results

    def end_drained(self) -> None:
        """End the bounded results for which nothing is left."""
        for subscription in [one for one in self._bounded.draining() if self._is_drained(one)]:
            subscription.finish()

    def end_drained_with(self, error: EngineError) -> None:
        """End the bounded results that have to end now, in an outage."""
        self._bounded.end_with(error)

    @property
    def _paused(self) -> bool:
        """Whether nothing at all may be handed out now."""
        return self.queue.options.paused or self._pause.active

    def _is_drained(self, subscription: Subscription) -> bool:
        split = self._receiver_split()
        if self._paused or subscription.window_full or subscription in split.reserved:
            return True
        waits = self._cache.together > 0 or subscription in split.alone
        if self.condition is not None and subscription.request.wait_mode is WaitMode.WAIT:
            return not waits  # its time is over: a scan may go on for longer
        if subscription.needs_poll or waits or self._added or self._more_may_be_due:
            return False
        if self.condition is not None:
            return True  # all messages were examined since it began; with commits all the time that never ends
        return self._poller.next_poll(self.queue) > self._clock.monotonic()

    @property
    def _more_may_be_due(self) -> bool:
        """Whether the table may have due messages that the cache does not have, and is polled for them."""
        return self.mode is Mode.PENDING and not (self.waits_for_idle_receiver and not self._poll_due(1))

    # --- modes and time

    @property
    def messages_may_wait(self) -> bool:
        """Whether there is, or may be, something to hand out."""
        if self._cache or self._added or self.mode is Mode.PENDING:
            return True
        return self._poller.next_poll(self.queue) <= self._clock.monotonic()

    def next_time(self, now: float) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        rests_until = self.rests_until(now)
        if rests_until > now:
            return rests_until
        room = self._room()
        if self.queue.options.paused or not (room or self._can_send(room)):
            return None
        ends_at = self._pause.ends_at
        if ends_at is not None and not self._polls_ahead:
            return ends_at
        if self._added or self._can_send(room):
            return 0.0  # the pause ended since the last step
        time = self._poller.next_time(self.queue, needs_more=self._needs_more(room))
        if ends_at is not None:
            return min(time, ends_at)
        return None if time == float("inf") else time

    def starved(self, now: float) -> bool:
        """Whether receivers wait and there is something to do for them right now."""
        if any(s.waiting and s.capacity() and s not in self._waiting for s in self._subscriptions):
            return not self.queue.options.paused
        at = self.next_time(now)
        if at is None or at <= now:
            return at is not None
        if self.condition is not None:
            return False  # between two pages it rests, whatever the last one returned
        waits = self._cache.together > 0 or (self.mode is Mode.PENDING and not self._cache.alone)
        return waits and at == self._poller.next_poll(self.queue)

    def describe(self, now: float) -> str:
        """Its state, for a log."""
        at = self._poller.next_poll(self.queue)
        return (
            f"{self.mode.value}: {len(self._subscriptions)} receivers, {len(self._waiting)} of them waiting with room"
            f" for {self._room()}, {self.cached} messages cached, {len(self._conflicts)} not to be had,"
            f" next look {'at once' if at <= now else f'in {at - now:.1f} s'}"
        )

    def _on(self, event: Event) -> None:
        self.mode = TRANSITIONS[self.mode, event]
