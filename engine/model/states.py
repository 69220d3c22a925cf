"""What state a message is in, read off its row alone: the marks in time_next, and the conditions that SQL texts use.

Every time that SQL writes is a whole number of microseconds, so its nanoseconds end in 000. A lease ends in 001: "held
by a receiver", or in 003: "held by a receiver beside other messages". Whatever else sets time_next (NACK, RELEASE, an
UPDATE) ends in 000: "waits". Only what an engine gives back after a crash may end in 002: "due, and to be handed out
alone". 002 and 003 are written in queues alone whose attempts are bounded (docs/message_lifecycle.md). Two times stand
for never: REJECTED_NS for what waits to be moved to the dead-letter queue, PARKED_NS for what a user has set aside by
hand.

    acked       time_acked set
    in flight   unacked, epoch > 0, time_next in the future and marked
    retrying    unacked, epoch > 0, time_next in the future and not marked
    scheduled   unacked, epoch 0, time_next in the future
    ready       unacked, time_next NULL or past

The conditions are SQL that every database we serve reads alike, but for the `mark`; `now_sql` is its time in
nanoseconds, as an expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STEP_NS = 1000  # databases count microseconds
_LEASE_MARK, _ALONE_MARK, _BESIDE_MARK = 1, 2, 3
_LEASE_MARKS = (_LEASE_MARK, _BESIDE_MARK)
_MARKS = (_LEASE_MARK, _ALONE_MARK, _BESIDE_MARK)

MARK = f"MOD(time_next, {_STEP_NS})"
"""What a row is marked with, in MySQL's words: the function, for in sql_mode ORACLE the operator is none."""

MARK_OF_SQLITE = f"time_next % {_STEP_NS}"
"""SQLite's function of that name counts in floating point."""

PARKED_NS = (1 << 63) - 1
"""time_next of a message that somebody parked by hand (Vitess's users do): never due, never touched."""

REJECTED_NS = (1 << 63) - 2
"""time_next of a rejected message, until it is moved to the dead-letter queue: never due."""


REDRIVEN_NS = (1 << 63) - 3
"""time_next of a dead letter while REDRIVE moves it; never committed."""

RENUMBERED_NS = (1 << 63) - 4
"""The same of one that cannot have its own id in the queue."""


def lease_end(until_ns: int, *, beside: bool = False) -> int:
    """The time as a lease writes it: marked, less than a microsecond off. `beside`: of a message that its receiver
    holds beside others, where that matters."""
    return until_ns - until_ns % _STEP_NS + (_BESIDE_MARK if beside else _LEASE_MARK)


def is_lease_end(time_next_ns: int) -> bool:
    """Whether a lease has written this time."""
    return time_next_ns % _STEP_NS in _LEASE_MARKS


def is_beside(time_next_ns: int) -> bool:
    """Whether it is the end of a lease of a message that its receiver held beside others."""
    return time_next_ns % _STEP_NS == _BESIDE_MARK


def goes_alone(due_ns: int) -> bool:
    """Of what is due: whether a crash or a lease that ran out made it so. Where attempts are bounded it is handed out
    alone."""
    return due_ns % _STEP_NS in _MARKS


def due_again(due_ns: int, *, alone: bool) -> int:
    """The time as it is written for what is due again since then, no end of a lease any more; `alone`: to be handed out
    alone."""
    marked = due_ns % _STEP_NS in _MARKS
    return due_ns - due_ns % _STEP_NS + _ALONE_MARK if alone else due_ns - due_ns % _STEP_NS if marked else due_ns


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


def in_flight(now_sql: str, mark: str) -> str:
    """Held by a receiver."""
    return f"(time_acked IS NULL AND epoch > 0 AND time_next > {now_sql} AND {leased(mark)})"


def leased(mark: str) -> str:
    """Whether time_next is a lease's, running or run out."""
    return f"{mark} IN ({_LEASE_MARK}, {_BESIDE_MARK})"


def held_beside() -> str:
    """Whether time_next is that of a lease of a message that was held beside others."""
    return f"{MARK} = {_BESIDE_MARK}"


def not_set_aside() -> str:
    """Neither rejected nor parked by hand; NULL is due, hence neither."""
    return f"(time_next IS NULL OR time_next < {REJECTED_NS})"
