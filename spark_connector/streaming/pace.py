"""How often a streaming query looks at its queue: at once after messages, twice a second where none come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

PAUSE_MAX = 0.5
"""Seconds between looks at an idle queue, and so the longest that a message waits for one."""

_PAUSE = 0.1  # after the first look that finds nothing


class Pace:
    """The looks of one query. The pauses between them reach from one call of Spark into the next one."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._pause, self._next = _PAUSE, -math.inf

    def looks(self, patience: float) -> Iterator[None]:
        """A turn for each look that is due within so many seconds; ends when they are over. One at least if it is 0."""
        deadline = self._clock() + patience
        if patience <= 0:
            yield
            return
        while True:
            if self._next > deadline:
                self._sleep(max(0.0, deadline - self._clock()))
                return
            if (rest := self._next - self._clock()) > 0:
                self._sleep(rest)
            yield
            self.nothing()

    def nothing(self) -> None:
        """A look found nothing."""
        self._next = self._clock() + self._pause
        self._pause = min(2 * self._pause, PAUSE_MAX)

    def found(self) -> None:
        """There was something: the next look is at once."""
        self._pause, self._next = _PAUSE, -math.inf
