"""Refused logins in the log: the first at once, then one line a minute with their number.

A client that can reach the console can cause a thousand of them per second. They must not flood the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.background.summary import Summary

log = logging.getLogger(__name__)

REPORT_SECONDS = 60.0


class RefusedLogins:
    """See the module. One for each kind of event."""

    def __init__(self, message: str, clock: Callable[[], float]) -> None:
        self._message, self._clock = message, clock
        self._summary = Summary(REPORT_SECONDS)
        self._last: dict[str, object] = {}

    def note(self, **about: object) -> None:
        """Count one more."""
        self._summary.add(1)
        self._last = about
        self.report()

    def report(self) -> None:
        """Log what is not logged yet, if a minute has passed."""
        if count := self._summary.take(self._clock()):
            log.warning(self._message, extra=self._last if count == 1 else {**self._last, "times": count})
