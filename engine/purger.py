"""Purger: deletes acked messages older than purge_after, with or without receivers, in small batches.

One pass deletes batch after batch until one is not full, at most for one poll_interval; between batches the database's
other work has its turn. Passes repeat every poll_interval; the first comes after a random part of it, so that many
queues do not purge in the same moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from engine.clock import NS_PER_SECOND, Clock, Jitter
from engine.errors import BackendError
from engine.metrics import QueueMetrics
from engine.model import QueueSpec
from engine.service import Service
from engine.store import MessageStore
from engine.work import DatabaseWork

PURGE_BATCH = 500  # Vitess's: short locks, and the cost per row no longer falls beyond it
_PERIOD_SECONDS_MIN = 1.0  # a poll_interval of milliseconds is meant for the safety scan, not for deleting


@dataclass(frozen=True, slots=True)
class Purged:
    """One pass: messages deleted, batches it took, and whether it stopped for lack of time."""

    messages: int
    batches: int
    more: bool


class Purger(Service):
    """See the module."""

    def __init__(
        self,
        queue: QueueSpec,
        store: MessageStore,
        work: DatabaseWork,
        clock: Clock,
        jitter: Jitter,
        metrics: QueueMetrics,
        logger: logging.Logger,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(f"purger of {queue.name}", logger)
        self.queue = queue
        self._store, self._work, self._clock, self._jitter, self._metrics = store, work, clock, jitter, metrics
        self._leads = leads
        self._failing = False

    @property
    def _period(self) -> float:
        return max(self.queue.options.poll_interval_ns / NS_PER_SECOND, _PERIOD_SECONDS_MIN)

    async def run_once(self) -> Purged:
        """Delete what is old enough. Raises BackendError; what was deleted before stays deleted."""
        deadline = self._clock.monotonic() + self._period
        messages = batches = 0
        while not self._stopping.is_set():
            count = await self._work.run(self._store.purge(self.queue, PURGE_BATCH))
            messages, batches = messages + count, batches + 1
            self._metrics.purged += count
            if count < PURGE_BATCH:
                return Purged(messages, batches, more=False)
            if self._clock.monotonic() >= deadline:
                break
            await asyncio.sleep(0)
        return Purged(messages, batches, more=True)

    async def _run(self) -> None:
        # The jitter is 2/3 to 4/3; stretched to 0 to 1 of the period.
        await self._pause(self._period * (self._jitter() - 2 / 3) * 1.5)
        while not self._stopping.is_set():
            if self._leads():
                await self._pass()
            await self._pause(self._period)

    async def _pass(self) -> None:
        try:
            purged = await self.run_once()
        except BackendError as error:
            self._metrics.backend_errors += 1
            if not self._failing:  # once per outage
                self._logger.warning("purge of %s failed: %s", self.queue.name, error.message)
            self._failing = True
            return
        self._failing = False
        if purged.messages:
            self._logger.debug("purged %d messages of %s", purged.messages, self.queue.name)
