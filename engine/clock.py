"""The two sources of chance in the engine: time and jitter. Nothing else in engine/ reads either.

DatabaseTime is what of the database's clock is known by them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from engine.model.option_values import NS_PER_SECOND


class Clock(Protocol):
    """Wall time and monotonic time. Injected, so tests own both."""

    def now_ns(self) -> int:
        """Wall clock, nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. What timers are set by."""
        ...

    def passed(self) -> float:
        """Seconds from another arbitrary start, read at this moment, those in which the process or its machine stood
        still included. What leases are held against."""
        ...


class SystemClock:
    """The machine's clocks; `monotonic` is the running loop's, so it agrees with `call_at`."""

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def passed(self) -> float:
        return seconds_passed()


def seconds_passed() -> float:
    """See Clock.passed. Any thread may ask.

    Linux stops CLOCK_MONOTONIC while the machine is suspended, and a loop's clock tells when its turn began; other
    systems have one monotonic clock.
    """
    return _passed()


def _clock_of_all_time() -> Callable[[], float]:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return time.monotonic
    return partial(time.clock_gettime, time.CLOCK_BOOTTIME)


_passed = _clock_of_all_time()


class Jitter(Protocol):
    """Returns a factor, uniform in [2/3, 4/3), that spreads retries (Vitess: +-33 %)."""

    def __call__(self) -> float: ...


def system_jitter() -> float:
    """The production jitter."""
    return random.uniform(2 / 3, 4 / 3)


class DatabaseTime:
    """The database's clock, seen from this process.

    Leases end by the database's clock, and the clock of this machine may differ from it by any amount. So no time that
    the database gave is compared with this machine's wall clock: each answer that carries the database's time is noted
    together with the monotonic time at which it came. An answer is late by its way here, so a lease is believed to last
    a little longer than it does, never shorter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: tuple[int, float] | None = None

    def heard(self, now_ns: int) -> None:
        """The database has just said that it is this time."""
        self._heard = now_ns, self._clock.monotonic()

    def now_ns(self) -> int | None:
        """What the database's clock says now, or a little less; None as long as it is not known."""
        if self._heard is None:
            return None
        now_ns, at = self._heard
        return now_ns + int((self._clock.monotonic() - at) * NS_PER_SECOND)

    def is_past(self, time_ns: int) -> bool:
        """Whether the database's clock has come to this time; False as long as its clock is not known."""
        now_ns = self.now_ns()
        return now_ns is not None and time_ns <= now_ns
