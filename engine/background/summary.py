"""A count for the log: reported at once, then at most once in a period, with all that was added meanwhile. Pure."""

from __future__ import annotations


class Summary:
    """Times are seconds of a monotonic clock."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._count = 0
        self._next = float("-inf")  # when it may be reported again

    def add(self, count: int) -> None:
        self._count += count

    def take(self, now: float) -> int:
        """The count to report now; 0: none."""
        if not self._count or now < self._next:
            return 0
        count, self._count, self._next = self._count, 0, now + self._period
        return count

    def wait(self, now: float) -> float:
        """Seconds until there is something to report; infinite where nothing was added."""
        return max(0.0, self._next - now) if self._count else float("inf")
