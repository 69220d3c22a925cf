"""WaitingReceivers: the receivers of a receiver set, which of them wait, and how many messages they can take.

Invariant: those that wait have joined, and are in the order in which they began to wait. That is the order of their
turns. No await here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from engine.clock import Clock
from engine.delivery.cache import MessageCache
from engine.delivery.context import DeliveryHost
from engine.delivery.isolated_delivery import NO_SPLIT, ReceiverSplit
from engine.delivery.queue_leases import QueueLeases
from engine.delivery.subscription import BoundedResults, Subscription
from engine.model.claim_size import CLAIM_MAX
from engine.model.errors import EngineError


class WaitingReceivers:
    """See the module. `cache`: the messages that wait for them. `bounded`: those whose results have an end."""

    def __init__(self, clock: Clock, leases: QueueLeases, host: DeliveryHost, cache: MessageCache) -> None:
        self._isolated_delivery, self._cache = leases.isolated_delivery, cache
        self._all: dict[Subscription, None] = {}
        self.waiting: dict[Subscription, None] = {}
        self._ack_waits: Counter[int | None] = Counter()
        self._without_limit = 0
        self.bounded = BoundedResults(clock, host.wake)

    def __len__(self) -> int:
        return len(self._all)

    def join(self, subscription: Subscription) -> None:
        """A new one; it takes part from the moment it waits."""
        self._all[subscription] = None
        self._ack_waits[subscription.request.ack_wait_ns] += 1
        self._without_limit += subscription.request.limit is None

    def on_waiting(self, subscription: Subscription) -> None:
        """It waits for a batch."""
        self.waiting.pop(subscription, None)
        self.waiting[subscription] = None

    def leave(self, subscription: Subscription) -> None:
        """It takes no more messages."""
        del self._all[subscription]
        ack_wait_ns = subscription.request.ack_wait_ns
        self._ack_waits[ack_wait_ns] -= 1
        if not self._ack_waits[ack_wait_ns]:
            del self._ack_waits[ack_wait_ns]
        self._without_limit -= subscription.request.limit is None
        self.waiting.pop(subscription, None)
        self.bounded.leave(subscription)

    def handed_out(self, receivers: Iterable[Subscription]) -> None:
        """These were to get messages: those that did, do not wait any more."""
        for subscription in receivers:
            if not subscription.waiting:
                self.waiting.pop(subscription, None)

    def reset(self) -> None:
        """Look which of them wait."""
        self.waiting = {subscription: None for subscription in self._all if subscription.waiting}

    def end(self, error: EngineError) -> None:
        """All their streams end."""
        for subscription in list(self._all):
            subscription.end(error)

    @property
    def one_ack_wait(self) -> bool:
        """Whether one claim can be for all of them."""
        return len(self._ack_waits) == 1

    @property
    def all_end(self) -> bool:
        """Whether each of them ends after a number of messages."""
        return not self._without_limit

    @property
    def overlooked(self) -> bool:
        """Whether one waits that is not in turn: a defect, if it lasts."""
        return any(s.waiting and s.capacity() and s not in self.waiting for s in self._all)

    def room(self, enough: int = CLAIM_MAX) -> int:
        """How many messages those can take that wait and get several at once, counted up to `enough`."""
        room, waiting = 0, self.split().others(self.waiting) if self._cache.alone else self.waiting
        for subscription in waiting:
            room += subscription.capacity()
            if room >= enough:
                break
        return room

    def room_for_polled(self, room: int) -> int:
        """For how many messages to poll; `room`: see `room`. Also where those that wait are reserved for messages that
        go out alone: of others that a commit has added they get their part."""
        if room or not self._cache.alone:
            return room
        return int(any(subscription.capacity() for subscription in self.waiting))

    def split(self) -> ReceiverSplit:
        """Which of them get a message alone, and which are reserved for one."""
        if not self._cache.alone:
            return NO_SPLIT
        return self._isolated_delivery.split(self._cache, tuple(self.waiting), len(self._all))

    def can_send(self, room: int) -> bool:
        """Whether a message of the cache can go to one of them now. `room`: see `room`."""
        return bool(self._cache) and (bool(room and self._cache.together) or bool(self.split().alone))
