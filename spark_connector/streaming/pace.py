"""How often a streaming query polls its queue: at once after messages, twice a second if there are none."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

PAUSE_MAX = 0.5
"""Seconds between polls of an idle queue, and so the maximum wait of a message."""

_PAUSE = 0.1  # after the first empty poll


class Pace:
    """The polls of one query. The pauses between them continue from one call of Spark to the next one."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._pause, self._next = _PAUSE, -math.inf

    def polls(self, patience: float) -> Iterator[None]:
        """Yields for each poll that is due within `patience` seconds, then ends. Yields once if it is 0."""
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
            self.on_empty()

    def on_empty(self) -> None:
        """A poll found no messages."""
        self._next = self._clock() + self._pause
        self._pause = min(2 * self._pause, PAUSE_MAX)

    def on_messages(self) -> None:
        """A poll found messages: the next poll is at once."""
        self._pause, self._next = _PAUSE, -math.inf
