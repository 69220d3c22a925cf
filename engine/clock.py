"""The two sources of chance in the engine: time and jitter. Nothing else in engine/ reads either."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time and monotonic time. Injected, so tests own both."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. What timers are set by."""
        ...


class SystemClock:
    """The machine's clocks; `monotonic` is the running loop's, so it agrees with `call_at`."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Jitter(Protocol):
    """Returns a factor, uniform in [2/3, 4/3), that spreads retries (Vitess: +-33 %)."""

    def __call__(self) -> float: ...


def system_jitter() -> float:
    """The production jitter."""
    return random.uniform(2 / 3, 4 / 3)
