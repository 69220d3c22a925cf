"""Counters of one queue since the proxy started: plain integers, counted from the first message on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Message

DELAY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
"""Upper bounds of the buckets, in seconds; one more is for what is above."""

DELAY_BUCKETS = (*map(str, DELAY_BOUNDS), "+Inf")
"""The same as Prometheus's text format names them."""

_BOUNDS_NS = [int(bound * NS_PER_SECOND) for bound in DELAY_BOUNDS]


_NO_TIME_NS = 1_000_000_000_000_000  # below it time_next is no time but means: now


@dataclass(slots=True)
class Delays:
    """See the module."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(DELAY_BOUNDS) + 1))
    total_ns: int = 0

    def leased(self, messages: Iterable[Message], now_ns: int) -> None:
        """These were leased at that time."""
        for message in messages:
            if message.due_ns > _NO_TIME_NS and not message.is_repeated:
                delay = max(now_ns - message.due_ns, 0)
                self.counts[bisect_left(_BOUNDS_NS, delay)] += 1
                self.total_ns += delay


@dataclass(slots=True)
class QueueMetrics:
    """Events of a queue's messages, and their cost in database work."""

    enqueued: int = 0  # rows of committed INSERTs of clients; docs/monitoring.md says which are not seen
    acked: int = 0  # rows of committed ACKs, and of UPDATEs that ack
    deleted: int = 0  # rows of committed DELETEs of clients
    nacked: int = 0  # rows of committed NACKs
    rejected: int = 0  # rows of committed REJECTs
    dead_lettered: int = 0  # moved to the dead-letter queue
    renewed: int = 0  # rows of committed RENEWs
    sent: int = 0  # handed to receivers
    redelivered: int = 0  # of these, not for the first time
    settled_seen: int = 0  # in flight or cached when their ack, reject or delete was reported
    released: int = 0  # leases released, by the engine and by RELEASE
    expired: int = 0  # leases that ran out unacked
    purged: int = 0
    looks: int = 0
    claims: int = 0
    lease_conflicts: int = 0  # keys that a claim requested and did not get
    rechecks: int = 0  # queries whether messages in flight are still unacked
    backend_errors: int = 0
    stalls: int = 0  # how often the watchdog found deliveries stalled, and restarted them
    delays: Delays = field(default_factory=Delays)

    def count(self, name: str, rows: int) -> None:
        """Add to a counter by its name."""
        setattr(self, name, getattr(self, name) + rows)

    def snapshot(self) -> dict[str, int]:
        """The counters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "delays"}
