"""DatabaseTime: the database's clock, seen from this process.

Leases end by the database's clock, and the clock of this machine may differ from it by any amount. So no time that the
database gave is compared with this machine's wall clock: each answer that carries the database's time is noted together
with the monotonic time at which it came. An answer is late by its way here, so a lease is believed to last a little
longer than it does, never shorter.
"""

from __future__ import annotations

from engine.clock import Clock
from engine.model.options import NS_PER_SECOND


class DatabaseTime:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: tuple[int, float] | None = None

    def heard(self, now_ns: int) -> None:
        """The database has just said that it is this time."""
        self._heard = now_ns, self._clock.monotonic()

    def is_past(self, time_ns: int) -> bool:
        """Whether the database's clock has come to this time; False as long as its clock is not known."""
        if self._heard is None:
            return False
        now_ns, at = self._heard
        return time_ns <= now_ns + (self._clock.monotonic() - at) * NS_PER_SECOND
