"""TopicPartitions: PartitionStore in SQL, for servers that have partitions.

Dropping one takes two connections at a time: see engine.store.operations.dropping.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.base import StorePool
from engine.model.errors import BackendError, LockWaitTimeout
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.store.base import Divided, Dropped
from engine.store.operations.dividing import divide
from engine.store.operations.dropping import Counting, Dropper, Handover, Mover, Statements, count, find, settle, tell
from engine.store.statements.dialect import Dialect
from engine.store.statements.topic_partitions import TopicPartitionStatements
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements

_NONE_HERE = "partition: the embedded database has no partitions; messages are deleted row by row"


_HELD_NS_MAX = 3600 * NS_PER_SECOND


class BeginMissing(Protocol):
    """Makes the table of positions of a database, and those of groups that have none."""

    async def __call__(self, database: str, *groups: QueueName) -> None: ...


@dataclass(frozen=True, slots=True)
class Held:
    """A partition that is to be kept for a message in it, of the time `kept_ns`: found when messages were to be as old
    as `cutoff_ns`."""

    bound: int
    cutoff_ns: int
    kept_ns: int

    def lasts(self, cutoff_ns: int) -> bool:
        """Whether it is still so. After an hour it is looked at again, for messages may be changed, and deleted."""
        return cutoff_ns <= self.kept_ns and cutoff_ns - self.cutoff_ns < _HELD_NS_MAX


class TopicPartitions:
    """See the module."""

    def __init__(self, pool: StorePool, dialect: Dialect, begin_missing: BeginMissing) -> None:
        self._pool, self._dialect, self._begin_missing = pool, dialect, begin_missing
        self._counting: dict[QueueName, Counting] = {}  # what is to be gone on with
        self._held: dict[QueueName, Held] = {}  # what need not be counted again before its time

    async def divide(self, topic: TopicSpec) -> Divided:
        """See PartitionStore."""
        if not self._dialect.partitions:
            return Divided(whole=False, width=0, problem=_NONE_HERE)
        statements, log = TopicPartitionStatements(self._dialect, topic), TopicStatements(self._dialect, topic)
        retention = RetentionStatements(self._dialect, topic)
        return await self._pool.read(lambda connection: divide(connection, statements, log, retention, topic))

    async def drop_first(self, topic: TopicSpec, groups: Sequence[QueueSpec]) -> Dropped:
        """See PartitionStore."""
        await self._begin_missing(topic.name.database)
        statements = Statements(
            topic,
            tuple(groups),
            PositionStatements(self._dialect, topic.name.database),
            TopicStatements(self._dialect, topic),
            RetentionStatements(self._dialect, topic),
            TopicPartitionStatements(self._dialect, topic),
        )
        try:
            counting = await self._counted(statements)
        except LockWaitTimeout:
            return Dropped(waits=True)
        if counting is None:
            return Dropped()
        if not counting.done:
            self._counting[topic.name] = counting
            return Dropped(more=True)
        return await self._drop(statements, counting)

    async def _counted(self, statements: Statements) -> Counting | None:
        """What is in the first partition, counted further; None where that is to stay."""
        topic = statements.topic.name
        known, held = self._counting.pop(topic, None), self._held.pop(topic, None)
        found = await self._pool.read(lambda connection: find(connection, statements))
        if found is None:
            return None
        if (
            held is not None
            and found.cutoff_ns is not None
            and held.bound == found.bound
            and held.lasts(found.cutoff_ns)
        ):
            self._held[topic] = held
            return None
        if known is None or not known.serves(found, statements.groups):
            await self._begin_missing(topic.database, *(group.name for group in statements.groups))
            known = await self._pool.read(lambda connection: settle(connection, statements, found))
        begun = known
        counting = await self._pool.read(lambda connection: count(connection, statements.partitions, begun))
        if counting.kept is not None and found.cutoff_ns is not None:
            self._held[topic] = Held(found.bound, found.cutoff_ns, counting.kept)
        return counting if counting.kept is None else None

    def deleted(self, topic: QueueName) -> None:
        """Messages of a topic were deleted row by row: what is counted of it does not hold."""
        self._counting.pop(topic, None)

    async def _drop(self, statements: Statements, counting: Counting) -> Dropped:
        handover = Handover()
        mover, dropper = Mover(statements, counting, handover), Dropper(statements, counting, handover)
        dropping = asyncio.ensure_future(self._pool.read(dropper.drop))
        dropping.add_done_callback(lambda _: handover.give_up())  # it may not even have got a connection
        try:
            moved = await self._pool.write(mover.move)
            tell(handover.moved, moved is not None)
        except LockWaitTimeout:
            handover.give_up()
            await dropping
            return Dropped(waits=True)
        except BaseException:  # perhaps the groups are past the partition; then a later pass drops it
            handover.give_up()
            with contextlib.suppress(BackendError):
                await dropping
            raise
        return await dropping
