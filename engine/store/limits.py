"""What a queue's limits allow, as pure arithmetic: its rate, as the generic cell rate algorithm (GCRA) counts it.

The whole state of a rate is one time, the theoretical arrival time: when the next delivery would come if all came
evenly spaced. It runs ahead of the clock by what was delivered at once, and never by more than the burst. So it needs
no timer and no history, survives a restart, and is stored in a row that all proxies lock for a claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from engine.model.option_values import NS_PER_SECOND

_BURST_SECONDS = Decimal("0.1")  # what may go out at once: a tenth of a second's deliveries, at least one
_SLACK_NS = 20_000_000  # how far a slow rate may run ahead, so that a timer that fires late costs it no delivery


@dataclass(frozen=True, slots=True)
class Rate:
    """Deliveries per second, of a whole queue. In any time t it lets pass at most rate * t + burst of them."""

    interval_ns: int
    tolerance_ns: int

    @classmethod
    def of(cls, per_second: Decimal) -> Rate:
        """The rate of the option `max_rate`."""
        interval_ns = max(1, int(NS_PER_SECOND / per_second))
        burst = max(Decimal(1), per_second * _BURST_SECONDS)
        tolerance_ns = max(int((burst - 1) * interval_ns), min(interval_ns, _SLACK_NS))
        return cls(interval_ns, tolerance_ns)

    def allowed(self, now_ns: int, arrival_ns: int) -> int:
        """How many deliveries may go now."""
        ahead_ns = self._start(now_ns, arrival_ns) - now_ns
        return max(0, (self.tolerance_ns - ahead_ns) // self.interval_ns + 1)

    def after(self, now_ns: int, arrival_ns: int, count: int) -> int:
        """The theoretical arrival time once that many went."""
        return self._start(now_ns, arrival_ns) + count * self.interval_ns

    def wait_ns(self, now_ns: int, arrival_ns: int) -> int:
        """From now until the next may go."""
        return max(0, self._start(now_ns, arrival_ns) - self.tolerance_ns - now_ns)

    def _start(self, now_ns: int, arrival_ns: int) -> int:
        """Where to count from.

        A time further ahead than this rate allows is from another rate, or from a clock that was set back: it counts as
        a used-up burst. It must not be waited for, nor be used as it is: it would move on with the clock.
        """
        if arrival_ns > now_ns + self.tolerance_ns + self.interval_ns:
            return now_ns + self.tolerance_ns
        return max(now_ns, arrival_ns)
