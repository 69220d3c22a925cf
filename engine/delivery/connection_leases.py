"""ConnectionLeases: results that have ended, whose messages their connection holds (`lease = 'connection'`). Pure.

Such a result stays the holder of its leases until they are settled or run out, or the connection ends and gives them
back. What a connection holds of a queue counts towards the window of its next result.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.delivery.in_flight import InFlight
from engine.delivery.subscription import Subscription
from engine.model.queue import MessageId


class ConnectionLeases:
    """See the module. For one queue."""

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
