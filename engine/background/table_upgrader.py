"""TableUpgrader: adds the column that queues of an earlier version lack, without blocking other sessions.

Of the proxies of one database the leader does it. It is the one that has run longest, so in a rolling restart no proxy
of the earlier version is left by then. Each table is one statement that copies nothing and gives up within a second if
another session uses the table for longer; then it is tried again. Adopted tables are left to their owners.
"""

from __future__ import annotations

import asyncio

from engine.context import EngineContext
from engine.model.errors import LOCKED, BackendError, BackendUnavailable
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE
from engine.model.queue import QueueName, QueueSpec, lacks_tokens
from engine.service import Service

PERIOD_SECONDS = 60.0
"""How often it is tried again."""


class TableUpgrader(Service):
    """See the module. `first_seconds`: until the first try."""

    def __init__(self, context: EngineContext, first_seconds: float = 0.0) -> None:
        super().__init__("table upgrader", context.logger)
        self._store, self._engine, self._first_seconds = context.store, context.host, first_seconds
        self._requested = asyncio.Event()
        self._reported: set[tuple[QueueName, str]] = set()

    def _wake(self) -> None:
        self._requested.set()

    async def run_once(self) -> int:
        """Try every table that lacks the column; returns how many have got it."""
        count = 0
        for queue in [one for one in self._engine.catalog if lacks_tokens(one)]:
            if not self._stopping.is_set() and self._engine.leads:
                count += await self._upgraded(queue)
        if count:
            try:
                await self._engine.catalog_changed()
            except BackendError as error:
                self._logger.warning("reading the catalog failed: %s", error)
        return count

    async def _upgraded(self, queue: QueueSpec) -> bool:
        try:
            await self._store.add_tokens(queue)
        except BackendError as error:
            self._report(queue, error)
            return False
        self._logger.info("queue %s: its table has the column %s now", queue.name, TOKEN_COLUMN)
        return True

    def _report(self, queue: QueueSpec, error: BackendError) -> None:
        """Log an error once for each cause; a transient one is not logged."""
        if isinstance(error, BackendUnavailable) or error.errno in LOCKED:
            return
        if (queue.name, error.message) not in self._reported:
            self._reported.add((queue.name, error.message))
            self._logger.warning(
                "queue %s: its deliveries have no names of their own; ALTER TABLE %s ADD COLUMN %s %s failed: %s",
                queue.name,
                queue.name.sql,
                TOKEN_COLUMN,
                TOKEN_TYPE,
                error,
            )

    async def _run(self) -> None:
        seconds = self._first_seconds
        while not self._stopping.is_set():
            await self._is_set_within(self._requested, seconds)
            self._requested.clear()
            await self.run_once()
            seconds = PERIOD_SECONDS
