"""The two non-deterministic inputs of the engine: time and jitter. Nothing else in engine/ reads either.

DatabaseTime estimates the database's clock from them.
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
        """Seconds from an arbitrary start; never goes back. Timers use it."""
        ...

    def boottime(self) -> float:
        """Seconds from another arbitrary start, read at this moment, including the time in which the process or its
        machine was suspended. Leases are compared with it."""
        ...


class SystemClock:
    """The machine's clocks; `monotonic` is that of the loop in which it is first asked for, so it agrees with
    `call_at`. For one loop: to ask which loop runs costs more than its time."""

    def __init__(self) -> None:
        self._loop_time: Callable[[], float] | None = None

    def now_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        if self._loop_time is None:
            self._loop_time = asyncio.get_running_loop().time
        return self._loop_time()

    def boottime(self) -> float:
        return boottime_seconds()


def boottime_seconds() -> float:
    """See Clock.boottime. May be called in any thread.

    Linux stops CLOCK_MONOTONIC while the machine is suspended, and a loop's time is that of the start of its current
    iteration; other systems have one monotonic clock.
    """
    return _boottime()


def _boottime_clock() -> Callable[[], float]:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return time.monotonic
    return partial(time.clock_gettime, time.CLOCK_BOOTTIME)


_boottime = _boottime_clock()


class Jitter(Protocol):
    """Returns a factor, uniform in [2/3, 4/3), that spreads retries (Vitess: +-33 %)."""

    def __call__(self) -> float: ...


def system_jitter() -> float:
    """The production jitter."""
    return random.uniform(2 / 3, 4 / 3)


class DatabaseTime:
    """The database's clock, as estimated in this process.

    Leases end by the database's clock, and the clock of this machine may differ from it by any amount. So no database
    time is compared with this machine's wall clock: the time in an answer is stored together with the monotonic time at
    which the answer came. An answer is late by the network latency, so a lease is taken to last a little longer than it
    does, never shorter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._observed: tuple[int, float] | None = None

    def observe_time(self, now_ns: int) -> None:
        """An answer with the database's time has just come."""
        self._observed = now_ns, self._clock.monotonic()

    def now_ns(self) -> int | None:
        """The database's time now, or a little less; None as long as it is not known."""
        if self._observed is None:
            return None
        now_ns, at = self._observed
        return now_ns + int((self._clock.monotonic() - at) * NS_PER_SECOND)

    def is_past(self, time_ns: int) -> bool:
        """Whether the database's clock has reached this time; False as long as its clock is not known."""
        now_ns = self.now_ns()
        return now_ns is not None and time_ns <= now_ns
