"""What the schedules of one database may cost others: messages for missed ticks, and lines of the log. Pure; times are
seconds of a monotonic clock."""

from __future__ import annotations


class Room:
    """So many at once, and then so many a second."""

    def __init__(self, at_once: int, per_second: float, now: float) -> None:
        self._most, self._per_second = at_once, per_second
        self._left, self._since = float(at_once), now

    def left(self, now: float) -> int:
        """How many there is room for."""
        self._left = min(self._most, self._left + max(now - self._since, 0.0) * self._per_second)
        self._since = now
        return max(int(self._left), 0)

    def take(self, count: int) -> None:
        """So many were used."""
        self._left -= count


class FewLines:
    """A few lines in a period, and then their number."""

    def __init__(self, most: int, period: float) -> None:
        self._most, self._period = most, period
        self._begun, self._lines, self._rest = float("-inf"), 0, 0

    def add(self, now: float) -> bool:
        """Whether there is a line for one more; else it is counted."""
        if now >= self._begun + self._period and not self._rest:
            self._begun, self._lines = now, 0
        if self._lines < self._most:
            self._lines += 1
            return True
        self._rest += 1
        return False

    def rest(self, now: float) -> int:
        """What was counted, where it is time to tell of it; else 0. It begins a new period, of no more lines."""
        if not self._rest or now < self._begun + self._period:
            return 0
        count, self._rest, self._begun, self._lines = self._rest, 0, now, self._most
        return count

    def wait(self, now: float) -> float | None:
        """Seconds until there is something to tell."""
        return max(0.0, self._begun + self._period - now) if self._rest else None
