"""Counters of one queue since the proxy started: plain integers, counted from the first message on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from engine.delivery.delays import Delays


@dataclass(slots=True)
class QueueMetrics:
    """What happened to a queue's messages, and what it cost the database."""

    enqueued: int = 0  # rows of committed INSERTs of clients; docs/monitoring.md says which are not seen
    acked: int = 0  # rows of committed ACKs, and of UPDATEs that ack
    deleted: int = 0  # rows of committed DELETEs of clients
    nacked: int = 0  # rows of committed NACKs
    rejected: int = 0  # rows of committed REJECTs
    dead_lettered: int = 0  # moved to the dead-letter queue
    renewed: int = 0  # rows of committed RENEWs
    sent: int = 0  # handed to receivers
    redelivered: int = 0  # of these, not for the first time
    settled_seen: int = 0  # in flight or cached when their ack, reject or delete was heard of
    released: int = 0  # leases given back, by the engine and by RELEASE
    expired: int = 0  # leases that ran out unacked
    purged: int = 0
    looks: int = 0
    claims: int = 0
    lease_conflicts: int = 0  # keys a claim asked for and did not get
    rechecks: int = 0  # questions whether messages in flight are still unacked
    backend_errors: int = 0
    stalls: int = 0  # how often the watchdog found deliveries at a stand, and began them anew
    delays: Delays = field(default_factory=Delays)

    def count(self, name: str, rows: int) -> None:
        """Add to a counter by its name."""
        setattr(self, name, getattr(self, name) + rows)

    def snapshot(self) -> dict[str, int]:
        """The counters by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "delays"}
