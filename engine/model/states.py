"""What state a message is in, read off its row alone: the marks in time_next, and the conditions that SQL texts use.

Every time that SQL writes is a whole number of microseconds, so its nanoseconds end in 000. A lease ends in 001: "held
by a receiver". Whatever else sets time_next (NACK, RELEASE, an UPDATE) ends in 000: "waits". Two times stand for never:
REJECTED_NS for what waits to be moved to the dead-letter queue, PARKED_NS for what a user has set aside by hand.

    acked       time_acked set
    in flight   unacked, epoch > 0, time_next in the future and marked
    retrying    unacked, epoch > 0, time_next in the future and not marked
    scheduled   unacked, epoch 0, time_next in the future
    ready       unacked, time_next NULL or past

The conditions are SQL that every database we serve reads alike; `now_sql` is its time in nanoseconds, as an expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STEP_NS = 1000  # databases count microseconds
_LEASE_MARK = 1

PARKED_NS = (1 << 63) - 1
"""time_next of a message that somebody parked by hand (Vitess's users do): never due, never touched."""

REJECTED_NS = (1 << 63) - 2
"""time_next of a rejected message, until it is moved to the dead-letter queue: never due."""


REDRIVEN_NS = (1 << 63) - 3
"""time_next of a dead letter while REDRIVE moves it; never committed."""

RENUMBERED_NS = (1 << 63) - 4
"""The same of one that cannot have its own id in the queue."""


def lease_end(until_ns: int) -> int:
    """The time as a lease writes it: marked, less than a microsecond off."""
    return until_ns - until_ns % _STEP_NS + _LEASE_MARK


def is_lease_end(time_next_ns: int) -> bool:
    """Whether a lease has written this time."""
    return time_next_ns % _STEP_NS == _LEASE_MARK


def not_a_lease_end(time_next_ns: int) -> int:
    """The same time as what else than a lease writes it."""
    return time_next_ns - time_next_ns % _STEP_NS if is_lease_end(time_next_ns) else time_next_ns


def state_of(row: Mapping[str, Any], now_ns: int) -> str:
    """One word for the state of a row, as docs/sql.md has them; a dead letter that waits for a person is `dead`."""
    next_ns = row.get("time_next")
    if row.get("time_acked") is not None:
        return "acked"
    if next_ns is None or next_ns <= now_ns:
        return "dead" if row.get("state") in ("dead", b"dead") else "ready"
    if next_ns >= REJECTED_NS:
        return "parked" if next_ns == PARKED_NS else "rejected"
    if not row.get("epoch"):
        return "scheduled"
    return "in_flight" if is_lease_end(next_ns) else "retrying"


def due(now_sql: str) -> str:
    """Waits for no time. An unacked message that is due is ready."""
    return f"(time_next IS NULL OR time_next <= {now_sql})"


def in_flight(now_sql: str) -> str:
    """Held by a receiver."""
    return f"(time_acked IS NULL AND epoch > 0 AND time_next > {now_sql} AND {leased()})"


def leased() -> str:
    """Whether time_next is a lease's, running or run out."""
    return f"time_next % {_STEP_NS} = {_LEASE_MARK}"


def not_set_aside() -> str:
    """Neither rejected nor parked by hand; NULL is due, hence neither."""
    return f"(time_next IS NULL OR time_next < {REJECTED_NS})"
