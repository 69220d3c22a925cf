"""What strangers do, in the log: the first time at once, and then one line a minute with how often it was.

Whoever can reach the console can be refused a thousand times a second, and must not push all else out of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

LINE_SECONDS = 60.0


class StrangerLog:
    """See the module. One for each kind of event."""

    def __init__(self, message: str, clock: Callable[[], float]) -> None:
        self._message, self._clock = message, clock
        self._told: float | None = None
        self._untold = 0
        self._last: dict[str, object] = {}

    def note(self, **about: object) -> None:
        """It has happened once more."""
        self._untold += 1
        self._last = about
        self.tell()

    def tell(self) -> None:
        """Say what has not been said, if it is time to."""
        now = self._clock()
        if not self._untold or (self._told is not None and now - self._told < LINE_SECONDS):
            return
        count, self._untold, self._told = self._untold, 0, now
        log.warning(self._message, extra=self._last if count == 1 else {**self._last, "times": count})
