"""Schedules: the interface to the schedules of a server's databases for the rest of the proxy, and the service that
sends their messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from engine.clock import Clock
from engine.database_work import DatabaseWork
from engine.model.commit_report import CommitReport
from engine.model.errors import BackendError, is_transient
from engine.model.queue import QueueCatalog, QueueName
from engine.model.schedules import SCHEDULES_TABLE, Schedule, ScheduleName, Unreadable, schedules_table
from engine.schedules.scheduler import Scheduler, SchedulerContext
from engine.service import Service
from engine.store.schedule_store import ScheduleStore


@dataclass(frozen=True, slots=True)
class SchedulesContext:
    """What schedules need from their engine. `sends`: whether this process sends at all; another process of the same
    proxy may do so. `refresh`: reads the catalog again, here and at the other processes."""

    scheduler: SchedulerContext
    sends: bool
    refresh: Callable[[], Awaitable[None]]

    @property
    def store(self) -> ScheduleStore:
        return self.scheduler.store

    @property
    def work(self) -> DatabaseWork:
        return self.scheduler.work

    @property
    def clock(self) -> Clock:
        return self.scheduler.clock


class Schedules:
    """See the module."""

    def __init__(self, context: SchedulesContext) -> None:
        self._context = context
        self._scheduler = Scheduler(context.scheduler) if context.sends else None

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
        return self._context.scheduler.catalog()

    async def has_table(self, database: str) -> bool:
        """Whether a database has its table of schedules. Raises BackendError."""
        return await self._context.work.run(self._context.store.exists(database))

    async def make_table(self, database: str) -> None:
        """Make a database's table of schedules. Raises BackendError."""
        await self._context.work.run(self._context.store.make(database))
        await self._context.refresh()

    async def listed(self) -> list[Schedule | Unreadable]:
        """The schedules of all databases. A table that cannot be read has one row with the reason. Raises BackendError:
        the database is unreachable."""
        context = self._context
        schedules: list[Schedule | Unreadable] = []
        for database in sorted(self._catalog.schedules):
            try:
                schedules += await context.work.run(context.store.listed(database))
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
            count = await context.work.run(context.store.forget(queue))
        except BackendError as error:
            context.scheduler.logger.warning(
                "the schedules of %s, which was dropped, are still there: %s", queue, error
            )
            return
        if count:
            context.scheduler.logger.info("%s was dropped, and %d schedules with it", queue, count)
            context.scheduler.sent(CommitReport(touched=frozenset((schedules_table(queue.database),))))
