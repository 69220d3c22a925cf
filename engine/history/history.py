"""History: what of a database's topics outlives the process, written, cleaned and asked for.

Only topics with the option trace_keep have one. Without such a topic nothing runs here but a look at an empty set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace

from engine.history.cleaner import HistoryCleaner
from engine.history.writer import HistoryContext, HistoryState, HistoryWriter
from engine.model.errors import BackendError
from engine.model.queue import MessageId, QueueCatalog, QueueName
from engine.model.traced import Traced
from engine.service import Service
from engine.traces import Traces

OF_MESSAGE_MAX = 1000
"""Events of one message that are read."""

CLEANING_PERIODS = 12
"""How many periods of retention lie between two passes of cleaning: a minute, where nothing else is said."""


class History:
    """See the module."""

    def __init__(
        self,
        context: HistoryContext,
        traces: Traces,
        leads: Callable[[], bool],
        retention_seconds: float,
    ) -> None:
        self._context, self._traces = context, traces
        self._catalog = QueueCatalog()
        self._kept: dict[QueueName, QueueName] = {}
        self._unread: dict[str, str] = {}  # why what is kept in a database could not be read
        self._writer = HistoryWriter(context)
        period = retention_seconds * CLEANING_PERIODS
        self._cleaner = HistoryCleaner(context, lambda: self._catalog, leads, period)
        self._asking: asyncio.Task[None] | None = None

    @property
    def services(self) -> tuple[Service, ...]:
        """What runs."""
        return (self._writer, self._cleaner)

    def apply(self, catalog: QueueCatalog) -> None:
        """The catalog was read anew."""
        self._catalog = catalog
        self._kept = {name: name for name, topic in catalog.topics.items() if topic.options.trace_keep_ns is not None}
        if self._kept:
            pairs = [(queue.name, QueueName(queue.name.database, queue.options.topic or "")) for queue in catalog]
            self._kept.update({queue: topic for queue, topic in pairs if topic in self._kept})
        self._writer.tune(self._kept)
        self._cleaner.expect(name.database for name in self._kept)
        self._traces.keep(frozenset(self._kept), self._writer.take)
        if self._kept and not self._traces.ids_follow and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        """As long as it is not known, of several messages that were enqueued at once only the first is recorded."""
        try:
            self._traces.ids_follow = await self._context.work.run(self._context.store.traces.ids_follow())
        except BackendError:
            pass  # asked again when the catalog has changed

    def states(self) -> list[tuple[QueueName, HistoryState]]:
        """How the histories of topics that have one fare here."""
        return [(topic, self._state(topic)) for topic in set(self._kept.values())]

    def _state(self, topic: QueueName) -> HistoryState:
        state, database = self._writer.state(topic), topic.database
        return replace(state, problem=state.problem or self._unread.get(database) or self._cleaner.problem(database))

    async def of(self, queue: QueueName, id_: MessageId) -> list[Traced]:
        """What was kept of a message, of the last things that happened to it. Nothing where that cannot be read."""
        if queue not in self._kept or not isinstance(id_, int):
            return []
        try:
            found = await self._context.work.run(self._context.store.traces.of(queue, id_, OF_MESSAGE_MAX))
        except BackendError as error:
            self._unread[queue.database] = f"the history cannot be read: {error.message}"
            return []
        self._unread.pop(queue.database, None)
        return found

    async def newest(self, count: int, queues: Collection[QueueName]) -> list[Traced]:
        """What happened last to messages of these queues and topics, as far as it was kept; the last thing first."""
        found: list[Traced] = []
        for queue in sorted(name for name in queues if name in self._kept):
            since_ns = found[-1].at_ns if len(found) == count else 0
            try:
                found += await self._context.work.run(self._context.store.traces.newest(queue, since_ns, count))
            except BackendError as error:
                self._unread[queue.database] = f"the history cannot be read: {error.message}"
                continue
            self._unread.pop(queue.database, None)
            found = sorted(found, key=lambda traced: traced.at_ns, reverse=True)[:count]
        return found

    async def open(self) -> None:
        """Begin to write and to clean. Whether ids follow one another is asked first: from the first client on, every
        message of one INSERT is recorded."""
        if not self._traces.ids_follow:
            await self._ask()
        for service in self.services:
            await service.open()

    async def close(self, *, grace_seconds: float = 5.0) -> None:
        """Write what waits, and end."""
        if self._asking is not None:
            self._asking.cancel()
        for service in reversed(self.services):
            await service.close(grace_seconds=max(grace_seconds, 1.0))
