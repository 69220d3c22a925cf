"""Schedules: the interface to the schedules of a server's databases for the rest of the proxy, and the service that
sends their messages."""

from __future__ import annotations

from engine.context import EngineContext
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, is_transient
from engine.model.queue import QueueCatalog, QueueName
from engine.model.schedules import SCHEDULES_TABLE, Schedule, ScheduleName, Unreadable, schedules_table
from engine.schedules.scheduler import Scheduler
from engine.service import Service


class Schedules:
    """See the module. `sends`: whether this process sends at all; another process of the same proxy may do so."""

    def __init__(self, context: EngineContext, *, sends: bool) -> None:
        self._context, self._store = context, context.store.schedules
        self._scheduler = Scheduler(context) if sends else None

    @property
    def services(self) -> tuple[Service, ...]:
        """The services that run."""
        return () if self._scheduler is None else (self._scheduler,)

    async def open(self) -> None:
        """Begin to send."""
        for service in self.services:
            await service.open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Send no more."""
        for service in self.services:
            await service.close(grace_seconds=grace_seconds)

    def reload(self) -> None:
        """Read all schedules again, because changes may have gone unnoticed."""
        if self._scheduler is not None:
            self._scheduler.reload(self._catalog.schedules)

    def overdue(self) -> dict[str, float]:
        """By database, see Scheduler; nothing where another process sends."""
        return {} if self._scheduler is None else self._scheduler.overdue()

    def touched(self, table: QueueName) -> None:
        """A transaction that may have written to that table is committed."""
        if table.table == SCHEDULES_TABLE and self._scheduler is not None:
            self._scheduler.changed(table.database)

    @property
    def _catalog(self) -> QueueCatalog:
        return self._context.host.catalog

    async def has_table(self, database: str) -> bool:
        """Whether a database has its table of schedules. Raises BackendError."""
        return await self._context.work.run(self._store.exists(database))

    async def make_table(self, database: str) -> None:
        """Make a database's table of schedules. Raises BackendError."""
        await self._context.work.run(self._store.make(database))
        await self._context.host.catalog_changed()

    async def listed(self) -> list[Schedule | Unreadable]:
        """The schedules of all databases. A table that cannot be read has one row with the reason. Raises BackendError:
        the database is unreachable."""
        context = self._context
        schedules: list[Schedule | Unreadable] = []
        for database in sorted(self._catalog.schedules):
            try:
                schedules += await context.work.run(self._store.listed(database))
            except BackendError as error:
                if is_transient(error):
                    raise
                schedules.append(
                    Unreadable(ScheduleName(database, ""), 0, f"{SCHEDULES_TABLE} cannot be read: {error}")
                )
        return schedules

    async def queue_dropped(self, queue: QueueName) -> None:
        """Delete the schedules of a queue or topic that was dropped. If that fails, the reason is logged, and the
        schedules still report their problem."""
        context = self._context
        if queue.database not in self._catalog.schedules:
            return
        try:
            count = await context.work.run(self._store.forget(queue))
        except BackendError as error:
            context.logger.warning("the schedules of %s, which was dropped, are still there: %s", queue, error)
            return
        if count:
            context.logger.info("%s was dropped, and %d schedules with it", queue, count)
            context.host.committed(CommitReport(touched=frozenset((schedules_table(queue.database),))))
