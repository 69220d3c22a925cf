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
from engine.store.base import DivideResult, DropResult
from engine.store.operations.dividing import divide
from engine.store.operations.dropping import (
    Counting,
    Dropper,
    Handover,
    Mover,
    Statements,
    count,
    find,
    resolve,
    settle,
)
from engine.store.statements.dialect import Dialect
from engine.store.statements.topic_partitions import TopicPartitionStatements
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements

_NONE_HERE = "partition: the embedded database has no partitions; messages are deleted row by row"


_RETAINED_NS_MAX = 3600 * NS_PER_SECOND


class BeginMissing(Protocol):
    """Makes the table of positions of a database, and those of groups that have none."""

    async def __call__(self, database: str, *groups: QueueName) -> None: ...


@dataclass(frozen=True, slots=True)
class RetainedPartition:
    """A partition that must be retained for a message in it, of the time `retained_ns`; as of a check with this
    `cutoff_ns`."""

    bound: int
    cutoff_ns: int
    retained_ns: int

    def is_current(self, cutoff_ns: int) -> bool:
        """Whether it is still true. It expires after an hour, for messages may be changed and deleted."""
        return cutoff_ns <= self.retained_ns and cutoff_ns - self.cutoff_ns < _RETAINED_NS_MAX


class TopicPartitions:
    """See the module."""

    def __init__(self, pool: StorePool, dialect: Dialect, begin_missing: BeginMissing) -> None:
        self._pool, self._dialect, self._begin_missing = pool, dialect, begin_missing
        self._counting: dict[QueueName, Counting] = {}  # counts to continue
        self._retained: dict[QueueName, RetainedPartition] = {}  # what need not be counted again before its time

    async def divide(self, topic: TopicSpec) -> DivideResult:
        if not self._dialect.partitions:
            return DivideResult(whole=False, width=0, problem=_NONE_HERE)
        statements, log = TopicPartitionStatements(self._dialect, topic), TopicStatements(self._dialect, topic)
        retention = RetentionStatements(self._dialect, topic)
        return await self._pool.read(lambda connection: divide(connection, statements, log, retention, topic))

    async def drop_first(self, topic: TopicSpec, groups: Sequence[QueueSpec]) -> DropResult:
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
            return DropResult(waits=True)
        if counting is None:
            return DropResult()
        if not counting.done:
            self._counting[topic.name] = counting
            return DropResult(more=True)
        return await self._drop(statements, counting)

    async def _counted(self, statements: Statements) -> Counting | None:
        """What is in the first partition, counted further; None where that is to stay."""
        topic = statements.topic.name
        known, retained = self._counting.pop(topic, None), self._retained.pop(topic, None)
        candidate = await self._pool.read(lambda connection: find(connection, statements))
        if candidate is None:
            return None
        if (
            retained is not None
            and candidate.cutoff_ns is not None
            and retained.bound == candidate.bound
            and retained.is_current(candidate.cutoff_ns)
        ):
            self._retained[topic] = retained
            return None
        if known is None or not known.can_continue(candidate, statements.groups):
            await self._begin_missing(topic.database, *(group.name for group in statements.groups))
            known = await self._pool.read(lambda connection: settle(connection, statements, candidate))
        started = known
        counting = await self._pool.read(lambda connection: count(connection, statements.partitions, started))
        if counting.retained_ns is not None and candidate.cutoff_ns is not None:
            self._retained[topic] = RetainedPartition(candidate.bound, candidate.cutoff_ns, counting.retained_ns)
        return counting if counting.retained_ns is None else None

    def deleted(self, topic: QueueName) -> None:
        """Messages of a topic were deleted row by row: its count is not valid any more."""
        self._counting.pop(topic, None)

    async def _drop(self, statements: Statements, counting: Counting) -> DropResult:
        handover = Handover()
        mover, dropper = Mover(statements, counting, handover), Dropper(statements, counting, handover)
        dropping = asyncio.ensure_future(self._pool.read(dropper.drop))
        dropping.add_done_callback(lambda _: handover.give_up())  # it may not even have got a connection
        try:
            moved = await self._pool.write(mover.move)
            resolve(handover.moved, moved is not None)
        except LockWaitTimeout:
            handover.give_up()
            await dropping
            return DropResult(waits=True)
        except BaseException:  # perhaps the groups are past the partition; then a later pass drops it
            handover.give_up()
            with contextlib.suppress(BackendError):
                await dropping
            raise
        return await dropping
