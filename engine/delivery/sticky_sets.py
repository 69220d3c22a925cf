"""StickySets: gives each receiver with keys of its own the receiver set of its part of the ring, and the sticky ones of
them the set of late messages besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from engine.delivery.context import DeliveryHost, QueueContext
from engine.delivery.late_messages import LateMessages
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.receivers import ReceiverSet
from engine.delivery.sticky_receivers import StickyReceivers
from engine.delivery.subscription import Subscription
from engine.model.filter_limits import FilterLimits
from engine.model.key_range import Keys
from engine.model.queue import Condition, QueueSpec


class SetsOfQueue(Protocol):
    """All receiver sets of the queue, as they are changed here."""

    subscriptions: dict[Subscription, ReceiverSet]
    limits: FilterLimits

    @property
    def queue(self) -> QueueSpec:
        """The queue, as it is now."""
        ...

    def set_of(self, condition: Condition) -> ReceiverSet:
        """The set of that condition, a new one where there is none."""
        ...

    def join(self, subscription: Subscription, receiver_set: ReceiverSet, until: float | None = None) -> None:
        """See ReceiverSets."""
        ...

    def take_out(self, subscription: Subscription) -> None:
        """It is in no set any more."""
        ...


class StickySets:
    """See the module. `late`: the set of late messages, while there are receivers for it."""

    def __init__(self, sets: SetsOfQueue, context: QueueContext, leases: QueueLeases, host: DeliveryHost) -> None:
        self._sets, self._context, self._leases, self._host = sets, context, leases, host
        self.receivers = StickyReceivers(sets.queue.name, context.engine.members, context.engine.clock)
        self.late: LateMessages | None = None

    def set_for(self, subscription: Subscription) -> ReceiverSet:
        """The set of a new receiver. Raises InvalidOption where there are too many."""
        receivers, user = self.receivers, subscription.request.receiver.user
        if not receivers.has(subscription):
            self._sets.limits.check_ranges(self._sets.queue.name, len(receivers), user, receivers.count(user))
        receivers.join(subscription)
        return self._sets.set_of(receivers.condition(subscription))

    def joined(self, subscription: Subscription) -> None:
        """It is in the set of its condition now."""
        if subscription.request.keys is Keys.STICKY:
            self.serve_late()

    def left(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        if subscription.request.keys is not Keys.SHARED:
            self.receivers.ended(subscription)
            self.serve_late()

    def rearrange(self) -> None:
        """Move those whose part of the ring is another one now. To be called between two steps."""
        if not self.receivers:
            return
        self.receivers.expire(self._leases.in_flight.holders())
        if not self.receivers.take_change():
            return
        subscriptions: Mapping[Subscription, ReceiverSet] = dict(self._sets.subscriptions)
        for subscription, receiver_set in subscriptions.items():
            if subscription.request.keys is Keys.SHARED or subscription.draining:
                continue  # one that drains ends in a moment
            condition = self.receivers.condition(subscription)
            if condition != receiver_set.condition:
                self._move(subscription, receiver_set, condition)
        self.serve_late()

    def _move(self, subscription: Subscription, old: ReceiverSet, condition: Condition) -> None:
        until = old.receivers.bounded.until(subscription)
        self._sets.take_out(subscription)
        new = self._sets.set_of(condition)
        self._sets.join(subscription, new, until)
        if subscription.waiting:
            new.on_waiting(subscription)

    def serve_late(self) -> None:
        """The sticky receivers, and no others, may get late messages, as the queue's options are now."""
        queue, late = self._sets.queue, self.late
        sticky = [one for one in self._sets.subscriptions if one.request.keys is Keys.STICKY]
        condition = self.receivers.late(queue.options.sticky_wait_ns) if sticky else None
        if late is not None and late.condition != condition:
            late.serve(())
            late = None
        if late is None and condition is not None:
            homes = self._sets.subscriptions
            late = LateMessages(queue, self._context, self._leases, self._host, condition, homes)
        self.late = late
        if late is not None:
            late.serve(sticky)
