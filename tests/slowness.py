"""How much slower this machine is at the moment, because it has other work: what deadlines of tests are multiplied by.

The kernel's own numbers say it (proc(5), loadavg): how many tasks wanted a processor, in the last minute on average and
right now, for each processor that there is. A machine at rest has 1.
"""

from __future__ import annotations

import os
from pathlib import Path

MOST = 20.0
"""Beyond it a hang is likelier than a load."""

_LOADAVG = Path("/proc/loadavg")


def slowness() -> float:
    """How many times longer than on a machine at rest things may take; at least 1."""
    return of_load(_LOADAVG.read_text() if _LOADAVG.exists() else f"{os.getloadavg()[0]}", os.cpu_count() or 1)


def of_load(loadavg: str, processors: int) -> float:
    """The same of a text as the kernel writes it, such as `4.15 3.11 3.53 3/512 11098`. Pure."""
    first, _, rest = loadavg.partition(" ")
    running = rest.split()[2].partition("/")[0] if len(rest.split()) > 2 else "0"
    return min(max(1.0, float(first) / processors, float(running) / processors), MOST)


def scaled(seconds: float) -> float:
    """A deadline as it is to be at this moment."""
    return seconds * slowness()


class Deadline:
    """So many seconds, and more while the machine is busy: its busiest moment so far counts."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slowest = 1.0

    def passed(self, waited: float) -> bool:
        """Whether it has passed after so many seconds."""
        self._slowest = max(self._slowest, slowness())
        return waited > self._seconds * self._slowest

    @property
    def told(self) -> str:
        """What it came to, for an error."""
        return f"{self._seconds:g} s, {self._slowest:.1f} times as long as the machine is busy"
