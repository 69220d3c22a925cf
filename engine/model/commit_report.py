"""CommitReport: what a client's committed transaction did to queues, as the proxy tells it to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.model.queue import MessageId, QueueName, SubscribeRequest


class Settlement(NamedTuple):
    """What a client's statement did to messages of a queue: `what` is a counter of engine.delivery.metrics. `sure`:
    to all of them. `by`: the client, where it is to be told."""

    queue: QueueName
    what: str
    ids: tuple[MessageId, ...]
    sure: bool
    reason: str = ""
    by: SubscribeRequest | None = None


class PutOff(NamedTuple):
    """When messages fall due that a statement has put off: so long after its own time; 0: after the backoff of their
    queue. It was sent to the database after `sent_at`, on the monotonic clock."""

    sent_at: float
    delay_ns: int


ADDED_MAX = 100
"""Ids of added messages that are told with a commit; where there are more, looking for them costs no more."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What a client's committed transaction did to queues, as far as the proxy could see.

    `touched`: rows may have been added or rescheduled, look at once. `settled`: these ids are certainly no longer
    waiting for an ack. `uncertain`: some messages may have been settled (UPDATE, DELETE, ACK ... WHERE): ask the table.
    """

    touched: frozenset[QueueName] = frozenset()
    settled: Mapping[QueueName, tuple[MessageId, ...]] = field(default_factory=dict)
    uncertain: frozenset[QueueName] = frozenset()
    changed: Mapping[QueueName, tuple[MessageId, ...]] = field(default_factory=dict)
    """The leases of these messages were given up or renewed: ask the table what became of them."""
    rejected: frozenset[QueueName] = frozenset()
    """Messages of these may wait to be moved to the dead-letter queue."""
    counted: tuple[tuple[QueueName, str, int], ...] = ()
    """How many rows of a queue statements changed, by the counter they go to. Not for neighbours: who ran it counts."""
    traced: tuple[Settlement, ...] = ()
    """The same by messages, as far as they are known. Not for neighbours either."""
    added: Mapping[QueueName, Sequence[int]] = field(default_factory=dict)
    """Of those `touched`: where nothing is known but that messages were added, probably with these ids, few in number.
    Not for neighbours either: who gets there first has them."""
    put_off: Mapping[QueueName, PutOff] = field(default_factory=dict)
    """Of those `changed`: where all that was done is that these messages were put off. Not for neighbours either."""

    def __bool__(self) -> bool:
        return bool(self.touched or self.settled or self.uncertain or self.changed or self.rejected)
