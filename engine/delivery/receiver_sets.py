"""ReceiverSets: all receivers of one queue, the sets that they form by their conditions, and which of these have
something to do.

Invariant: every open subscription is in exactly one set, that of its condition; a set with a condition exists as long
as it has receivers. Sticky receivers (engine.delivery.sticky_receivers) are moved to another set, between two passes,
when their part of the ring changes; and the set of late messages (engine.delivery.late_messages) has them as well.

While the accounts of all those with a condition are in debt (engine.delivery.filter_shares), passes and commits skip
them. One account may have many, and they would make each commit of all others more expensive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from engine.delivery.births import Birth
from engine.delivery.cache import CONFIRM_SECONDS
from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receivers import ReceiverSet
from engine.delivery.sticky_receivers import RECENT_SECONDS
from engine.delivery.sticky_sets import StickySets
from engine.delivery.subscription import Subscription
from engine.model.commit_report import ADDED_MAX
from engine.model.errors import BackendError, is_transient
from engine.model.filter_limits import FilterLimits
from engine.model.key_range import Keys
from engine.model.queue import Condition, MessageId, QueueSpec

NO_SUCH_INDEX = 1176
"""The error where a scan names an index of the catalog that does not exist any more."""

CONNECTIONS_MAX = 10_000
"""Connections that are stored, those whose results ended last: 1 MB."""

_REST_CACHED_SECONDS = 0.1  # that all rest: other accounts may disconnect meanwhile, and then none has to rest


class RecentReceivers:
    """How many clients receive from a queue, also between two results; by the ids of their connections. Pure.

    A worker that polls has no open stream while it handles its messages. It still counts as a receiver: it has a lease,
    or has polled a moment ago.
    """

    def __init__(self) -> None:
        self._ended: dict[int, float] = {}  # in the order of the times

    def ended(self, connection_id: int, now: float) -> None:
        """A result of that connection has ended, and the connection goes on."""
        self._ended.pop(connection_id, None)
        self._ended[connection_id] = now
        if len(self._ended) > CONNECTIONS_MAX:
            del self._ended[next(iter(self._ended))]

    def gone(self, connection_id: int) -> None:
        """The connection has ended."""
        self._ended.pop(connection_id, None)

    def count(self, active: Iterable[int], now: float) -> int:
        """How many receive now. `active`: connections that have a stream open, or a message."""
        for connection_id, ended in list(self._ended.items()):
            if ended > now - RECENT_SECONDS:
                break
            del self._ended[connection_id]
        return len(self._ended.keys() | set(active))


class ReceiverSets:
    """See the module. `plain`: that of the streams without a condition. `filtered`: the others. `subscriptions`: those
    that are open, each with its set."""

    def __init__(
        self, queue: QueueSpec, context: QueueContext, leases: QueueLeases, host: DeliveryHost, limits: FilterLimits
    ) -> None:
        self._make = partial(ReceiverSet, context=context, leases=leases, host=host)
        self.plain = self._make(queue)
        self.filtered: dict[Condition, ReceiverSet] = {}
        self.subscriptions: dict[Subscription, ReceiverSet] = {}
        self.recent = RecentReceivers()
        self.limits = limits
        self.sticky = StickySets(self, context, leases, host)
        self._clock, self._pause = context.engine.clock, leases.pause
        self._deliveries = 0  # how often any of them got messages
        self._rest_known_until = self._rest_ends_at = 0.0
        self._touched_in_rest = False
        self._unplaced: list[int] = []

    def __iter__(self) -> Iterator[ReceiverSet]:
        late = self.sticky.late
        return iter((self.plain, *self.filtered.values(), *(() if late is None else (late,))))

    @property
    def queue(self) -> QueueSpec:
        """The queue, as it is now."""
        return self.plain.messages.queue

    @property
    def cached(self) -> int:
        """Keys that wait in any of them."""
        return sum(len(receiver_set.messages.cache) for receiver_set in self)

    @property
    def may_work(self) -> bool:
        """Whether a pass may do anything now, besides what is due by its time."""
        return bool(self.filtered) or self.plain.may_work

    @property
    def may_wait(self) -> bool:
        """Whether there is, or may be, something to hand out."""
        return any(receiver_set.messages.may_wait for receiver_set in self if receiver_set is not self.sticky.late)

    @property
    def waits_for_idle_receiver(self) -> bool:
        """Whether messages wait for a receiver that holds nothing."""
        if not self.filtered:  # as at most acks
            return bool(self.plain.messages.cache.alone)
        return any(receiver_set.messages.cache.alone for receiver_set in self)

    def turns(self, now: float) -> Sequence[ReceiverSet]:
        """Those that do not rest; first the one whose last delivery is the oldest. Where the queue's limits let few
        messages go, the first takes them all, so it must not be the same one each time."""
        if not self.filtered or self._all_rest(now):
            return (self.plain,)
        turns = [receiver_set for receiver_set in self if receiver_set.messages.rests_until(now) <= now]
        if turns == [self.plain]:
            self._rest_ends_at = min(receiver_set.messages.rests_until(now) for receiver_set in self.filtered.values())
            self._rest_known_until = min(self._rest_ends_at, now + _REST_CACHED_SECONDS)
            self._touched_in_rest = False
        late = self.sticky.late  # what has an owner goes to it first
        return sorted(turns, key=lambda receiver_set: (receiver_set is late, receiver_set.last_delivery))

    @contextlib.contextmanager
    def in_turn(self, now: float) -> Iterator[Sequence[ReceiverSet]]:
        """`turns`, for one pass over them."""
        turns = self.turns(now)
        scanners = [scanner for receiver_set in turns if (scanner := receiver_set.messages.scanner) is not None]
        for scanner in scanners:
            scanner.share.begin_turn(scanner.in_progress)
        try:
            yield turns
        finally:
            for scanner in scanners:
                scanner.share.end_turn()

    # --- receivers

    def set_for(self, subscription: Subscription) -> ReceiverSet:
        """The set of a new receiver. Raises InvalidOption where there are too many conditions."""
        condition = subscription.request.condition
        if subscription.request.keys is not Keys.SHARED:
            return self.sticky.set_for(subscription)
        if condition is None:
            return self.plain
        if condition not in self.filtered:
            _check_limits(self, condition, subscription.request.receiver.user)
        return self.set_of(condition)

    def set_of(self, condition: Condition) -> ReceiverSet:
        """The set of that condition, a new one where there is none."""
        receiver_set = self.filtered.get(condition)
        if receiver_set is None:
            receiver_set = self._make(self.queue, condition=condition)
            receiver_set.last_delivery = self._deliveries  # after those that wait already
        return receiver_set

    def join(self, subscription: Subscription, receiver_set: ReceiverSet, until: float | None = None) -> None:
        """A new receiver, perhaps of another account: whether all rest is to be checked again. `until` as in
        ReceiverSet."""
        if receiver_set.condition is not None:
            self.filtered[receiver_set.condition] = receiver_set
        self._rest_known_until = 0.0
        self.subscriptions[subscription] = receiver_set
        receiver_set.join(subscription, until)
        self.sticky.joined(subscription)

    def leave(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        self.take_out(subscription)
        self.sticky.left(subscription)

    def take_out(self, subscription: Subscription) -> None:
        """It is in no set any more."""
        receiver_set = self.subscriptions.pop(subscription)
        receiver_set.leave(subscription)
        if receiver_set.condition is not None and not receiver_set.receivers:
            del self.filtered[receiver_set.condition]

    def reconfigure(self, queue: QueueSpec) -> None:
        """The queue's options or columns changed."""
        for receiver_set in self:
            receiver_set.messages.reconfigure(queue, receiver_set.condition)
        self.sticky.serve_late()

    def count(self, holders: Iterable[Subscription]) -> int:
        """How many receivers there are; `holders`: those of leases."""
        active = [*self.subscriptions, *holders]
        return self.recent.count([one.request.receiver.connection_id for one in active], self._clock.monotonic())

    def delivered(self, receiver_set: ReceiverSet) -> None:
        """It has just got messages."""
        self._deliveries += 1
        receiver_set.last_delivery = self._deliveries

    # --- what happened to the queue

    def touched(self, added: Sequence[int] = ()) -> bool:
        """A commit added or rescheduled messages, perhaps only these `added`; whether that concerns a receiver here."""
        if not self.filtered:
            self._touched_in_rest = False
            return (bool(added) and self.plain.expects(added)) or self.plain.touched()
        if added and self._places_added and len(self._unplaced) + len(added) <= ADDED_MAX:
            self._unplaced += added
            return True
        if self._touched_in_rest and self._all_rest(self._clock.monotonic()):
            self.plain.touched()
            self._pause.maybe_slot_freed()
            return True  # those that rest have requested a poll already
        self._touched_in_rest = True
        return self._touch_all()

    @property
    def _places_added(self) -> bool:
        """Whether what a commit adds is for the receiver sets of certain key ranges: all that have receivers have
        one."""
        ranged, queue = all(one.key_range is not None for one in self.filtered.values()), self.queue
        return ranged and not self.plain.receivers and queue.takes_added and queue.has_ring

    def take_unplaced(self) -> Sequence[int]:
        """Remove and return the messages that commits have added, and of which it is not known whose they are."""
        unplaced, self._unplaced = self._unplaced, []
        return unplaced

    def place(self, ids: Sequence[int], slots: Mapping[MessageId, int]) -> None:
        """Where these messages are on the ring: of those that are not seen yet, it is not known."""
        if len(slots) < len(ids):
            self._touch_all()
            return
        confirm_at = self._clock.monotonic() + CONFIRM_SECONDS
        if self.sticky.late is not None:
            self.sticky.late.touched()
        for receiver_set in self.filtered.values():
            receiver_set.messages.note_due(confirm_at)  # the hint may lack some of its range
            key_range = receiver_set.key_range
            own = [id_ for id_ in ids if key_range is not None and key_range.covers(slots[id_])]
            if own:
                self._rest_known_until = 0.0  # it has something to do, whatever its account may
                if not receiver_set.expects(own):
                    receiver_set.touched()

    def _touch_all(self) -> bool:
        concerned = [receiver_set.touched() for receiver_set in self]  # all of them, not only up to the first
        return any(concerned)

    def offer_birth(self) -> Birth | None:
        """Leave to insert one message as leased, for a receiver that waits; None where it is to be inserted as any
        other. What became of it is reported to its set."""
        return None if self.filtered else self.plain.births.offer()

    def next_time(self, now: float) -> float | None:
        """When one of them has something to do without being woken; None: nothing."""
        times: list[float | None]
        if self.filtered and self._all_rest(now):
            times = [self._rest_ends_at, self.plain.next_time(now)]
        else:
            times = [receiver_set.next_time(now) for receiver_set in self]
        times.append(self.sticky.receivers.next_expiry())
        return min((time for time in times if time is not None), default=None)

    def _all_rest(self, now: float) -> bool:
        """Whether it is known that none with a condition may be polled for yet."""
        return now < self._rest_known_until


def _check_limits(sets: ReceiverSets, condition: Condition, user: str) -> None:
    """Whether one more condition is allowed. Raises InvalidOption."""
    key_range, plain = condition.only_range, sets.plain
    of_user = {of for one, of in sets.subscriptions.items() if one.request.receiver.user == user and of is not plain}
    both = sets.filtered.values(), of_user
    counts = [sum((one.key_range is None) == (key_range is None) for one in some) for some in both]
    check = sets.limits.check if key_range is None else sets.limits.check_ranges
    check(sets.queue.name, counts[0], user, counts[1])


async def is_condition_error(error: BackendError, receiver_set: ReceiverSet, context: QueueContext) -> bool:
    """Whether the error of a receiver set's step is one of its condition: it occurs again, and a poll of the same queue
    without the condition succeeds. Raises BackendError where that fails, too.

    A server that refuses writes refuses only those polls that feed a consumer group.
    """
    known = receiver_set.messages
    if known.scanner is None or is_transient(error) or error.errno == NO_SUCH_INDEX:
        return False
    await context.work.run(context.engine.store.poll(known.queue, 1))
    try:
        await known.scanner.retry(known.queue)
    except BackendError as again:
        return again.errno == error.errno
    return False
