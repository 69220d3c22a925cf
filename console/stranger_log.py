"""What strangers do, in the log: the first time at once, and then one line a minute with how often it was.

Whoever can reach the console can be refused a thousand times a second, and must not push all else out of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.duties.summary import Summary

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0


class StrangerLog:
    """See the module. One for each kind of event."""

    def __init__(self, message: str, clock: Callable[[], float]) -> None:
        self._message, self._clock = message, clock
        self._summary = Summary(LINE_SECONDS)
        self._last: dict[str, object] = {}

    def note(self, **about: object) -> None:
        """It has happened once more."""
        self._summary.add(1)
        self._last = about
        self.tell()

    def tell(self) -> None:
        """Say what has not been said, if it is time to."""
        if count := self._summary.take(self._clock()):
            log.warning(self._message, extra=self._last if count == 1 else {**self._last, "times": count})
