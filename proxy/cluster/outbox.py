"""CommitBatcher: reports of commits, sent at once after a pause, and together while many arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.model.commit_report import CommitReport
from proxy.cluster.messages import MessageKind, merged, report_body

BATCH_SECONDS = 0.002  # at most 500 messages a second from each process, whatever it commits


class CommitBatcher:
    """`send` is called with a kind and its body. A message costs the same for one commit or fifty."""

    def __init__(self, send: Callable[[MessageKind, object], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: list[CommitReport] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Nothing waits, and the next report would be sent at once."""
        return self._timer is None

    def add(self, report: CommitReport) -> None:
        """Send it, now or together with what follows in a moment."""
        self._reports.append(report)
        if self._timer is None:
            self._flush()

    def close(self) -> None:
        """Send what waits: others can have the released messages at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._flush()
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._timer = None
        if self._reports:
            reports, self._reports = self._reports, []
            try:
                self._send(MessageKind.COMMITS, report_body(merged(reports)))
            except ValueError:
                self._send(MessageKind.LOST, None)  # thousands of queues at once: let them poll all
            self._timer = self._loop.call_later(BATCH_SECONDS, self._flush)
