"""CatalogWatcher: reads the catalog periodically, for tables changed around the proxy, and at once when a manager
requests it.

Of several proxies that are connected to each other the leader reads it in each period, and tells the others when
something has changed. The others read it ever more seldom, at last in every sixteenth period, in case they are not
told.

The schedules are read with it, for rows changed around the proxy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from engine.background.pace import IdlePace
from engine.delivery.context import Changes
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueCatalog
from engine.service import Service

PAUSE_SECONDS = 1.0
"""However often managers request it, the catalog is not read more than once a second."""

_PERIOD_SECONDS_MIN, _PERIOD_SECONDS_MAX = 5.0, 30.0


class CatalogOwner(Protocol):
    """The engine, as the watcher calls it."""

    async def refresh_catalog(self) -> None:
        """Read the catalog. Raises BackendError."""
        ...

    @property
    def catalog(self) -> QueueCatalog:
        """As last read."""
        ...

    @property
    def leads(self) -> bool:
        """Whether this engine is the leader."""
        ...


async def _no_neighbours() -> None:
    pass


class CatalogWatcher(Service):
    """See the module. `on_read` is called when the catalog was read, `notify` has the neighbours read it."""

    def __init__(
        self,
        engine: CatalogOwner,
        logger: logging.Logger,
        on_read: Callable[[], None] = lambda: None,
        notify: Callable[[], Awaitable[None]] = _no_neighbours,
    ) -> None:
        super().__init__("catalog watcher", logger)
        self._engine, self._on_read, self._notify = engine, on_read, notify
        self._requested = asyncio.Event()
        self._failing = False
        self._idle_pace = IdlePace(Changes())

    @property
    def _period(self) -> float:
        """Seconds between periodic reads: the shortest poll_interval, within bounds."""
        intervals = (queue.options.poll_interval_ns / NS_PER_SECOND for queue in self._engine.catalog)
        return min(max(min(intervals, default=_PERIOD_SECONDS_MAX), _PERIOD_SECONDS_MIN), _PERIOD_SECONDS_MAX)

    def request_refresh(self) -> None:
        """A statement failed as if the table had changed."""
        self._requested.set()

    def _wake(self) -> None:
        self._requested.set()

    async def run_once(self) -> bool:
        """One read; whether it succeeded."""
        try:
            await self._engine.refresh_catalog()
        except BackendError as error:
            if not self._failing and not isinstance(error, BackendUnavailable):  # once per outage
                self._logger.warning("reading the catalog failed: %s", error)
            self._failing = True
            return False
        self._failing = False
        self._on_read()
        return True

    async def _run(self) -> None:
        while not self._stopping.is_set():
            if await self._requested_within(self._period):
                if not self._stopping.is_set():
                    await self.run_once()
                    await self._pause(PAUSE_SECONDS)
            elif self._engine.leads or self._idle_pace.due():
                await self._periodic_read()

    async def _requested_within(self, seconds: float) -> bool:
        if not await self._is_set_within(self._requested, seconds):
            return False
        self._requested.clear()
        return True

    async def _periodic_read(self) -> None:
        before = self._engine.catalog.version
        succeeded = await self.run_once()
        changed = self._engine.catalog.version != before
        self._idle_pace.passed(useful=changed or not succeeded)
        if changed and self._engine.leads:
            await self._notify()
