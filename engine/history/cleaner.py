"""HistoryCleaner: deletes stored events that are older than their topic's trace_keep, in small batches.

The table itself lists the queues that have events. Events of a dropped consumer group or topic are deleted almost
immediately, and so are those of a topic whose history is no longer stored. Nothing is deleted while a topic cannot be
read.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.background.pace import DeletingPace
from engine.context import EngineContext
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueCatalog, QueueName
from engine.service import Service

GONE_NS = 60 * NS_PER_SECOND
"""How long the history of what was dropped stays: another engine may learn of a new group a moment earlier."""

_RECHECK_SECONDS = 3600.0  # a topic may have had the option for a while before this engine read the catalog


def retention_ns(queue: QueueName, catalog: QueueCatalog) -> int | None:
    """How long the history of a queue or topic is stored; None: not known now, so that nothing may be deleted."""
    spec, topic = catalog.get(queue), queue
    if spec is not None:
        if spec.options.topic is None:
            return GONE_NS  # a topic had this name before
        topic = QueueName(queue.database, spec.options.topic)
    if (topic_spec := catalog.topics.get(topic)) is not None:
        return topic_spec.options.trace_keep_ns or 0
    if topic in catalog.rejected or queue in catalog.rejected or spec is not None:
        return None
    return GONE_NS


class HistoryCleaner(Service):
    """See the module."""

    def __init__(self, context: EngineContext, period_seconds: float) -> None:
        super().__init__("cleaner of histories", context.logger)
        self._context, self._period = context, period_seconds
        self._empty: dict[str, float] = {}  # when a database had no events, while none are written there
        self._pace = DeletingPace()
        self._problems: dict[str, str] = {}

    def problem(self, database: str) -> str:
        """Why the history in a database is not cleaned; empty where it is, or where another engine does that."""
        return self._problems.get(database, "")

    async def run_once(self) -> int:
        """Delete old events. Returns how many were deleted."""
        topics, now = self._context.host.catalog.topics.values(), self._context.clock.monotonic()
        self._empty = {database: at for database, at in self._empty.items() if now - at < _RECHECK_SECONDS}
        recorded = {topic.name.database for topic in topics if topic.options.trace_keep_ns is not None}
        deleted = 0
        for database in {topic.name.database for topic in topics} - self._empty.keys():
            try:
                queues = await self._context.work.run(self._context.store.traces.queues(database))
                if not queues and database not in recorded:
                    self._empty[database] = now
                for queue in queues:
                    deleted += await self._clean(queue)
            except BackendError as error:
                self._failed(database, error, recorded=database in recorded)
            else:
                self._problems.pop(database, None)
        return deleted

    def expect(self, databases: Iterable[str]) -> None:
        """These have events, or will have."""
        for database in databases:
            self._empty.pop(database, None)

    async def _clean(self, queue: QueueName) -> int:
        context, deleted = self._context, 0
        while (older_ns := retention_ns(queue, self._context.host.catalog)) is not None and not self._stopping.is_set():
            began = context.clock.monotonic()
            step = await context.work.run(context.store.traces.clean(queue, older_ns, self._pace.batch))
            deleted += step.deleted
            if not step.more:
                break
            await self._pause(self._pace.rest(context.clock.monotonic() - began))
        return deleted

    def _failed(self, database: str, error: BackendError, *, recorded: bool) -> None:
        if isinstance(error, BackendUnavailable):
            return
        if not recorded:  # a server may deny what is not there
            self._empty[database] = self._context.clock.monotonic()
            return
        if database not in self._problems:  # once, until it is cleaned again
            self._context.logger.warning("the history in database '%s' is not cleaned: %s", database, error)
        self._problems[database] = f"the history is not cleaned: {error.number_only}"

    async def _run(self) -> None:
        while not self._stopping.is_set():
            await self._pause(self._period)
            if self._context.host.leads and not self._stopping.is_set():
                await self.run_once()
