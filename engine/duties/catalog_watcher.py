"""CatalogWatcher: reads the catalog periodically, for tables changed around the proxy, and at once when a manager is in
doubt.

The schedules are looked at with it, for rows changed around the proxy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from engine.model.errors import BackendError, BackendUnavailable
from engine.service import Service

PAUSE_SECONDS = 1.0
"""However often managers are in doubt, the catalog is not read more than once a second."""


class Watched(Protocol):
    """Whose catalog it is."""

    async def refresh_catalog(self) -> None:
        """Read the catalog. Raises BackendError."""
        ...

    @property
    def refresh_period(self) -> float:
        """Seconds between periodic reads."""
        ...


class CatalogWatcher(Service):
    """See the module. `read` is called when the catalog was read."""

    def __init__(self, engine: Watched, logger: logging.Logger, read: Callable[[], None] = lambda: None) -> None:
        super().__init__("catalog watcher", logger)
        self._engine, self._read = engine, read
        self._doubted = asyncio.Event()
        self._failing = False

    def doubt(self) -> None:
        """A statement failed as if the table had changed."""
        self._doubted.set()

    def _wake(self) -> None:
        self._doubted.set()

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
        self._read()
        return True

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._doubted.wait(), self._engine.refresh_period)
            except TimeoutError:
                pass
            self._doubted.clear()
            if not self._stopping.is_set():
                await self.run_once()
                await self._pause(PAUSE_SECONDS)
