"""Company: which receivers hold messages beside others, and who is handed a message alone. No I/O.

For queues whose attempts are bounded (`QueueOptions.tries_alone`). There a delivery that ends without a word of its
receiver counts as an attempt only where the message was alone with it; else nobody knows which of its messages the
receiver fell over. Those are handed out alone from then on, each to a receiver that holds nothing, and that gets
nothing more until the message has ended. Rules:
- A receiver is a connection. Of connections that say to be of one process only one gets such a message at a time: what
  ends one of them often ends the others.
- While messages wait that are to be handed out alone, and come first in order, receivers are kept free for them: as
  many as messages wait, but half of the receivers at most where others wait as well, one at least. These are the ones
  that hold least, so that they are free soonest. So neither kind waits for ever: the wait for a free receiver is as
  long as what it holds takes.

What receivers hold of open results is known from the leases in flight; what they hold of results that have ended, and
by time alone, is remembered here until it is settled, or its time is over.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.clock import Clock
from engine.delivery.cache import MessageCache
from engine.delivery.in_flight import InFlight
from engine.delivery.subscription import Subscription
from engine.model.queue import MessageId

LEFT_MAX = 10_000
"""Messages of ended results that are remembered, 2 MB; what is beyond is taken to be held by nobody."""

TOGETHER_SECONDS = 2.0
"""Connections of one process that end within this time have ended together."""

_GONE_MAX = 1000  # processes of which connections have ended lately
_OUT_MAX = 1000  # receivers that were handed a message alone, before those that have ended it are forgotten


class LeftBehind:
    """What receivers hold of results that have ended, until a time on the monotonic clock."""

    def __init__(self, most: int = LEFT_MAX) -> None:
        self._most = most
        self._of: dict[Hashable, dict[MessageId, float]] = {}
        self._receivers: dict[MessageId, Hashable] = {}

    def stands(self, id_: MessageId, now: float) -> bool:
        """Whether a receiver still holds that message."""
        receiver = self._receivers.get(id_)
        if receiver is not None and self._of[receiver][id_] <= now:
            self.forget((id_,))
            return False
        return receiver is not None

    def add(self, receiver: Hashable, ends: Mapping[MessageId, float]) -> None:
        """A result has ended; until when its messages are held."""
        self.forget(ends)
        for id_, end in ends.items():
            if len(self._receivers) >= self._most:
                return
            self._receivers[id_] = receiver
            self._of.setdefault(receiver, {})[id_] = end

    def forget(self, ids: Iterable[MessageId]) -> None:
        """These have ended."""
        for id_ in ids if self._receivers else ():
            receiver = self._receivers.pop(id_, None)
            if receiver is not None:
                held = self._of[receiver]
                del held[id_]
                if not held:
                    del self._of[receiver]

    def clear(self) -> None:
        """Anything may have ended."""
        self._of.clear()
        self._receivers.clear()

    @property
    def receivers(self) -> int:
        """How many receivers hold any."""
        return len(self._of)

    def count(self, receiver: Hashable, now: float) -> int:
        """How many a receiver still holds."""
        held = self._of.get(receiver)
        if held is None:
            return 0
        self.forget([id_ for id_, end in held.items() if end <= now])
        return len(held)


class ConnectionLeases:
    """Results that have ended, whose messages their connection holds (`lease = 'connection'`). Of one queue.

    Such a result stays the holder of its leases until they are settled or run out, or the connection ends and gives
    them back. What a connection holds of a queue counts towards the window of its next result.
    """

    def __init__(self, in_flight: InFlight[Subscription]) -> None:
        self._in_flight = in_flight
        self._ended: dict[int, list[Subscription]] = {}

    def keeps(self, subscription: Subscription, *, give_back: bool) -> bool:
        """A result has ended: whether its connection holds on to its messages. With `give_back` it does no longer."""
        if not subscription.request.by_connection:
            return False
        connection_id = subscription.request.connection_id
        before = self._ended.pop(connection_id, [])
        kept = [one for one in before if one is not subscription and self._in_flight.count(one)]
        if not give_back and self._in_flight.count(subscription):
            kept.append(subscription)
        if kept:
            self._ended[connection_id] = kept
        return not give_back

    def __bool__(self) -> bool:
        """Whether any connection holds on to messages."""
        return bool(self._ended)

    def window_full(self, ids: Iterable[MessageId]) -> bool:
        """Whether who holds any of these messages may have no more until one of them ends; or perhaps so, for what a
        connection holds on to counts for its next result."""
        return bool(self._ended) or any(holder.window_full for holder in self._in_flight.holders_of(ids))

    def beside(self, subscription: Subscription) -> int:
        """How many messages its connection holds of results before it; of one that is open."""
        if subscription.over or not subscription.request.by_connection:
            return 0
        before = self._ended.get(subscription.request.connection_id, ())
        return sum([self._in_flight.count(one) for one in before])


@dataclass(frozen=True, slots=True)
class Parting:
    """Who may be given what. `alone`: these get one message each, and nothing beside it; `kept_free`: these get
    nothing."""

    alone: tuple[Subscription, ...] = ()
    kept_free: frozenset[Subscription] = frozenset()

    def others(self, waiting: Iterable[Subscription]) -> Iterable[Subscription]:
        """Those that may be given messages together."""
        if not self.alone and not self.kept_free:
            return waiting
        return [one for one in waiting if one not in self.kept_free and one not in self.alone]


NO_PARTING = Parting()


class Company:
    """See the module. Of one queue."""

    def __init__(self, in_flight: InFlight[Subscription], clock: Clock) -> None:
        self._in_flight, self._clock = in_flight, clock
        self._left = LeftBehind()
        self._out: dict[Hashable, MessageId] = {}  # what receivers, and processes, were handed alone
        self._gone: dict[Hashable, float] = {}  # when a connection of a process ended that held messages

    # --- who holds what

    def empty(self, subscription: Subscription) -> bool:
        """Whether its receiver holds nothing."""
        receiver = subscription.receiver
        return not self._in_flight.count_of(receiver) and not self._left.count(receiver, self._clock.monotonic())

    def closed(self, subscription: Subscription) -> bool:
        """Whether its receiver holds a message that it was handed alone."""
        return bool(self._out) and self._holds_alone(subscription.receiver)

    def handed_out_alone(self, subscription: Subscription, id_: MessageId) -> None:
        """It was given this message, and nothing beside it."""
        if len(self._out) >= _OUT_MAX:
            self._out = {holder: held for holder, held in self._out.items() if self._stands(held)}
        self._out[subscription.receiver] = self._out[subscription.process] = id_

    def any_alone(self, ids: Iterable[MessageId]) -> bool:
        """Whether one of these was handed out alone."""
        return bool(self._out) and not set(self._out.values()).isdisjoint(ids)

    def _holds_alone(self, holder: Hashable) -> bool:
        id_ = self._out.get(holder)
        if id_ is None:
            return False
        if self._stands(id_):
            return True
        del self._out[holder]
        return False

    def _stands(self, id_: MessageId) -> bool:
        return id_ in self._in_flight or self._left.stands(id_, self._clock.monotonic())

    # --- what ends

    def left(self, subscription: Subscription, ends: Mapping[MessageId, float]) -> None:
        """A result has ended, and its receiver holds these on, until then."""
        self._left.add(subscription.receiver, ends)

    def settled(self, ids: Iterable[MessageId]) -> None:
        """These have ended, or their leases were given up."""
        self._left.forget(ids)

    def uncertain(self) -> None:
        """Anything may have ended of what only time held."""
        self._left.clear()

    def is_attempt(self, subscription: Subscription, taken: Collection[MessageId]) -> bool:
        """Its receiver has gone and held `taken`, which the leases in flight have no more: whether that counts as an
        attempt."""
        now, process = self._clock.monotonic(), subscription.process
        if not taken:
            return False
        alone = any(self._out.get(subscription.receiver) == id_ for id_ in taken)
        beside = len(taken) > 1 or not self.empty(subscription) or self._has_mates(subscription, now)
        if len(self._gone) >= _GONE_MAX:
            self._gone = {one: at for one, at in self._gone.items() if now - at <= TOGETHER_SECONDS}
        self._gone[process] = now
        return alone or not beside

    def _has_mates(self, subscription: Subscription, now: float) -> bool:
        """Whether other connections of its process hold messages, or did so until just now."""
        process = subscription.process
        if now - self._gone.get(process, float("-inf")) <= TOGETHER_SECONDS:
            return True
        return any(holder.process == process for holder in self._in_flight.holders())

    # --- who is given what

    def part(self, cache: MessageCache, waiting: Sequence[Subscription], receivers: int) -> Parting:
        """Of `waiting`, in the order in which they have their turn, who gets one of the cache's messages alone, and who
        is kept free for one. `receivers`: how many streams are open; who polls may have none just now."""
        if not cache.alone_first:
            return NO_PARTING
        ready = [one for one in waiting if one.capacity() and not self._holds_alone(one.process)]
        out = {id_ for id_ in self._out.values() if self._stands(id_)}
        known = max(receivers, self._in_flight.receivers + self._left.receivers)
        places = max(1, known // 2) - len(out) if cache.together else len(ready)
        alone: dict[Hashable, Subscription] = {}
        for one in ready:
            if len(alone) < min(cache.alone, places) and self.empty(one):
                alone.setdefault(one.process, one)
        wanted = min(cache.alone, places) - len(alone)
        busy = [one for one in ready if one.process not in alone and not self.empty(one)]
        busy.sort(key=lambda one: (self._in_flight.count_of(one.receiver), one.request.connection_id))
        return Parting(tuple(alone.values()), frozenset(busy[: max(0, wanted)]))
