"""LeaseAlarms: which messages of a queue have been leased for longer than its option alarm_after. No await here.

Every message is watched that is handed out here while the queue has the option, to any receiver: an open stream, or a
result that has ended since. When alarm_after has passed it is overdue, and the table is read; it is an alarm as long as
this delivery is leased in the table, renewed or not. A message that is acked here is removed at once, the others when
the table is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from engine.clock import DatabaseTime
from engine.model.queue import Message, MessageId, ReceiverIdentity
from engine.model.states import is_lease_end
from engine.store.base import UNKNOWN_STATE, LeaseState

WATCHED_MAX = 100_000
"""Messages of a queue that are watched; further ones are not. 20 MB."""

ALARMS_MAX = 1000
"""Alarms of a queue that are counted, and messages in one query of the table, as in a claim."""


class Delivery(NamedTuple):
    """A message that was handed out, when, by the monotonic clock, and its receiver."""

    id: MessageId
    epoch: int
    token: int
    at: float
    receiver: ReceiverIdentity


class LeaseAlarms:
    """See the module. For one queue."""

    def __init__(self, time: DatabaseTime) -> None:
        self._time = time
        self._watched: dict[MessageId, Delivery] = {}  # in the order in which they were handed out
        self._alarms: dict[MessageId, Delivery] = {}

    def __len__(self) -> int:
        return len(self._alarms)

    def leased(self, messages: Iterable[Message], receiver: ReceiverIdentity, now: float) -> None:
        """These were handed out."""
        for message in messages:
            self._forget(message.id)
            if len(self._watched) < WATCHED_MAX:
                self._watched[message.id] = Delivery(message.id, message.epoch, message.token, now, receiver)

    def ended(self, ids: Iterable[MessageId]) -> None:
        """These were acked, deleted or rejected."""
        if self._watched or self._alarms:
            for id_ in ids:
                self._forget(id_)

    def clear(self) -> None:
        """The queue does not have the option any more."""
        self._watched.clear()
        self._alarms.clear()

    def overdue(self, leased_before: float) -> list[MessageId]:
        """The messages to query the table about: the alarms, and those that were handed out before that time."""
        late = (entry.id for entry in self._watched.values() if entry.at <= leased_before)
        room = ALARMS_MAX - len(self._alarms)
        return [*self._alarms, *islice(late, room)]

    def apply(self, queried_ids: Iterable[MessageId], states: Mapping[MessageId, LeaseState]) -> Sequence[Delivery]:
        """Apply the leases as read from the table. Returns the new alarms."""
        new: list[Delivery] = []
        for id_ in queried_ids:
            if states.get(id_) is UNKNOWN_STATE:
                continue
            delivery = self._watched.pop(id_, None)
            if delivery is not None and self._is_leased(delivery, states.get(id_)):
                self._alarms[id_] = delivery
                new.append(delivery)
            elif delivery is None and (alarm := self._alarms.get(id_)) and not self._is_leased(alarm, states.get(id_)):
                del self._alarms[id_]
        return new

    def _is_leased(self, delivery: Delivery, state: LeaseState | None) -> bool:
        """Whether that delivery is still leased."""
        if state is None or state.time_next_ns is None:
            return False
        if state.epoch != delivery.epoch or (delivery.token and state.token != delivery.token):
            return False
        return is_lease_end(state.time_next_ns) and not self._time.is_past(state.time_next_ns)

    def _forget(self, id_: MessageId) -> None:
        self._watched.pop(id_, None)
        self._alarms.pop(id_, None)
