"""The state of a message, derived from its row alone: the marks in time_next, and the conditions for SQL statements.

Every time that SQL writes is a whole number of microseconds, so its nanoseconds end in 000. The end of a lease ends in
001: leased, or in 003: leased alongside other messages of the same receiver. All other writes of time_next (NACK,
RELEASE, an UPDATE) end in 000: waiting. Only messages that an engine releases after a crash may end in 002: due, and to
be delivered alone. 002 and 003 are only written in queues with bounded attempts (docs/message_lifecycle.md). Two times
mean never: REJECTED_NS for messages that wait to be moved to the dead-letter queue, PARKED_NS for messages that a user
has set aside manually.

    acked       time_acked set
    in flight   unacked, epoch > 0, time_next in the future and marked
    retrying    unacked, epoch > 0, time_next in the future and not marked
    scheduled   unacked, epoch 0, time_next in the future
    ready       unacked, time_next NULL or past

The conditions are SQL that all supported databases read in the same way, except the `mark`; `now_sql` is an expression
for the database's time in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STEP_NS = 1000  # databases count microseconds
_LEASE_MARK, _ALONE_MARK, _ALONGSIDE_MARK = 1, 2, 3
_LEASE_MARKS = (_LEASE_MARK, _ALONGSIDE_MARK)
_MARKS = (_LEASE_MARK, _ALONE_MARK, _ALONGSIDE_MARK)

MARK = f"MOD(time_next, {_STEP_NS})"
"""The mark of a row, in MySQL's syntax: the function, because sql_mode ORACLE has no such operator."""

MARK_OF_SQLITE = f"time_next % {_STEP_NS}"
"""SQLite's function of that name uses floating point."""

PARKED_NS = (1 << 63) - 1
"""time_next of a message that a user parked manually (as Vitess users do): never due, never changed."""

REJECTED_NS = (1 << 63) - 2
"""time_next of a rejected message, until it is moved to the dead-letter queue: never due."""


REDRIVEN_NS = (1 << 63) - 3
"""time_next of a dead letter while REDRIVE moves it; never committed."""

RENUMBERED_NS = (1 << 63) - 4
"""The same for one that cannot have its own id in the queue."""


def lease_end(until_ns: int, *, alongside: bool = False) -> int:
    """The time as a lease writes it: marked, less than a microsecond off. `alongside`: the receiver has other messages
    too, where that matters."""
    return until_ns - until_ns % _STEP_NS + (_ALONGSIDE_MARK if alongside else _LEASE_MARK)


def is_lease_end(time_next_ns: int) -> bool:
    """Whether a lease has written this time."""
    return time_next_ns % _STEP_NS in _LEASE_MARKS


def is_alongside(time_next_ns: int) -> bool:
    """Whether it is the end of a lease whose receiver had other messages too."""
    return time_next_ns % _STEP_NS == _ALONGSIDE_MARK


def goes_alone(due_ns: int) -> bool:
    """For a due message: whether a crash or an expired lease made it due. Where attempts are bounded, it is delivered
    alone."""
    return due_ns % _STEP_NS in _MARKS


def due_again(due_ns: int, *, alone: bool) -> int:
    """The time as it is written for a message that is due again, without a lease's mark; `alone`: to be delivered
    alone."""
    marked = due_ns % _STEP_NS in _MARKS
    return due_ns - due_ns % _STEP_NS + _ALONE_MARK if alone else due_ns - due_ns % _STEP_NS if marked else due_ns


def state_of(row: Mapping[str, Any], now_ns: int) -> str:
    """The name of a row's state, as in docs/sql.md; a dead letter that waits for a person is `dead`."""
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
    """Its time has come. An unacked message that is due is ready."""
    return f"(time_next IS NULL OR time_next <= {now_sql})"


def in_flight(now_sql: str, mark: str) -> str:
    """Leased to a receiver."""
    return f"(time_acked IS NULL AND epoch > 0 AND time_next > {now_sql} AND {leased(mark)})"


def leased(mark: str) -> str:
    """Whether time_next is the end of a lease, running or expired."""
    return f"{mark} IN ({_LEASE_MARK}, {_ALONGSIDE_MARK})"


def leased_alongside() -> str:
    """Whether time_next is the end of a lease whose receiver had other messages too."""
    return f"{MARK} = {_ALONGSIDE_MARK}"


def not_set_aside() -> str:
    """Neither rejected nor parked manually; NULL is due, hence neither."""
    return f"(time_next IS NULL OR time_next < {REJECTED_NS})"
