"""CommitReport: what a client's committed transaction did to queues, as the proxy reports it to the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.model.queue import MessageId, QueueName, ReceiverIdentity


class Settlement(NamedTuple):
    """What a client's statement did to messages of a queue: `what` is a counter of engine.delivery.metrics. `sure`: to
    all of them. `by`: the client, where it is recorded."""

    queue: QueueName
    what: str
    ids: tuple[MessageId, ...]
    sure: bool
    reason: str = ""
    by: ReceiverIdentity | None = None


class Postponement(NamedTuple):
    """When messages become due that a statement has postponed, or the leases end that it has renewed: `delay_ns` after
    the statement; 0: after the backoff of their queue. The statement was sent to the database after `sent_at`, on the
    monotonic clock."""

    sent_at: float
    delay_ns: int


ADDED_MAX = 100
"""Ids of added messages that are reported with a commit; beyond that, polling for them costs no more."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What a client's committed transaction did to queues, as far as the proxy could see.

    `touched`: rows may have been added or rescheduled, poll immediately. `settled`: these ids are certainly no longer
    waiting for an ack. `uncertain`: some messages may have been settled (UPDATE, DELETE, ACK ... WHERE): query the
    table.
    """

    touched: frozenset[QueueName] = frozenset()
    settled: Mapping[QueueName, tuple[MessageId, ...]] = field(default_factory=dict)
    uncertain: frozenset[QueueName] = frozenset()
    changed: Mapping[QueueName, tuple[MessageId, ...]] = field(default_factory=dict)
    """The leases of these messages were released or renewed: query the table for their state."""
    rejected: frozenset[QueueName] = frozenset()
    """Messages of these may wait to be moved to the dead-letter queue."""
    counted: tuple[tuple[QueueName, str, int], ...] = ()
    """How many rows of a queue statements changed, by counter. Not sent to other processes: the one that ran it counts
    them."""
    traced: tuple[Settlement, ...] = ()
    """The same by messages, as far as they are known. Not sent to other processes either."""
    added: Mapping[QueueName, Sequence[int]] = field(default_factory=dict)
    """Of those `touched`: where only messages were added, probably with these few ids. Not sent to other processes
    either: the first to claim has them."""
    postponed: Mapping[QueueName, Postponement] = field(default_factory=dict)
    """Of those `changed`: where these messages were only postponed. Not sent to other processes either."""
    renewed: Mapping[QueueName, int] = field(default_factory=dict)
    """For how long statements renewed leases, in ns: the shortest. Not sent to other processes either."""
    overdue: frozenset[QueueName] = frozenset()
    """Of those `touched`: where messages may be delivered now that fell due before, as they were given back, or are the
    next of their key. A scan of what is fresh does not find them."""

    def __bool__(self) -> bool:
        return bool(self.touched or self.settled or self.uncertain or self.changed or self.rejected)
