"""LeaseAlarms: which messages of a queue have been leased for longer than its option alarm_after. No await here.

Noted is every message that is handed out here while the queue has the option, to whatever receiver: an open stream, or
a result that has ended since. When its time has come it is doubtful, and the table is asked; it is an alarm as long as
the table says that this very delivery is leased, renewed or not. What is acked here is forgotten at once, the rest when
the table is asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from engine.clock import DatabaseTime
from engine.model.queue import Message, MessageId, SubscribeRequest
from engine.model.states import is_lease_end
from engine.store.base import LeaseStanding

NOTED_MAX = 100_000
"""Messages of a queue that are watched; what is handed out beyond that is not. 20 MB."""

ALARMS_MAX = 1000
"""Alarms of a queue that are counted, and messages that the table is asked about at once, as in a claim."""


class Delivery(NamedTuple):
    """A message that was handed out, when, by the monotonic clock, and to whom."""

    id: MessageId
    epoch: int
    token: int
    at: float
    receiver: SubscribeRequest


class LeaseAlarms:
    """See the module. For one queue."""

    def __init__(self, time: DatabaseTime) -> None:
        self._time = time
        self._noted: dict[MessageId, Delivery] = {}  # in the order in which they were handed out
        self._alarms: dict[MessageId, Delivery] = {}

    def __len__(self) -> int:
        return len(self._alarms)

    def leased(self, messages: Iterable[Message], receiver: SubscribeRequest, now: float) -> None:
        """These were handed out."""
        for message in messages:
            self._forget(message.id)
            if len(self._noted) < NOTED_MAX:
                self._noted[message.id] = Delivery(message.id, message.epoch, message.token, now, receiver)

    def ended(self, ids: Iterable[MessageId]) -> None:
        """These were acked, deleted or rejected."""
        if self._noted or self._alarms:
            for id_ in ids:
                self._forget(id_)

    def clear(self) -> None:
        """The queue has no such option any more."""
        self._noted.clear()
        self._alarms.clear()

    def doubtful(self, leased_before: float) -> list[MessageId]:
        """Of which messages the table is to be asked: the alarms, and what was handed out before that time."""
        late = (entry.id for entry in self._noted.values() if entry.at <= leased_before)
        room = ALARMS_MAX - len(self._alarms)
        return [*self._alarms, *islice(late, room)]

    def told(self, asked: Iterable[MessageId], found: Mapping[MessageId, LeaseStanding]) -> Sequence[Delivery]:
        """Take in how the table says that these stand. Returns the new alarms."""
        new: list[Delivery] = []
        for id_ in asked:
            delivery = self._noted.pop(id_, None)
            if delivery is not None and self._stands(delivery, found.get(id_)):
                self._alarms[id_] = delivery
                new.append(delivery)
            elif delivery is None and id_ in self._alarms and not self._stands(self._alarms[id_], found.get(id_)):
                del self._alarms[id_]
        return new

    def _stands(self, delivery: Delivery, standing: LeaseStanding | None) -> bool:
        """Whether that delivery is still leased."""
        if standing is None or standing.time_next_ns is None:
            return False
        if standing.epoch != delivery.epoch or (delivery.token and standing.token != delivery.token):
            return False
        return is_lease_end(standing.time_next_ns) and not self._time.is_past(standing.time_next_ns)

    def _forget(self, id_: MessageId) -> None:
        self._noted.pop(id_, None)
        self._alarms.pop(id_, None)
