"""TopicLog: TopicStore in SQL, one implementation for every dialect.

Each method is one function run on a StoreConnection in a worker thread, as the store's are.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from engine.backend.base import Statement, StoreConnection, StorePool
from engine.model.errors import BackendError, CommitUnknown
from engine.model.lease_token import LeaseTimes
from engine.model.queue import Condition, QueueName, QueueSpec, Start, StartAt, TextValue, TopicSpec
from engine.model.sequence import NumberingResult, Sequencing
from engine.model.topic_partitions import NO_GRACE, Grace
from engine.model.topics import (
    NOTHING_SETTLED,
    CompactionResult,
    FeedResult,
    GroupLag,
    GroupPosition,
    Hole,
    RetentionResult,
    SeekResult,
    TopicExtent,
)
from engine.store.base import LeaseUnknown, LogPage
from engine.store.gate import check_new
from engine.store.operations import feed
from engine.store.operations.compaction import Compacting, compact, find_superseded
from engine.store.operations.feed import FeedRequest, TopicState
from engine.store.operations.lease import Terms, answer_max
from engine.store.operations.retained_for_groups import read_extent
from engine.store.operations.retention import retain
from engine.store.operations.sequence import sequencing
from engine.store.operations.take import TakeRequest, TakeResult, Taking
from engine.store.sequencer import Sequencer
from engine.store.statements.dialect import Dialect, placeholders
from engine.store.statements.queue import QueueStatements
from engine.store.statements.scan import is_true
from engine.store.statements.topics import (
    FeedStatements,
    PositionStatements,
    RetentionStatements,
    offset_column,
)
from engine.store.topic_partitions import TopicPartitions
from engine.store.topic_state import Define, OpenTransactions, PositionTables, SettledIds, check_numbers, log_of

T = TypeVar("T")

Conditions = Callable[[TopicSpec, str], Awaitable[Condition]]
"""The filter of a consumer group, from its option, compiled for the database. Raises BackendError where it is
not a condition on the topic's columns alone."""


async def no_conditions(topic: TopicSpec, text: str) -> Condition:
    """For a store without clients: their SQL is not parsed there."""
    raise BackendError(f"filter: '{text}' cannot be read here", 1235, "42000")


class TopicLog:
    """See the module. `define` creates the table of positions, in MySQL's syntax; `conditions` compiles filters of
    groups for the database; `times`: the source of tokens, the same wherever a group's messages are leased."""

    def __init__(
        self,
        pool: StorePool,
        dialect: Dialect,
        define: Define,
        conditions: Conditions,
        times: LeaseTimes | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._pool = pool
        self._times = times or LeaseTimes()
        self._dialect = dialect
        self._conditions = conditions
        self._checked_ns: dict[QueueName, int] = {}  # when holes were last compared with the open transactions
        self._unsettled: set[QueueName] = set()  # groups whose holes are to be
        self._positions = PositionTables(pool, dialect, define)
        self._settled = SettledIds(pool, dialect, OpenTransactions(pool, dialect, self._positions, logger))
        self._texts: dict[QueueName, FeedStatements] = {}
        self.partitions = TopicPartitions(pool, dialect, self._positions.begin_missing)
        self._sequencer = Sequencer(pool, dialect, self._positions.make_in)

    async def sequencing(self) -> Sequencing:
        return await self._pool.read(lambda connection: sequencing(connection, self._dialect))

    async def number(self, topic: TopicSpec) -> NumberingResult:
        check_numbers(topic)
        return await self._sequencer.number(topic) if topic.sequenced else NumberingResult()

    async def number_all(self, topic: TopicSpec) -> None:
        if (await self.number(topic)).more:
            await self._sequencer.number_all(topic)

    async def feed(self, group: QueueSpec, topic: TopicSpec, limit: int, *, whatever_waits: bool = False) -> FeedResult:
        """Copy the next messages of a topic into the queue of its group: until `limit` are due there, or so many
        `whatever_waits` there.

        Raises:
            BackendError: nothing was fed.
        """
        statements = await self._statements_of(group, topic)

        async def work() -> FeedResult:
            numbered = await self.number(topic)
            if not await self._pool.read(lambda connection: feed.waits(connection, statements, group)):
                return FeedResult(0, numbered.more, blocked=numbered.waiting)
            due_max = None if whatever_waits else limit
            wanted = FeedRequest(limit, due_max, self._state(topic.name, group.name))
            fed = await self._pool.write(lambda connection: feed.feed(connection, statements, group, wanted))
            if fed.check:
                await self._close_holes(group, statements)
            return replace(fed, more=fed.more or numbered.more, blocked=fed.blocked or numbered.waiting)

        return await self._positions.with_position(group, work)

    async def take(
        self, group: QueueSpec, topic: TopicSpec, rows: QueueStatements, count: int, terms: Terms
    ) -> TakeResult | None:
        """Feed a group up to `count` messages and lease them at once; `rows` are the texts of its queue. None where it
        must be polled: messages are due in its queue already, there is nothing to feed, or the topic has numbers.

        Raises:
            LeaseUnknown: perhaps the leases were made.
            BackendError: nothing was fed.
        """
        if topic.sequenced:  # there the ids in the group's queue cannot be compared with the offset
            return None
        statements = await self._statements_of(group, topic)
        await self._settle(group, statements)

        async def work() -> TakeResult | None:
            known = self._state(topic.name, group.name)
            request = TakeRequest(count, terms.delays_ns[0], known, self._times, terms.sharing)
            # Where a writing transaction has the database to itself, it is not begun in vain.
            alone = statements.topic.in_order
            if alone and not await self._pool.read(lambda connection: feed.waits(connection, statements, group)):
                return None
            try:
                taken = await self._pool.write(lambda c: Taking(c, statements, rows, group).take(request))
            except CommitUnknown as error:
                leases = error.result.leases if isinstance(error.result, TakeResult) else ()
                raise LeaseUnknown(error, leases) from error
            if taken is not None and taken.check:
                self._unsettled.add(group.name)
            return taken

        return await self._positions.with_position(group, work)

    def _state(self, topic: QueueName, group: QueueName | None = None) -> TopicState:
        checked_ns = 0 if group is None else self._checked_ns.get(group, 0)
        return self._settled.state(topic, checked_ns)

    async def _settle(self, group: QueueSpec, statements: FeedStatements) -> None:
        """Drop the holes that will not be filled, if that is due since the last `take`. Not within `take`: what it has
        leased must be delivered, even if this fails."""
        if group.name in self._unsettled:
            await self._close_holes(group, statements)
            self._unsettled.discard(group.name)

    async def _close_holes(self, group: QueueSpec, statements: FeedStatements) -> None:
        known = await self._settled.settle(statements.topic_spec)
        await self._pool.write(lambda connection: feed.close_holes(connection, statements, group, known))
        self._checked_ns[group.name] = known.now_ns

    async def _statements_of(self, group: QueueSpec, topic: TopicSpec) -> FeedStatements:
        """The statements, cached while both definitions are unchanged. Raises BackendError: the filter is wrong, or the
        topic lacks the column of its numbers."""
        check_numbers(topic)
        known = self._texts.get(group.name)
        if known is None or known.group is not group or known.topic_spec is not topic:
            text = group.options.filter
            condition = None if text is None else await self._conditions(topic, text)
            known = self._texts[group.name] = FeedStatements(self._dialect, group, topic, condition)
        return known

    async def begin(self, group: QueueName, topic: TopicSpec, start: StartAt) -> None:
        positions, statements = PositionStatements(self._dialect, group.database), log_of(self._dialect, topic)
        await self._positions.make_in(group.database)
        await self._number_for(topic, start)
        settled = self._settled.of(topic.name)

        def work(connection: StoreConnection) -> None:
            if not self._dialect.gate.trusts_names:
                check_new(connection, group)
            feed.begin(connection, positions, statements, group, start, settled)

        await self._pool.write(work)

    async def _number_for(self, topic: TopicSpec, start: StartAt) -> None:
        """Before the position of a new reader is computed; EARLIEST needs no numbers."""
        if start.start is not Start.EARLIEST:
            await self.number_all(topic)

    async def position_at(self, topic: TopicSpec, start: StartAt) -> GroupPosition:
        await self._number_for(topic, start)
        statements, settled = log_of(self._dialect, topic), self._settled.of(topic.name)
        return await self._pool.read(lambda connection: feed.position_at(connection, statements, start, settled))

    async def rows(
        self, topic: TopicSpec, ids: Sequence[int], condition: Condition | None = None
    ) -> list[tuple[TextValue, ...]]:
        return await self._pool.read(lambda connection: _rows(connection, self._dialect, topic, "id", ids, condition))

    async def seek(self, group: QueueSpec, topic: TopicSpec, start: StartAt) -> SeekResult:
        await self._number_for(topic, start)
        statements, settled = await self._statements_of(group, topic), self._settled.of(topic.name)

        async def work() -> SeekResult:
            return await self._pool.write(lambda connection: feed.seek(connection, statements, group, start, settled))

        return await self._positions.with_position(group, work)

    async def retain(
        self, topic: TopicSpec, groups: Sequence[QueueSpec], limit: int, grace: Grace = NO_GRACE
    ) -> RetentionResult:
        positions = PositionStatements(self._dialect, topic.name.database)
        statements, log = RetentionStatements(self._dialect, topic), log_of(self._dialect, topic)
        if groups:
            await self._positions.make_in(topic.name.database)
        retained = await self._pool.write(
            lambda connection: retain(connection, positions, statements, log, topic, groups, limit, grace)
        )
        if retained.deleted:
            self.partitions.deleted(topic.name)
        return retained

    async def compact(self, topic: TopicSpec, groups: Sequence[QueueSpec], place: int, limit: int) -> CompactionResult:
        statements = Compacting(self._dialect, topic, groups)
        if statements.positions is not None:
            await self._positions.make_in(topic.name.database)
        settled = NOTHING_SETTLED if statements.log.in_order else await self._settled.settle_more(topic)
        page = await self._pool.read(lambda connection: find_superseded(connection, statements, settled, place, limit))
        if not page.superseded:
            return CompactionResult(0, page.place, page.more)
        deleted = await self._pool.write(lambda connection: compact(connection, statements, page))
        # What is deleted from before these messages may not be all that they supersede.
        again = any(id_ <= place for id_ in deleted)
        return CompactionResult(len(deleted), place if again else page.place, again or page.more)

    async def position(self, group: QueueSpec, topic: TopicSpec) -> GroupPosition:
        statements = (await self._statements_of(group, topic)).position

        async def work() -> GroupPosition:
            return await self._pool.read(lambda connection: feed.read_position(connection, statements, group.name))

        return await self._positions.with_position(group, work)

    async def extent(self, topic: TopicSpec) -> TopicExtent:
        statements = log_of(self._dialect, topic)
        return await self._pool.read(lambda connection: read_extent(connection, statements, topic.name))

    async def lag(self, group: QueueSpec, topic: TopicSpec, *, counted: bool = True) -> GroupLag:
        statements = await self._statements_of(group, topic)

        async def work() -> GroupLag:
            return await self._pool.read(lambda connection: feed.lag(connection, statements, group, counted=counted))

        return await self._positions.with_position(group, work)

    async def read(
        self, topic: TopicSpec, position: GroupPosition, limit: int, condition: Condition | None = None
    ) -> LogPage:
        await self.number(topic)
        statements, known = log_of(self._dialect, topic), self._state(topic.name)
        offset = offset_column(topic)

        def work(connection: StoreConnection) -> LogPage:
            page = feed.log_page(connection, statements, position, limit, known)
            late = page.late[:limit]
            fresh = page.fresh[: position.room(page.fresh, complete=page.complete)][: limit - len(late)]
            ids = [*late, *(entry.id for entry in fresh)]
            if not ids:
                return LogPage((), position, page.now_ns)
            rows = _rows(connection, self._dialect, topic, offset, ids, condition)
            reached = position.fed(fresh, late, complete=page.complete)
            return LogPage(tuple(rows), reached, page.now_ns)

        return await self._pool.read(work)

    async def awaited(self, topic: TopicSpec, holes: Sequence[Hole]) -> tuple[Hole, ...]:
        statements = log_of(self._dialect, topic)
        known = await self._settled.settle(topic)
        return await self._pool.read(lambda connection: feed.awaited(connection, statements, holes, known))


def _rows(
    connection: StoreConnection,
    dialect: Dialect,
    topic: TopicSpec,
    by: str,
    values: Sequence[int],
    condition: Condition | None,
) -> list[tuple[TextValue, ...]]:
    whole = f"SELECT {dialect.selected(topic.columns)} FROM {dialect.gate.of(topic)}"
    sql = f"{whole} WHERE {by} IN ({placeholders(len(values))})"
    if condition is None:
        return _bounded(connection, f"{sql} ORDER BY {by}", values, topic)
    with connection.reading(condition.settings):
        return _bounded(connection, f"{sql} AND {is_true(condition)} ORDER BY {by}", values, topic)


def _bounded(
    connection: StoreConnection, sql: str, values: Sequence[int], topic: TopicSpec
) -> list[tuple[TextValue, ...]]:
    """The rows of a SELECT of so many messages. Raises AnswerTooLarge where fewer of them are to be read."""
    return connection.run((Statement(sql, values, topic.columns, answer_max(values)),))[0].rows
