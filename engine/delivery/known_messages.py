"""KnownMessages: what is known of the due messages of a table, for one receiver set, and when the table must be polled.

Modes
    idle      no receiver: nothing is cached, the table is not polled
    steady    the cache has everything that was due at the last poll
    pending   the table has, or may have, due messages that the cache does not have
    The table TRANSITIONS has what leads from one to another; a (mode, event) that is not in it is a defect.

Between two receivers that come one after the other, as those of a client that polls, the keys of the last poll are set
aside (`SetAside`): for a second, or until a commit adds something.

Invariant: a due message is in the cache, added (a commit has just reported it), in conflict, in flight, or the mode is
not steady. So nothing due is forgotten: whatever the cache loses leads to pending, and pending to a
poll. No await here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from engine.delivery.births import Births
from engine.delivery.cache import AddedIds, ClaimsAtOnce, MessageCache, SetAside
from engine.delivery.conflicts import Conflicts
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.filter_shares import ReceiverSetShare
from engine.delivery.filtered_poller import FilteredPoller
from engine.delivery.poller import Poller
from engine.delivery.queue_leases import QueueLeases
from engine.model.queue import Condition, MessageId, MessageKey, QueueSpec
from engine.store.base import NOTHING_AHEAD


class Mode(Enum):
    """See the module."""

    IDLE = "idle"
    STEADY = "steady"
    PENDING = "pending"

    __hash__ = object.__hash__  # as engine.model.pins


class Event(Enum):
    """Leads a receiver set from one mode to another."""

    SUBSCRIBED = "a receiver came"
    LAST_LEFT = "the last receiver left"
    TOUCHED = "a commit touched the queue"
    POLLED_ALL = "a poll returned everything due"
    POLLED_PART = "a poll returned less than is due"
    LOST = "a claim failed or the cache was cut"

    __hash__ = object.__hash__  # as engine.model.pins


TRANSITIONS: Mapping[tuple[Mode, Event], Mode] = {
    (Mode.IDLE, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.IDLE, Event.TOUCHED): Mode.IDLE,
    (Mode.IDLE, Event.POLLED_ALL): Mode.IDLE,
    (Mode.IDLE, Event.POLLED_PART): Mode.IDLE,
    (Mode.IDLE, Event.LOST): Mode.IDLE,
    (Mode.STEADY, Event.SUBSCRIBED): Mode.STEADY,
    (Mode.STEADY, Event.TOUCHED): Mode.PENDING,
    (Mode.STEADY, Event.POLLED_ALL): Mode.STEADY,
    (Mode.STEADY, Event.POLLED_PART): Mode.PENDING,
    (Mode.STEADY, Event.LOST): Mode.PENDING,
    (Mode.STEADY, Event.LAST_LEFT): Mode.IDLE,
    (Mode.PENDING, Event.SUBSCRIBED): Mode.PENDING,
    (Mode.PENDING, Event.TOUCHED): Mode.PENDING,
    (Mode.PENDING, Event.POLLED_ALL): Mode.STEADY,
    (Mode.PENDING, Event.POLLED_PART): Mode.PENDING,
    (Mode.PENDING, Event.LOST): Mode.PENDING,
    (Mode.PENDING, Event.LAST_LEFT): Mode.IDLE,
}


class KnownMessages:
    """See the module. `scanner`: the poller, where the receiver set has a condition."""

    def __init__(
        self,
        queue: QueueSpec,
        context: QueueContext,
        leases: QueueLeases,
        host: DeliveryHost,
        condition: Condition | None,
    ) -> None:
        self.queue, self.mode = queue, Mode.IDLE
        self.added = AddedIds()
        self.cache = MessageCache(queue.options.cache_size)
        self.cache.separate_alone = queue.options.tries_alone
        self.conflicts = Conflicts(leases.refusals.until)
        self.pause = leases.pause
        self._host, self._clock = host, context.engine.clock
        self.births = Births(self._clock)
        self._takes_added = queue.takes_added and _may_be_placed(condition)
        self.births.reconfigure(queue, condition)
        self._set_aside = SetAside()
        self.at_once = ClaimsAtOnce()
        """Of `resumed`."""
        self.at_once.possible = queue.takes_added and condition is None
        self.resumed: Sequence[MessageKey] = ()
        """Keys of the cache, or of those that were set aside, that are to be claimed without a look."""
        self.scanner: FilteredPoller | None = None
        self.poller: Poller | FilteredPoller
        if condition is None:
            self.poller = Poller(context, self.cache, self.conflicts)
        else:
            share = ReceiverSetShare(context.shares, self._clock)
            self.poller = self.scanner = FilteredPoller(condition, context, self.cache, self.conflicts, share)

    def on(self, event: Event) -> None:
        """Something happened that decides the mode."""
        self.mode = TRANSITIONS[self.mode, event]

    def clear(self, *, keep: bool = False) -> None:
        """The last receiver left. `keep`: another one may come in a moment."""
        self.cache.put_back(self.resumed)
        self.resumed = ()
        some = self.cache.together and not self.cache.alone and not self.added
        if keep and some and isinstance(self.poller, Poller) and not self.queue.options.waits_for_settlement:
            polled_at = self.poller.polled_a_moment_ago
            if polled_at is not None:
                self._set_aside.put(self.cache.keys, polled_at, self.poller.due_at)
        self.added.take()
        self.cache.clear()
        self.conflicts.clear()
        self.poller.reset()

    def resume(self, count: int) -> bool:
        """The first receiver came, and takes `count` messages: whether so many are known from a moment ago, so that the
        table need not be polled. What is wrong with them by now is found by the claim, and a poll follows."""
        taken = self._set_aside.take(count, self._clock.monotonic())
        if taken is None or not isinstance(self.poller, Poller):
            return False
        keys, polled_at, due_at = taken
        self.resumed = keys[:count] if self._takes_added and self.at_once.worth_a_claim() else ()
        self.poller.resume(keys[len(self.resumed) :], polled_at, due_at)
        return True

    def lose(self, *, poll: bool) -> None:
        """The cache may lack what is due; `poll`: and receivers want it."""
        self.on(Event.LOST)
        if poll and self.scanner is not None:
            self.scanner.request_poll(full=True)  # a scan of what is fresh would not find what fell due long ago
        elif poll:
            self.poller.request_poll()

    def reset(self, *, poll: bool) -> None:
        """Forget all that is known of the table; as in `lose`."""
        self._set_aside.forget()
        self.resumed = ()
        self.added.take()
        self.cache.clear()
        self.conflicts.clear()
        self.pause.clear()
        self.lose(poll=poll)

    def reconfigure(self, queue: QueueSpec, condition: Condition | None) -> None:
        """The queue's options or columns changed."""
        self._set_aside.forget()
        self.resumed = ()
        self.queue = queue
        self._takes_added = queue.takes_added and _may_be_placed(condition)
        self.births.reconfigure(queue, condition)
        self.at_once.possible = queue.takes_added and condition is None
        self.added.take()
        self.conflicts.clear()
        self.pause.clear()
        self.cache.limit, self.cache.separate_alone = queue.options.cache_size, queue.options.tries_alone
        self.cache.clear()
        self.lose(poll=True)

    # --- what happened to the queue

    def touched(self) -> bool:
        """A commit added or rescheduled messages; whether that concerns a receiver here."""
        if self.mode is Mode.IDLE:  # and stays so
            self._set_aside.forget()
            return False
        self.on(Event.TOUCHED)
        self.poller.request_poll()
        self.conflicts.end_pauses(self._clock.monotonic())
        self.pause.maybe_slot_freed()
        return True

    @property
    def takes_added(self) -> bool:
        """Whether what a commit adds may be claimed without a poll: all messages that were due before are handed
        out."""
        return self._takes_added and self.all_handed_out

    @property
    def all_handed_out(self) -> bool:
        return self.mode is Mode.STEADY and not self.cache

    def poll_for_added(self) -> None:
        """What commits have added is not to be claimed without a poll."""
        self.added.take()
        self.touched()

    def settled(self, ids: Sequence[MessageId]) -> int:
        """These ended; returns how many of them waited here."""
        if self.added.discard(ids):
            self.poll_for_added()
            self._host.wake()
        self.conflicts.remove(ids)
        self._set_aside.discard(ids)
        self.on_slot_freed()
        return self.cache.discard(ids)

    def on_slot_freed(self) -> None:
        """The end of one message may let others be claimed: with max_concurrency at once, with order_key after a
        poll."""
        self.pause.on_slot_freed()
        if self.queue.options.order_key is not None and self.mode is not Mode.IDLE:
            self.on(Event.TOUCHED)
            self.request_poll()
            self.conflicts.end_pauses(self._clock.monotonic())

    def request_poll(self) -> None:
        """Messages became due again, or all that is due is requested."""
        self._set_aside.forget()
        self.pause.on_slot_freed()
        if self.scanner is not None:
            self.scanner.request_poll(full=True)
        else:
            self.poller.request_poll()

    def note_due(self, monotonic: float) -> None:
        """A message falls due then."""
        self.poller.note_due(monotonic)

    def leased(self, ids: Collection[MessageId], *, retry_refused: bool) -> None:
        """These were leased for another receiver set; `retry_refused` as in DeliveryHost."""
        self.cache.discard(ids)
        if retry_refused:
            self.conflicts.retry_refused()
        if isinstance(self.poller, Poller):
            self.poller.ahead = NOTHING_AHEAD

    # --- whether to poll

    @property
    def scanning(self) -> bool:
        """Whether a poll has begun that takes several steps."""
        return self.scanner is not None and self.scanner.in_progress

    @property
    def polls_ahead(self) -> bool:
        """Whether to poll although nothing may be claimed yet. With a condition it may take many pages to find the
        first message: a receiver set that polled only while nothing is paused would never have one when the pause
        ends."""
        return self.scanner is not None and not self.cache

    def poll_due(self, room: int) -> bool:
        """Whether to poll now, with room for so many messages."""
        return self.poller.poll_due(self.queue, needs_more=self._needs_more(room))

    def next_time(self, room: int) -> float:
        """When to poll, with room for so many messages."""
        return self.poller.next_time(self.queue, needs_more=self._needs_more(room))

    def next_poll(self) -> float:
        """When the next poll is due without a request; a time in the past means at once."""
        return self.poller.next_poll(self.queue)

    def _needs_more(self, room: int) -> bool:
        return self.mode is Mode.PENDING and self.cache.together < room

    @property
    def more_may_be_due(self) -> bool:
        """Whether the table may have due messages that the cache does not have, and is polled for them."""
        return self.mode is Mode.PENDING and not (self.cache.alone > 0 and not self.poll_due(1))

    @property
    def may_wait(self) -> bool:
        """Whether there is, or may be, something to hand out."""
        if self.cache or self.added or self.births or self.mode is Mode.PENDING:
            return True
        return self.next_poll() <= self._clock.monotonic()

    def rests_until(self, now: float) -> float:
        """Until when a pass can only wait: too much is locked, or its accounts may not be polled for yet. A time in the
        past means that there is something to do. It has to cost little: one account may have many receiver sets."""
        if self.conflicts.rests_until > now:
            return self.conflicts.rests_until
        if self.cache or self.added or self.scanner is None:
            return 0.0
        return self.scanner.share.ready_at(self.scanner.in_progress, now)


def _may_be_placed(condition: Condition | None) -> bool:
    """Whether it can be known without the condition which messages of a commit are for its receivers."""
    return condition is None or condition.only_range is not None
