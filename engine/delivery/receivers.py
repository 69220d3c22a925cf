"""ReceiverSet: the receivers of one queue that ask for the same messages, and what waits for them.

What lives here
    The receivers, the cache of keys that wait, and when the table must be looked at for them. Whose turn it is, the
    leases in flight and all that concerns the queue as a whole are the manager's (engine.delivery.message_manager).

Modes
    idle      no receiver: nothing is cached, the table is not looked at
    steady    the cache holds everything that was due at the last look
    pending   the table holds, or may hold, due messages that the cache does not
    What leads from one to another is the table TRANSITIONS; a (mode, event) that is not in it is a defect.

A step looks, and claims and hands out. Where receivers wait and there is no backlog, the look and the claim are one
call to the store. No locks: state changes between awaits only, and only the manager's owner task awaits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from engine.delivery.cache import CONFIRM_SECONDS, AddedIds, MessageCache
from engine.delivery.company import NO_PARTING, Parting
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import QueueContext
from engine.delivery.filter_shares import ReceiverSetShare
from engine.delivery.filtered_poller import FilteredPoller
from engine.delivery.poller import Looked, Poller
from engine.delivery.receiver_modes import TRANSITIONS, Event, Mode
from engine.delivery.sender import CLAIM_MAX, Sender, Sent
from engine.delivery.subscription import BoundedResults, Subscription
from engine.model.errors import EngineError
from engine.model.queue import Condition, MessageId, QueueSpec, WaitMode


@dataclass(slots=True)
class PassResult:
    """What one pass of the manager did, in whichever receiver sets."""

    released: int = 0
    rechecked: bool = False
    looked: bool = False
    claimed: bool = False
    sent: int = 0
    failed: bool = False

    @property
    def worked(self) -> bool:
        return bool(self.released or self.rechecked or self.looked or self.claimed)


class ReceiverSet:
    """See the module."""

    def __init__(self, queue: QueueSpec, context: QueueContext, condition: Condition | None = None) -> None:
        common = context.common
        self.queue = queue
        self.condition = condition
        self.mode = Mode.IDLE
        self.served = 0
        """When it was last given messages, as a number that the manager counts up."""
        self._clock, self._wake, self._orphaned = common.clock, context.wake, context.orphaned
        self._takes_added = condition is None and queue.takes_added
        self._added = AddedIds()
        self._cache = MessageCache(queue.options.cache_size)
        self._cache.parted = queue.options.tries_alone
        self._company = context.company
        self._conflicts = Conflicts()
        cache, conflicts, self._pause = self._cache, self._conflicts, context.pause
        self._poller: Poller | FilteredPoller
        if condition is None:
            self._poller = Poller(common, cache, conflicts)
        else:
            share = ReceiverSetShare(context.shares, common.clock)
            self._poller = FilteredPoller(condition, common, cache, conflicts, share)
        self._sender = Sender(context, cache, conflicts, condition)
        self._subscriptions: dict[Subscription, None] = {}
        self._waiting: dict[Subscription, None] = {}  # in the order in which they began to wait
        self._ack_waits: Counter[int | None] = Counter()  # of the receivers
        self._bounded = BoundedResults(common.clock, context.wake)
        self._asked: list[Subscription] = []  # results that are answered from the look under way

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
        return self._can_send(room) or (bool(room) and (bool(self._added) or self._look_due(room)))

    # --- receivers

    def join(self, subscription: Subscription) -> None:
        """A new receiver; it takes part from the moment it waits."""
        self._subscriptions[subscription] = None
        self._ack_waits[subscription.request.ack_wait_ns] += 1
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.join(subscription.request.user)
        self._on(Event.SUBSCRIBED)
        if subscription.needs_look:
            self.want_look()
        if subscription.bounded:
            self._bounded.join(subscription)

    def wants(self, subscription: Subscription) -> None:
        """It waits for a batch."""
        self._waiting.pop(subscription, None)
        self._waiting[subscription] = None
        self._wake()

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
            self._forget()

    def _forget(self) -> None:
        self._added.take()
        self._cache.clear()
        self._conflicts.clear()
        self._poller.reset()

    # --- what happened to the queue

    def touched(self) -> bool:
        """A commit added or rescheduled messages; whether that concerns anybody here."""
        self._on(Event.TOUCHED)
        if self.mode is Mode.IDLE:
            return False
        self._poller.want()
        self._conflicts.end_pauses()
        self._pause.perhaps_freed()
        return True

    def expects(self, added: Sequence[int]) -> bool:
        """A commit added messages, probably just these; whether they will be claimed without a look: where all that was
        due before is handed out, and receivers wait that can take them."""
        if not self._takes_added or not self._all_handed_out:
            return False
        return self._room(len(added)) >= len(added) and self._added.add(added)

    @property
    def _all_handed_out(self) -> bool:
        return self.mode is Mode.STEADY and not self._cache

    def settled(self, ids: Sequence[MessageId]) -> int:
        """These ended; returns how many of them waited here or were being claimed."""
        if self._added.discard(ids):
            self._look_for_added()
            self._wake()
        self._conflicts.remove(ids)
        self._place_freed()
        return self._sender.settled(ids) + self._cache.discard(ids)

    def uncertain(self) -> None:
        """Some messages may have ended."""
        self._sender.uncertain()
        self._place_freed()

    def _place_freed(self) -> None:
        """The end of one message may let others go: by max_concurrency at once, by their key after a look."""
        self._pause.freed()
        if self.queue.options.order_key is not None and self.mode is not Mode.IDLE:
            self._on(Event.TOUCHED)
            self.want_look()
            self._conflicts.end_pauses()

    def retune(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed; streams go on."""
        self.queue = queue
        self._takes_added = self.condition is None and queue.takes_added
        self._added.take()
        self._pause.clear()
        self._cache.limit, self._cache.parted = queue.options.cache_size, queue.options.tries_alone
        self._cache.clear()
        self._on(Event.LOST)
        self._poller.want()

    def want_look(self) -> None:
        """Messages are due again that were before, or somebody asks for all that is due."""
        self._pause.freed()
        if isinstance(self._poller, FilteredPoller):
            self._poller.want(whole=True)
        else:
            self._poller.want()

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

    async def try_again(self) -> None:
        """Look once more where the last look failed. Raises BackendError."""
        if isinstance(self._poller, FilteredPoller):
            await self._poller.try_again(self.queue)

    def begin_anew(self) -> None:
        """Forget all that is believed of the table and of who waits, and look."""
        self._waiting = {subscription: None for subscription in self._subscriptions if subscription.waiting}
        self._added.take()
        self._cache.clear()
        self._conflicts.clear()
        self._pause.clear()
        self._on(Event.LOST)
        if self._subscriptions:
            self._poller.want()

    def failed(self) -> None:
        """The database failed the queue's work."""
        self._on(Event.LOST)
        if self._subscriptions:
            self._poller.want()

    # --- a step

    def rests_until(self, now: float) -> float:
        """Until when there is nothing to do in a pass but to wait until its accounts may be looked for again; in the
        past where there is. It has to cost little: one account may have many receiver sets."""
        if self._cache or not isinstance(self._poller, FilteredPoller):
            return 0.0
        return self._poller.share.ready_at(self._poller.under_way, now)

    def begin_pass(self) -> None:
        """All receiver sets that may be looked for now may be so in this pass."""
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.begin_turn(self._poller.under_way)

    def end_pass(self) -> None:
        """See `begin_pass`."""
        if isinstance(self._poller, FilteredPoller):
            self._poller.share.end_turn()

    async def step(self, result: PassResult) -> None:
        """Look if that is due, claim and hand out what can be. Raises BackendError."""
        if not self._subscriptions or self.queue.options.paused:
            return
        if self._added:
            if not (room := self._room()):
                return
            fits = room >= len(self._added) and len(self._ack_waits) == 1
            if fits and self._all_handed_out and not self._look_due(room):
                await self._claim_added(result)
                return
            self._look_for_added()
        if self._pause.active:
            if self._looks_ahead:
                await self._look(result)
        elif self._looks_and_claims:
            await self._look_and_send(result)
        else:
            await self._look(result)
            await self._send(result)

    def _look_for_added(self) -> None:
        self._added.take()
        self.touched()

    async def _claim_added(self, result: PassResult) -> None:
        queue, ids, first = self.queue, self._added.take(), self._sender.first_takers(self._waiting)
        result.claimed = True
        try:
            leased, whole = await self._sender.claim_added(queue, first, ids)
        except BaseException:
            self._on(Event.LOST)
            raise
        self._added.proved(right=whole)
        self._gave(result, self._sender.hand_out(queue, self._waiting, first, leased))
        if self.mode is Mode.IDLE:
            self._forget()  # the last receiver left meanwhile
        elif whole:
            self._poller.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        else:
            self._look_for_added()

    @property
    def _looks_ahead(self) -> bool:
        """Whether to look although nothing may be claimed yet. Under a condition it may take many pages to find the
        first message: a receiver set that looked only while nothing is paused would never have one when it opens."""
        return self.condition is not None and not self._cache

    async def _look(self, result: PassResult) -> None:
        room = self._room()
        if not room or not self._look_due(room):
            return
        if not self._under_way:
            self._asked = self._bounded.asking()
        result.looked = True
        looked = await self._poller.run_once(self.queue, room)
        self._looked(looked, [] if self._under_way else self._asked)

    @property
    def _under_way(self) -> bool:
        """Whether a look has begun that takes several steps."""
        return isinstance(self._poller, FilteredPoller) and self._poller.under_way

    @property
    def _looks_and_claims(self) -> bool:
        """Whether a look is due that a claim for the receivers, all of one ack_wait, follows at once.

        Not where the cache holds messages that come first, nor in a backlog: there a look takes long enough for
        further receivers to come to wait, and one claim after it serves them all. But what is fed to a consumer group
        is leased without a look.
        """
        room, together = self._room(), not self._poller.backlog or self.queue.takes_directly
        if self.condition is not None or self._cache or not together or not room or not self._look_due(room):
            return False
        return len(self._ack_waits) == 1

    async def _look_and_send(self, result: PassResult) -> None:
        queue, asking = self.queue, self._bounded.asking()
        assert isinstance(self._poller, Poller)
        result.looked = True
        first = self._sender.first_takers(self._waiting)
        limit = self._poller.start(sum(capacity for _, capacity in first))
        try:
            found = await self._sender.look_and_claim(queue, first, limit)
        except BaseException:
            self._poller.failed()
            self._on(Event.LOST)
            raise
        result.claimed = result.claimed or bool(found.leased)
        known = self._added.discard({key.id for key in found.look.keys})
        looked = self._poller.finish(found.look, found.gone)
        if known:
            self._poller.note_due(self._clock.monotonic() + CONFIRM_SECONDS)
        self._gave(result, self._sender.hand_out(queue, self._waiting, first, found.leased))
        self._looked(looked, asking)

    def _looked(self, looked: Looked, asking: Iterable[Subscription]) -> None:
        for subscription in asking:
            subscription.needs_look = False
        self._on(Event.LOOKED_ALL if looked.complete else Event.LOOKED_PART)
        if self.mode is Mode.IDLE:
            self._forget()  # the last receiver left meanwhile

    def _room(self, enough: int = CLAIM_MAX) -> int:
        """How many messages the waiting receivers can take together with others, counted up to what is enough."""
        room = 0
        for subscription in self._parting().others(self._waiting):
            room += subscription.capacity()
            if room >= enough:
                break
        return room

    def _parting(self) -> Parting:
        """Who gets a message alone, and who is kept free for one."""
        if not self._cache.alone:
            return NO_PARTING
        return self._company.part(self._cache, tuple(self._waiting), len(self._subscriptions))

    def _can_send(self, room: int) -> bool:
        """Whether anything in the cache can go to anybody now. `room`: see `_room`."""
        return bool(self._cache) and (bool(room and self._cache.together) or bool(self._parting().alone))

    @property
    def waits_for_free(self) -> bool:
        """Whether messages wait for a receiver that holds nothing."""
        return self._cache.alone > 0

    def _look_due(self, room: int) -> bool:
        return self._poller.look_due(self.queue, hungry=self._hungry(room))

    def _hungry(self, room: int) -> bool:
        return self.mode is Mode.PENDING and self._cache.together < room

    async def _send(self, result: PassResult) -> None:
        if not self._can_send(self._room()):
            return
        result.claimed, parting = True, self._parting()
        try:
            sent = await self._sender.run_once(self.queue, parting.others(self._waiting), parting.alone)
        except BaseException:
            self._on(Event.LOST)
            raise
        self._gave(result, sent)

    def _gave(self, result: PassResult, sent: Sent) -> None:
        result.sent += sent.handed_out
        self._orphaned(sent.orphans)
        for subscription in sent.served:
            if not subscription.waiting:
                self._waiting.pop(subscription, None)

    # --- results that end by themselves

    def end_drained(self) -> None:
        """End the bounded results for which nothing is left."""
        for subscription in [one for one in self._bounded.draining() if self._nothing_for(one)]:
            subscription.finish()

    def end_drained_by(self, error: EngineError) -> None:
        """End the bounded results that have to end now, in an outage."""
        self._bounded.end_by(error)

    @property
    def _stopped(self) -> bool:
        """Whether nothing at all may be handed out now."""
        return self.queue.options.paused or self._pause.active

    def _nothing_for(self, subscription: Subscription) -> bool:
        parting = self._parting()
        if self._stopped or subscription.window_full or subscription in parting.kept_free:
            return True
        waits = self._cache.together > 0 or subscription in parting.alone
        if self.condition is not None and subscription.request.wait_mode is WaitMode.WAIT:
            return not waits  # its time is over: a scan may go on for longer
        if subscription.needs_look or waits or self._added or self._may_bring_more:
            return False
        if self.condition is not None:
            return True  # the whole has been examined since it asked; with commits all the time that never ends
        return self._poller.next_look(self.queue) > self._clock.monotonic()

    @property
    def _may_bring_more(self) -> bool:
        """Whether the table may hold due messages that the cache does not, and is looked at for them."""
        return self.mode is Mode.PENDING and not (self.waits_for_free and not self._look_due(1))

    # --- modes and time

    @property
    def messages_may_wait(self) -> bool:
        """Whether there is, or may be, something to hand out."""
        if self._cache or self._added or self.mode is Mode.PENDING:
            return True
        return self._poller.next_look(self.queue) <= self._clock.monotonic()

    def next_time(self, now: float) -> float | None:
        """When there is something to do without being woken; None: nothing."""
        rests_until = self.rests_until(now)
        if rests_until > now:
            return rests_until
        room = self._room()
        if self.queue.options.paused or not (room or self._can_send(room)):
            return None
        ends_at = self._pause.ends_at
        if ends_at is not None and not self._looks_ahead:
            return ends_at
        if self._added or self._can_send(room):
            return 0.0  # the pause ended since the last step
        time = self._poller.next_time(self.queue, hungry=self._hungry(room))
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
            return False  # between two pages it rests, whatever it has found
        waits = self._cache.together > 0 or (self.mode is Mode.PENDING and not self._cache.alone)
        return waits and at == self._poller.next_look(self.queue)

    def describe(self, now: float) -> str:
        """What it believes, for a log."""
        at = self._poller.next_look(self.queue)
        return (
            f"{self.mode.value}: {len(self._subscriptions)} receivers, {len(self._waiting)} of them waiting with room"
            f" for {self._room()}, {self.cached} messages cached, {len(self._conflicts)} not to be had,"
            f" next look {'at once' if at <= now else f'in {at - now:.1f} s'}"
        )

    def _on(self, event: Event) -> None:
        self.mode = TRANSITIONS[self.mode, event]
