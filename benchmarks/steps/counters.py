"""What a stretch of time has cost: CPU of the proxy, of its threads and of the database; statements and round trips.

All are counted by the kernel and by the database itself, so the proxy runs as it always does.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.places import Place
from benchmarks.processes import cpu_seconds
from benchmarks.steps import sockets

PROXY_CPU, DATABASE_CPU = "proxy CPU us/message", "database CPU us/message"
STATEMENTS, ROUND_TRIPS = "statements/message", "round trips/message"
THREAD_CPU, WAITS = "CPU us/message", "waits/message"
MAIN_THREAD, ALL_THREADS = "main thread (event loop)", "all threads"


@dataclass(frozen=True, slots=True)
class Thread:
    """What a thread has used so far. A wait is a time that it went to sleep by itself (a voluntary context switch)."""

    cpu: float
    waits: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What had been used at a moment. None: there is no such thing here, or nobody who counts it."""

    at: float
    proxy_cpu: float
    database_cpu: float | None = None
    statements: int | None = None
    writes: sockets.Writes | None = None
    threads: Mapping[int, Thread] = field(default_factory=dict)


class Meter:
    """Reads the counters of a place. Its own statement is not counted."""

    def __init__(self, place: Place) -> None:
        assert place.gate.process is not None
        self.proxy_pid = place.gate.process.pid
        self._place = place
        self._cursor: Any = None if place.server is None else place.server.connect().cursor()

    @property
    def database_pid(self) -> int | None:
        """The database's process, where it is one of its own."""
        server = self._place.server
        return None if server is None else int((server.directory / "pid").read_text())

    def begin(self) -> Counters:
        """Asks the database first, so that the answer costs nothing of what is measured."""
        statements = self._statements()
        return self._read(statements)

    def end(self) -> Counters:
        """As `begin`, the other way round."""
        read = self._read(None)
        asked = self._statements()
        statements = None if asked is None else asked - 1  # the question itself
        return Counters(read.at, read.proxy_cpu, read.database_cpu, statements, read.writes, read.threads)

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.connection.close()

    def _read(self, statements: int | None) -> Counters:
        pid, server = self.proxy_pid, self._place.server
        used = None if self.database_pid is None else cpu_seconds(self.database_pid)
        written = None
        if server is not None:
            with contextlib.suppress(OSError):  # a kernel without sock_diag: the column is left out
                written = sockets.writes(pid, server.port)
        return Counters(time.monotonic(), cpu_seconds(pid), used, statements, written, dict(_threads(pid)))

    def _statements(self) -> int | None:
        if self._cursor is None:
            return None
        self._cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        ((_, count),) = self._cursor.fetchall()
        return int(count)


def _threads(pid: int) -> Iterator[tuple[int, Thread]]:
    """Every thread by its number; a process's first one has the process's."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            nanoseconds = (task / "schedstat").read_text().split()[0]
            waits = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
        except FileNotFoundError:
            continue  # it has just ended
        yield int(task.name), Thread(int(nanoseconds) / 1e9, int(waits[1]) if waits else 0)


def costs(before: Counters, after: Counters, messages: int) -> dict[str, float]:
    """What one message has cost, as far as it is counted."""
    found = {PROXY_CPU: (after.proxy_cpu - before.proxy_cpu) / messages * 1e6}
    if before.database_cpu is not None and after.database_cpu is not None:
        found[DATABASE_CPU] = (after.database_cpu - before.database_cpu) / messages * 1e6
    if before.statements is not None and after.statements is not None:
        found[STATEMENTS] = (after.statements - before.statements) / messages
    if before.writes is not None and after.writes is not None:
        found[ROUND_TRIPS] = sockets.added(before.writes, after.writes) / messages
    return found


def by_thread(before: Counters, after: Counters, main: int, messages: int) -> dict[str, dict[str, float]]:
    """What one message has cost each thread: the main one, then all others that did anything, the busiest first."""
    none = Thread(0.0, 0)
    used = {
        number: Thread(
            now.cpu - before.threads.get(number, none).cpu, now.waits - before.threads.get(number, none).waits
        )
        for number, now in after.threads.items()
    }
    others = sorted((thread for number, thread in used.items() if number != main and thread.cpu > 0), key=_cpu)[::-1]
    lines = {MAIN_THREAD: used[main]}
    lines |= {f"thread {place}": thread for place, thread in enumerate(others, 2)}
    lines[ALL_THREADS] = Thread(sum(map(_cpu, lines.values())), sum(thread.waits for thread in lines.values()))
    return {
        name: {THREAD_CPU: thread.cpu / messages * 1e6, WAITS: thread.waits / messages}
        for name, thread in lines.items()
    }


def _cpu(thread: Thread) -> float:
    return thread.cpu
