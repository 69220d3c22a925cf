"""What a job shows while it works: phase, counts and rate, on one line that changes, or line by line in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

TTY_SECONDS, LOG_SECONDS = 0.5, 10.0
"""How often a phase that goes on is reported: a terminal's line changes, a log gets one more."""


class Phase:
    """One phase of a job. `count`: how many messages it has done, reported by the job at its end at the latest."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.count = 0
        self.live: Callable[[], int] | None = None  # messages done so far, while the phase goes on
        self.tasks: Callable[[], tuple[int, int]] | None = None  # Spark's tasks: done, and of how many

    def line(self, seconds: float, ended: bool) -> str:
        """What is to be said after so many seconds."""
        if ended:
            return f"{self.name}: {self._counts(self.count)} in {seconds:.1f} s{_rate(self.count, seconds)}"
        count = self.live() if self.live else self.count
        of = f" of {self.total:,}" if self.total is not None else ""
        counted = f" {count:,}{of} {self.unit}" if count or self.total is not None else ""
        return f"{self.name}:{counted}{self._tasks()}, {seconds:.0f} s{_rate(count, seconds)}"

    def _counts(self, count: int) -> str:
        return f"{count:,} {self.unit}" if self.unit else "done"

    def _tasks(self) -> str:
        done, of = self.tasks() if self.tasks else (0, 0)
        return f" task {done} of {of}" if of else ""


def _rate(count: int, seconds: float) -> str:
    return f" ({count / seconds:,.0f}/s)" if count and seconds >= 0.1 else ""


class Console:
    """Where phases and remarks are printed; `to=None`: nowhere."""

    def __init__(self, to: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._to, self._clock = to, clock
        self._changing = to is not None and to.isatty()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """A remark, on a line of its own."""
        self._write(text, "\n")

    @contextmanager
    def phase(self, name: str, total: int | None = None, unit: str = "messages") -> Iterator[Phase]:
        """While it is open, the phase is reported from time to time; at its good end with its counts."""
        phase, ended, started = Phase(name, total, unit), threading.Event(), self._clock()
        teller = threading.Thread(target=self._tell, args=(phase, ended, started), daemon=True)
        teller.start()
        try:
            yield phase
        finally:
            ended.set()
            teller.join()
        self.say(phase.line(self._clock() - started, True))

    def _tell(self, phase: Phase, ended: threading.Event, started: float) -> None:
        while not ended.wait(TTY_SECONDS if self._changing else LOG_SECONDS):
            self._write(phase.line(self._clock() - started, False), "" if self._changing else "\n")

    def _write(self, text: str, end: str) -> None:
        if self._to is None:
            return
        with self._lock:
            self._to.write(f"\r\x1b[K{text}{end}" if self._changing else f"{text}{end}")
            self._to.flush()


SILENT = Console(None)
