"""IsolatedDelivery: which receivers have several messages at once, and which get a message alone. No I/O.

For queues whose attempts are bounded (`QueueOptions.tries_alone`). There a delivery that ends because its receiver is
gone counts as an attempt only if the receiver had no other message; else it is not known which of its messages made the
receiver fail. Such messages are handed out alone from then on, each to a receiver that has no other message, and that
gets no more until this one has ended. Rules:
- A receiver is a connection. Of connections that report the same process only one gets such a message at a time: what
  ends one of them often ends the others.
- While messages wait that are to be handed out alone, and come first in order, receivers are reserved for them: as
  many as messages wait, but half of the receivers at most where others wait as well, one at least. These are the ones
  that have the fewest messages, so that they are free soonest. So neither kind waits for ever: the wait for a free
  receiver is as long as its messages take.

What receivers have of open results is known from the leases in flight. What they have of results that have ended, where
the lease is bounded by time alone, is stored here until it is settled or the lease ends.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.delivery.cache import MessageCache
from engine.delivery.in_flight import InFlight
from engine.delivery.subscription import Subscription
from engine.model.queue import MessageId

CLOSED_RESULT_LEASES_MAX = 10_000
"""Messages of ended results that are stored, 2 MB; those beyond it are taken to be leased by no receiver."""

TOGETHER_SECONDS = 2.0
"""Connections of one process that end within this time have ended together."""

_ENDED_PROCESSES_MAX = 1000  # processes of which connections have ended lately
_ISOLATED_MAX = 1000  # receivers that got a message alone; beyond it those that have settled theirs are removed


class ClosedResultLeases:
    """Leases of results that have ended, by receiver, each until a time on the monotonic clock."""

    def __init__(self, limit: int = CLOSED_RESULT_LEASES_MAX) -> None:
        self._limit = limit
        self._by_receiver: dict[Hashable, dict[MessageId, float]] = {}
        self._receivers: dict[MessageId, Hashable] = {}

    def is_leased(self, id_: MessageId, now: float) -> bool:
        """Whether a receiver still has that message."""
        receiver = self._receivers.get(id_)
        if receiver is not None and self._by_receiver[receiver][id_] <= now:
            self.forget((id_,))
            return False
        return receiver is not None

    def add(self, receiver: Hashable, ends: Mapping[MessageId, float]) -> None:
        """A result has ended; `ends`: until when its messages are leased."""
        self.forget(ends)
        for id_, end in ends.items():
            if len(self._receivers) >= self._limit:
                return
            self._receivers[id_] = receiver
            self._by_receiver.setdefault(receiver, {})[id_] = end

    def forget(self, ids: Iterable[MessageId]) -> None:
        """These have ended."""
        for id_ in ids if self._receivers else ():
            receiver = self._receivers.pop(id_, None)
            if receiver is not None:
                ends = self._by_receiver[receiver]
                del ends[id_]
                if not ends:
                    del self._by_receiver[receiver]

    def clear(self) -> None:
        """Anything may have ended."""
        self._by_receiver.clear()
        self._receivers.clear()

    def next_end(self, now: float) -> float | None:
        """When the next of these leases ends that has not ended yet."""
        ends = [end for leases in self._by_receiver.values() for end in leases.values() if end > now]
        return min(ends, default=None)

    @property
    def receivers(self) -> int:
        """How many receivers have any."""
        return len(self._by_receiver)

    def count(self, receiver: Hashable, now: float) -> int:
        """How many a receiver still has."""
        ends = self._by_receiver.get(receiver)
        if ends is None:
            return 0
        self.forget([id_ for id_, end in ends.items() if end <= now])
        return len(ends)


class ConnectionLeases:
    """Results that have ended, whose messages stay leased to their connection (`lease = 'connection'`). Of one queue.

    Such a result stays the holder of its leases until they are settled or run out, or the connection ends, which
    releases them. The messages that a connection has of a queue count towards the window of its next result.
    """

    def __init__(self, in_flight: InFlight[Subscription]) -> None:
        self._in_flight = in_flight
        self._ended: dict[int, list[Subscription]] = {}

    def retain(self, subscription: Subscription, *, release: bool) -> bool:
        """A result has ended: whether its messages stay leased to its connection. With `release` they do not."""
        if not subscription.request.by_connection:
            return False
        connection_id = subscription.request.receiver.connection_id
        earlier = self._ended.pop(connection_id, [])
        retained = [one for one in earlier if one is not subscription and self._in_flight.count(one)]
        if not release and self._in_flight.count(subscription):
            retained.append(subscription)
        if retained:
            self._ended[connection_id] = retained
        return not release

    def __bool__(self) -> bool:
        """Whether any connection has messages of ended results."""
        return bool(self._ended)

    def window_full(self, ids: Iterable[MessageId]) -> bool:
        """Whether a holder of any of these messages can get no more until one of them ends; or perhaps so, for messages
        of ended results count for the next result of their connection."""
        return bool(self._ended) or any(holder.window_full for holder in self._in_flight.holders_of(ids))

    def unacked_before(self, subscription: Subscription) -> int:
        """How many messages its connection has of earlier results; 0 for a subscription that has ended."""
        if subscription.has_ended:
            return 0
        earlier = self._ended.get(subscription.request.receiver.connection_id, ())
        return sum([self._in_flight.count(one) for one in earlier])


@dataclass(frozen=True, slots=True)
class ReceiverSplit:
    """Which receivers get what. `alone`: these get one message each, and no other. `reserved`: these get nothing."""

    alone: tuple[Subscription, ...] = ()
    reserved: frozenset[Subscription] = frozenset()

    def others(self, waiting: Iterable[Subscription]) -> Iterable[Subscription]:
        """Those that can get several messages at once."""
        if not self.alone and not self.reserved:
            return waiting
        return [one for one in waiting if one not in self.reserved and one not in self.alone]


NO_SPLIT = ReceiverSplit()


class IsolatedDelivery:
    """See the module. Of one queue."""

    def __init__(self, in_flight: InFlight[Subscription], clock: Clock) -> None:
        self._in_flight, self._clock = in_flight, clock
        self._closed_results = ClosedResultLeases()
        self._isolated: dict[Hashable, MessageId] = {}  # by receiver and by process: the message that it got alone
        self._ended_processes: dict[Hashable, float] = {}  # when a connection of the process ended that had messages

    # --- the messages of each receiver

    def is_idle(self, subscription: Subscription) -> bool:
        """Whether its receiver has no messages."""
        receiver, now = subscription.receiver, self._clock.monotonic()
        return not self._in_flight.count_of(receiver) and not self._closed_results.count(receiver, now)

    def next_end(self) -> float | None:
        """When a lease of a result that has ended runs out, so that its receiver may be idle."""
        return self._closed_results.next_end(self._clock.monotonic())

    def has_isolated_message(self, subscription: Subscription) -> bool:
        """Whether its receiver has a message that it got alone."""
        return bool(self._isolated) and self._has_isolated(subscription.receiver)

    def handed_out_alone(self, subscription: Subscription, id_: MessageId) -> None:
        """It got this message, and no other."""
        if len(self._isolated) >= _ISOLATED_MAX:
            entries = self._isolated.items()
            self._isolated = {holder: message for holder, message in entries if self._is_leased(message)}
        self._isolated[subscription.receiver] = self._isolated[subscription.process] = id_

    def any_alone(self, ids: Iterable[MessageId]) -> bool:
        """Whether one of these was handed out alone."""
        return bool(self._isolated) and not set(self._isolated.values()).isdisjoint(ids)

    def _has_isolated(self, holder: Hashable) -> bool:
        id_ = self._isolated.get(holder)
        if id_ is None:
            return False
        if self._is_leased(id_):
            return True
        del self._isolated[holder]
        return False

    def _is_leased(self, id_: MessageId) -> bool:
        return id_ in self._in_flight or self._closed_results.is_leased(id_, self._clock.monotonic())

    # --- what ends

    def result_closed(self, subscription: Subscription, ends: Mapping[MessageId, float]) -> None:
        """A result has ended, and these stay leased to its receiver, until then."""
        self._closed_results.add(subscription.receiver, ends)

    def settled(self, ids: Iterable[MessageId]) -> None:
        """These have ended, or their leases were released."""
        self._closed_results.forget(ids)

    def uncertain(self) -> None:
        """Any message of the ended results may have been settled."""
        self._closed_results.clear()

    def is_attempt(self, subscription: Subscription, unacked: Collection[MessageId]) -> bool:
        """Its receiver is gone and had `unacked`, which are not in flight any more: whether that counts as an attempt
        of each."""
        now, process = self._clock.monotonic(), subscription.process
        if not unacked:
            return False
        alone = any(self._isolated.get(subscription.receiver) == id_ for id_ in unacked)
        alongside = len(unacked) > 1 or not self.is_idle(subscription) or self._process_has_others(subscription, now)
        if len(self._ended_processes) >= _ENDED_PROCESSES_MAX:
            entries = self._ended_processes.items()
            self._ended_processes = {one: at for one, at in entries if now - at <= TOGETHER_SECONDS}
        self._ended_processes[process] = now
        return alone or not alongside

    def _process_has_others(self, subscription: Subscription, now: float) -> bool:
        """Whether other connections of its process have messages, or had some until just now."""
        process = subscription.process
        if now - self._ended_processes.get(process, float("-inf")) <= TOGETHER_SECONDS:
            return True
        return any(holder.process == process for holder in self._in_flight.holders())

    # --- which receivers get what

    def split(self, cache: MessageCache, waiting: Sequence[Subscription], receivers: int) -> ReceiverSplit:
        """Which of `waiting`, in the order of their turns, get one of the cache's messages alone, and which are
        reserved for one. `receivers`: how many streams are open; a client that polls may have none just now."""
        if not cache.alone_first:
            return NO_SPLIT
        ready = [one for one in waiting if one.capacity() and not self._has_isolated(one.process)]
        isolated = {id_ for id_ in self._isolated.values() if self._is_leased(id_)}
        known = max(receivers, self._in_flight.receivers + self._closed_results.receivers)
        places = max(1, known // 2) - len(isolated) if cache.together else len(ready)
        alone: dict[Hashable, Subscription] = {}
        for one in ready:
            if len(alone) < min(cache.alone, places) and self.is_idle(one):
                alone.setdefault(one.process, one)
        lacking = min(cache.alone, places) - len(alone)
        busy = [one for one in ready if one.process not in alone and not self.is_idle(one)]
        busy.sort(key=lambda one: (self._in_flight.count_of(one.receiver), one.request.receiver.connection_id))
        return ReceiverSplit(tuple(alone.values()), frozenset(busy[: max(0, lacking)]))
