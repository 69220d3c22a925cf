"""What processes have used, as the kernel counts it: CPU seconds and resident memory, of a process and its children.

CPU is read from the kernel's clock of the process, which counts in nanoseconds and includes threads that have ended;
/proc/PID/stat counts the same in steps of 10 ms. Neither depends on what else the machine does, unlike the wall clock.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path


def family(pid: int) -> Iterator[int]:
    """The process and all its descendants that live now."""
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except FileNotFoundError:
            continue  # the thread has just ended
        for child in children:
            yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """CPU time that a process and its descendants have used so far; of those that have ended, where their parent has
    waited for them, in steps of 10 ms."""
    # The id of a process's CPU clock, as clock_getcpuclockid(3) makes it; Python wraps that call for threads only.
    used = 0.0
    for member in family(pid):
        with contextlib.suppress(OSError):  # it has just ended
            used += time.clock_gettime((~member << 3) | 2)
            used += _waited_for_seconds(member)
    return used


def _waited_for_seconds(pid: int) -> float:
    """CPU time of the children that the process has waited for: cutime and cstime of proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants. Pages of programs that several share count in each."""
    return sum(_status_bytes(member, "VmRSS") for member in family(pid))


def peak_bytes(pid: int) -> int:
    """The largest resident memory of each since `reset_peak`, added up."""
    return sum(_status_bytes(member, "VmHWM") for member in family(pid))


def reset_peak(pid: int) -> None:
    """Begin to note the peak anew (proc(5), clear_refs: 5 sets VmHWM to what is resident now)."""
    for member in family(pid):
        Path(f"/proc/{member}/clear_refs").write_text("5")


def _status_bytes(pid: int, field: str) -> int:
    match = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) * 1024 if match else 0


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing for a while, although its sockets are open."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def settled(pids: Sequence[int], quiet_seconds: float = 0.3, timeout: float = 60.0) -> bool:
    """Wait until these processes use less than 1 % of CPU for that long. False where they never come to rest."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(quiet_seconds)
        if all(cpu_seconds(pid) - used < quiet_seconds / 100 for pid, used in zip(pids, before, strict=True)):
            return True
    return False
