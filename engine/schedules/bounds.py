"""Rate limits for the schedules of one database: messages for missed ticks, and lines of the log. Pure; times are
seconds of a monotonic clock."""

from __future__ import annotations


class TokenBucket:
    """A burst of `at_once`, then `per_second`."""

    def __init__(self, at_once: int, per_second: float, now: float) -> None:
        self._most, self._per_second = at_once, per_second
        self._left, self._since = float(at_once), now

    def available(self, now: float) -> int:
        """How many may be used now."""
        self._left = min(self._most, self._left + max(now - self._since, 0.0) * self._per_second)
        self._since = now
        return max(int(self._left), 0)

    def full(self, now: float) -> bool:
        """Whether it is as a new one."""
        return self.available(now) == self._most

    def take(self, count: int) -> None:
        """Use some."""
        self._left -= count


class LogRateLimiter:
    """Allows a few log lines in each period; the others are counted, and their number is logged later."""

    def __init__(self, most: int, period: float) -> None:
        self._most, self._period = most, period
        self._started_at, self._logged, self._suppressed = float("-inf"), 0, 0

    def allow(self, now: float) -> bool:
        """Whether one more line may be logged; else it is counted."""
        if now >= self._started_at + self._period and not self._suppressed:
            self._started_at, self._logged = now, 0
        if self._logged < self._most:
            self._logged += 1
            return True
        self._suppressed += 1
        return False

    def take_suppressed(self, now: float) -> int:
        """The number of suppressed lines, if it is time to log it; else 0. This begins a new period without lines."""
        if not self._suppressed or now < self._started_at + self._period:
            return 0
        count, self._suppressed, self._started_at, self._logged = self._suppressed, 0, now, self._most
        return count

    def wait(self, now: float) -> float | None:
        """Seconds until the number is to be logged; None: nothing was suppressed."""
        return max(0.0, self._started_at + self._period - now) if self._suppressed else None
