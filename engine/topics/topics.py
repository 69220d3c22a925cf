"""Topics: the topics of one database, their broadcast readers, and what begins and moves a consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from engine.context import EngineContext
from engine.history.history import History
from engine.model.errors import EngineError, QueueNotFound
from engine.model.queue import (
    QueueCatalog,
    QueueName,
    QueueSpec,
    Start,
    StartAt,
    SubscribeRequest,
    SubscriptionStatus,
    TopicSpec,
)
from engine.model.sequence import Sequencing
from engine.model.topics import GroupLag, GroupPosition, SeekResult, TopicExtent
from engine.service import Service
from engine.topics.broadcast import BroadcastReader
from engine.topics.gauges import Gauges, TopicGauges
from engine.topics.retention import Retention


class Topics:
    """See the module. `retention_seconds`: between two passes of the retention."""

    def __init__(self, context: EngineContext, retention_seconds: float) -> None:
        self._context = context
        self._store, self._work, self._clock = context.store, context.work, context.clock
        self._gauges = TopicGauges(context)
        self.retention = Retention(context, retention_seconds)
        self.history = History(context, retention_seconds)
        """The stored history of messages. It is closed last, because everything else adds to it."""
        # By topic, the queues of the groups that may have streams: a commit must not cost more with each that has none.
        self._active_groups: dict[QueueName, dict[QueueName, None]] = {}
        self._readers: dict[QueueName, dict[BroadcastReader, None]] = {}

    def apply(self, catalog: QueueCatalog) -> None:
        """The catalog was read again: readers of dropped topics end."""
        self.history.apply(catalog)
        for name in [name for name in self._readers if name not in catalog.topics]:
            self._end(self._readers.pop(name), QueueNotFound(f"Table '{name}' doesn't exist"))

    def add_group(self, queue: QueueSpec) -> None:
        """A stream of this queue was opened. If it is a group's, the group is notified of its topic's commits."""
        if queue.options.topic is not None:
            topic = QueueName(queue.name.database, queue.options.topic)
            self._active_groups.setdefault(topic, {})[queue.name] = None

    def active_groups(self, topic: QueueName) -> tuple[QueueName, ...]:
        """The queues of a topic's consumer groups that may have streams."""
        return tuple(self._active_groups.get(topic, ()))

    def remove_group(self, topic: QueueName, group: QueueName) -> None:
        """A group has no stream any more."""
        active_groups = self._active_groups.get(topic, {})
        active_groups.pop(group, None)
        if not active_groups:
            self._active_groups.pop(topic, None)

    def touched(self, topic: QueueName) -> None:
        """A commit may have added messages to it."""
        for reader in self._readers.get(topic, ()):
            reader.touched()

    def on_remote_commits_lost(self) -> None:
        """Any commit may have been missed."""
        for topic in self._readers:
            self.touched(topic)

    async def subscribe(self, request: SubscribeRequest) -> BroadcastReader:
        """Open a reader of every message.

        Raises:
            QueueNotFound, UnknownColumn, InvalidOption, BackendError.
        """
        topic = self._topic(request.queue)
        start = request.start or StartAt(Start.LATEST)
        position = await self._work.run(self._store.topics.position_at(topic, start))
        reader = BroadcastReader(topic, request, position, self._context, self._on_closed)
        reader.since_ns = self._clock.now_ns()
        self._readers.setdefault(topic.name, {})[reader] = None
        return reader

    def _topic(self, name: QueueName) -> TopicSpec:
        topic = self._context.host.catalog.topics.get(name)
        if topic is None:
            raise QueueNotFound(f"Table '{name}' doesn't exist or is not a topic")
        return topic

    def _topic_of(self, group: QueueSpec) -> TopicSpec:
        return self._topic(QueueName(group.name.database, group.options.topic or ""))

    def _on_closed(self, reader: BroadcastReader) -> None:
        readers = self._readers.get(reader.topic.name, {})
        readers.pop(reader, None)
        if not readers:
            self._readers.pop(reader.topic.name, None)

    def streams(self) -> list[SubscriptionStatus]:
        """The open broadcast readers."""
        return [reader.status() for readers in self._readers.values() for reader in readers]

    # --- consumer groups

    async def check_start(self, topic: QueueName, start: StartAt) -> None:
        """Raises InvalidOption where no group can begin there, QueueNotFound, BackendError."""
        await self._work.run(self._store.topics.position_at(self._topic(topic), start))

    async def begin(self, group: QueueName, topic: QueueName, start: StartAt) -> None:
        """Have a new group begin there. Raises InvalidOption, QueueNotFound, BackendError."""
        await self._work.run(self._store.topics.begin(group, self._topic(topic), start))

    async def seek(self, group: QueueSpec, start: StartAt) -> SeekResult:
        """Delete a group's outstanding messages, and let it read on from there. Raises InvalidOption, BackendError."""
        return await self._work.run(self._store.topics.seek(group, self._topic_of(group), start))

    async def position(self, group: QueueSpec) -> GroupPosition:
        """How far a group has read. Raises QueueNotFound where its topic was dropped, BackendError."""
        return await self._work.run(self._store.topics.position(group, self._topic_of(group)))

    async def extent(self, topic: QueueName) -> TopicExtent:
        """What a topic has. Raises QueueNotFound, BackendError."""
        spec = self._topic(topic)
        await self._work.run(self._store.topics.number(spec))
        return await self._work.run(self._store.topics.extent(spec))

    # --- numbers of messages

    async def sequencing(self) -> Sequencing:
        """Whether topics can have the option `sequence` in this database, or have to. Raises BackendError."""
        return await self._work.run(self._store.topics.sequencing())

    async def number(self, topic: QueueName) -> None:
        """Assign numbers to all messages of a topic that are committed now, where it has numbers. Raises QueueNotFound,
        BackendError."""
        spec = self._topic(topic)
        if spec.sequenced:
            await self._work.run(self._store.topics.number_all(spec))

    async def gauges(self) -> Gauges:
        """The values of all topics and groups for a monitor."""
        return await self._gauges.read(self._context.host.catalog)

    async def lag(self, group: QueueSpec) -> GroupLag:
        """How far a group is behind its topic. Raises QueueNotFound where that was dropped, BackendError."""
        topic = self._topic_of(group)
        await self._work.run(self._store.topics.number(topic))
        return await self._work.run(self._store.topics.lag(group, topic))

    async def open(self) -> None:
        """Start retention and history."""
        await self.retention.open()
        await self.history.open()

    @property
    def services(self) -> tuple[Service, ...]:
        """What runs."""
        return (self.retention, *self.history.services)

    async def close(self, error: EngineError, *, grace_seconds: float = 5.0) -> None:
        """End all readers, and deleting."""
        await self.retention.close(grace_seconds=grace_seconds)
        readers, self._readers = self._readers, {}
        for each in readers.values():
            self._end(each, error)
        await asyncio.sleep(0)

    def _end(self, readers: Iterable[BroadcastReader], error: EngineError) -> None:
        for reader in list(readers):
            reader.end(error)
