"""The progress of a job: phase, counts and rate, on one changing line of a terminal, or line by line in a log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

TTY_SECONDS, LOG_SECONDS = 0.5, 10.0
"""How often a running phase is reported: a terminal's line changes, a log gets another line."""


class Phase:
    """One phase of a job. `count`: processed messages, set by the job at the latest at its end."""

    def __init__(self, name: str, total: int | None, unit: str) -> None:
        self.name, self.total, self.unit = name, total, unit
        self.count = 0
        self.live: Callable[[], int] | None = None  # messages processed so far, while the phase runs
        self.tasks: Callable[[], tuple[int, int]] | None = None  # Spark's tasks: done, and of how many

    def line(self, seconds: float, ended: bool) -> str:
        """The text after so many seconds."""
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
    """Prints phases and remarks; `to=None`: prints nothing."""

    def __init__(self, to: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = to, clock
        self._changing = to is not None and to.isatty()
        self._lock = threading.Lock()

    def write_line(self, text: str) -> None:
        """Prints a remark on its own line."""
        self._write(text, "\n")

    @contextmanager
    def phase(self, name: str, total: int | None = None, unit: str = "messages") -> Iterator[Phase]:
        """While the block runs, the phase is reported periodically; after success with its counts."""
        phase, ended, started = Phase(name, total, unit), threading.Event(), self._clock()
        reporter = threading.Thread(target=self._report_progress, args=(phase, ended, started), daemon=True)
        reporter.start()
        try:
            yield phase
        finally:
            ended.set()
            reporter.join()
        self.write_line(phase.line(self._clock() - started, True))

    def _report_progress(self, phase: Phase, ended: threading.Event, started: float) -> None:
        while not ended.wait(TTY_SECONDS if self._changing else LOG_SECONDS):
            self._write(phase.line(self._clock() - started, False), "" if self._changing else "\n")

    def _write(self, text: str, end: str) -> None:
        if self._stream is None:
            return
        with self._lock:
            self._stream.write(f"\r\x1b[K{text}{end}" if self._changing else f"{text}{end}")
            self._stream.flush()


SILENT = Console(None)
