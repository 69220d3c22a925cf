"""The identity of a delivery: a number in the column lease_token that is never used twice for an id.

A lease writes the greater of the old number plus one and the database's time in microseconds. So it grows from delivery
to delivery of a row, and a new row with an old id (after a TRUNCATE, DROP and CREATE, a seek, REDRIVE, or at another
server that has lost the last rows) gets a later time. A NACK, RELEASE, REJECT or the engine's release of a lease adds
one: no receiver has that number. A lease that only expired has its number until the next lease.

Every number is below 2^53, so that clients with floating-point numbers read it exactly. A larger value that a client
has written into the column is replaced by the time; an overflow is not possible. Pure.
"""

from __future__ import annotations

from threading import Lock

TOKEN_COLUMN = "lease_token"
"""Of a queue's table; an adopted table may lack it, and its deliveries then have no name of their own."""

TOKEN_TYPE = "BIGINT NOT NULL DEFAULT 0"
"""What it is made as: 0 is a message that was never leased, and names no delivery."""

NO_TOKEN = 0
"""Of a delivery whose number is not known, or that has none."""

TOKEN_MAX = (1 << 53) - 1
"""The largest that a lease writes. As a time it is in the year 2255."""

_NS_PER_STEP = 1000

GROWN = f"CASE WHEN {TOKEN_COLUMN} >= ? AND {TOKEN_COLUMN} < {TOKEN_MAX} THEN {TOKEN_COLUMN} + 1 ELSE ? END"
"""As SQL, what a lease makes of it. Parameters: the time, twice (LeaseTimes)."""

VOID = f"CASE WHEN {TOKEN_COLUMN} < {TOKEN_MAX} THEN {TOKEN_COLUMN} + 1 ELSE {TOKEN_MAX + 1} END"
"""As SQL, its value after a lease is released."""

VOID_BY_CLIENT = f"LEAST({TOKEN_COLUMN}, {TOKEN_MAX}) + 1"
"""The same, in syntax that a restricted account may use."""


def next_token(token: int, time_us: int) -> int:
    """What GROWN makes of it."""
    return token + 1 if time_us <= token < TOKEN_MAX else time_us


def voided(token: int) -> int:
    """What VOID makes of it."""
    return min(token, TOKEN_MAX) + 1


class LeaseTimes:
    """The times that leases of this process are numbered by. May be called from several threads.

    No two are equal, though the embedded database's clock has milliseconds, and one may be set back.
    """

    def __init__(self) -> None:
        self._last = 0
        self._lock = Lock()

    def next(self, now_ns: int) -> int:
        """In microseconds, of a lease that is made at this time of the database's."""
        with self._lock:
            self._last = max(self._last + 1, now_ns // _NS_PER_STEP)
            return self._last
