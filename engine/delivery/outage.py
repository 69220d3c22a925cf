"""Outage: whether the database fails one queue's work, since when, and when to try again. No I/O.

Logged once when it begins and once when it ends, however many tries there are in between; a database that cannot be
reached is logged for all queues together (`engine.database_work`).
"""

from __future__ import annotations

import logging

from engine.clock import Clock
from engine.model.backoff import DoublingDelay
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import QueueName

_FIRST_PAUSE, _MAX_PAUSE = (
    0.1,
    5.0,
)  # seconds: a lost connection costs little time, a dead server is not tried too often


class Outage:
    """See the module."""

    def __init__(self, queue: QueueName, clock: Clock, logger: logging.Logger) -> None:
        self._queue, self._clock, self._logger = queue, clock, logger
        self._pauses = DoublingDelay(_FIRST_PAUSE, _MAX_PAUSE)
        self._since = 0.0
        self._reported = False
        self.error: BackendError | None = None
        self.retry_at = 0.0

    @property
    def pausing(self) -> bool:
        """It is too early to try again."""
        return self.error is not None and self._clock.monotonic() < self.retry_at

    def failed(self, error: BackendError) -> None:
        """The database refused a call or could not be reached: pause."""
        now = self._clock.monotonic()
        if self.error is None:
            self._since = now
        if not self._reported and not isinstance(error, BackendUnavailable):
            self._reported = True
            self._logger.warning("%s: database trouble, trying again: %s", self._queue, error)
        self.error = error
        self.retry_at = now + self._pauses.take()

    def end_pause(self) -> None:
        """The database has just completed other work: try at once."""
        self.retry_at = 0.0

    def worked(self, *, refuses: bool) -> None:
        """The database completed a call. `refuses`: but it still leases nothing, so the outage goes on, with short
        pauses, for others may be without a fault."""
        if refuses:
            self._pauses.reset()
        elif self.error is not None:
            if self._reported:
                seconds = self._clock.monotonic() - self._since
                self._logger.info("%s: database works again after %.1f s", self._queue, seconds)
            self.error, self._reported = None, False
            self.retry_at = 0.0
            self._pauses.reset()
