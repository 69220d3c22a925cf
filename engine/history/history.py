"""History: the stored events of a database's topics, written, cleaned and queried.

Only topics with the option trace_keep have one. Without such a topic this only checks an empty set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace

from engine.context import EngineContext
from engine.history.cleaner import HistoryCleaner
from engine.history.writer import HistoryState, HistoryWriter
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.queue import MessageId, QueueCatalog, QueueName
from engine.model.trace_event import TraceEvent
from engine.service import Service

OF_MESSAGE_MAX = 1000
"""Events of one message that are read."""

CLEANING_PERIODS = 12
"""The number of retention periods between two cleaning passes: a minute by default."""


class History:
    """See the module."""

    def __init__(self, context: EngineContext, retention_seconds: float) -> None:
        self._context, self._traces = context, context.traces
        self._recorded: dict[QueueName, QueueName] = {}
        self._unread: dict[str, str] = {}  # why the events of a database could not be read
        self._writer = HistoryWriter(context)
        self._cleaner = HistoryCleaner(context, retention_seconds * CLEANING_PERIODS)
        self._checking: asyncio.Task[None] | None = None

    @property
    def services(self) -> tuple[Service, ...]:
        """What runs."""
        return (self._writer, self._cleaner)

    def apply(self, catalog: QueueCatalog) -> None:
        """The catalog was read again."""
        self._recorded = {
            name: name for name, topic in catalog.topics.items() if topic.options.trace_keep_ns is not None
        }
        if self._recorded:
            pairs = [(queue.name, QueueName(queue.name.database, queue.options.topic or "")) for queue in catalog]
            self._recorded.update({queue: topic for queue, topic in pairs if topic in self._recorded})
        self._writer.tune(self._recorded)
        self._cleaner.expect(name.database for name in self._recorded)
        self._traces.persist(frozenset(self._recorded), self._writer.take)
        if self._recorded and not self._traces.ids_follow and (self._checking is None or self._checking.done()):
            self._checking = asyncio.get_running_loop().create_task(self._check_ids())

    async def _check_ids(self) -> None:
        """Until this is known, only the first of several messages that were enqueued together is recorded."""
        try:
            self._traces.ids_follow = await self._context.work.run(self._context.store.traces.ids_follow())
        except BackendError:
            pass  # queried again when the catalog has changed

    def states(self) -> list[tuple[QueueName, HistoryState]]:
        """The state of each topic's history at this process."""
        return [(topic, self._state(topic)) for topic in set(self._recorded.values())]

    def _state(self, topic: QueueName) -> HistoryState:
        state, database = self._writer.state(topic), topic.database
        return replace(state, problem=state.problem or self._unread.get(database) or self._cleaner.problem(database))

    async def of(self, queue: QueueName, id_: MessageId) -> list[TraceEvent]:
        """The last stored events of a message; an empty list where they cannot be read."""
        if queue not in self._recorded or not isinstance(id_, int):
            return []
        try:
            events = await self._context.work.run(self._context.store.traces.of(queue, id_, OF_MESSAGE_MAX))
        except BackendError as error:
            self._cannot_read(queue.database, error)
            return []
        self._unread.pop(queue.database, None)
        return events

    async def newest(self, count: int, queues: Collection[QueueName]) -> list[TraceEvent]:
        """The last stored events of these queues and topics; the newest first."""
        events: list[TraceEvent] = []
        for queue in sorted(name for name in queues if name in self._recorded):
            since_ns = events[-1].at_ns if len(events) == count else 0
            try:
                events += await self._context.work.run(self._context.store.traces.newest(queue, since_ns, count))
            except BackendError as error:
                self._cannot_read(queue.database, error)
                continue
            self._unread.pop(queue.database, None)
            events = sorted(events, key=lambda traced: traced.at_ns, reverse=True)[:count]
        return events

    async def open(self) -> None:
        """Begin to write and to clean. Whether ids are consecutive is queried first: from the first client on, every
        message of one INSERT is recorded."""
        if self._checking is None:  # else a topic that was there already has begun it
            self._checking = asyncio.get_running_loop().create_task(self._check_ids())
        await self._checking
        for service in self.services:
            await service.open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Write what waits, and end."""
        if self._checking is not None:
            self._checking.cancel()
        for service in reversed(self.services):
            await service.close(grace_seconds=max(grace_seconds, 1.0))

    def _cannot_read(self, database: str, error: BackendError) -> None:
        if database not in self._unread and not isinstance(error, BackendUnavailable):
            self._context.logger.warning("the history in database '%s' cannot be read: %s", database, error)
        self._unread[database] = f"the history cannot be read: {error.number_only}"
