"""SqlMessageStore: MessageStore in SQL, one implementation for every dialect.

Each method is one function run on a StoreConnection in a worker thread, so a whole transaction costs one thread hop.
Rules
- The clock is the database's: every method takes the time in the statement that compares with it.
- No method waits for a client's transaction: locked rows are skipped (engine.store.operations.lease).
- A message's values are read as text-protocol bytes after the lease. So a receiver sees the row as it is then, with
  its generated columns, and with every change made before the claim.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import LOCKED, BackendError, CommitUnknown
from engine.model.groups import FindQueue, GroupKey, GroupPage
from engine.model.identity import from_text, id_kind
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE, LeaseTimes
from engine.model.queue import (
    Condition,
    Layout,
    MessageId,
    MessageKey,
    QueueCatalog,
    QueueName,
    QueueSpec,
    SubscribeRequest,
    TopicSpec,
)
from engine.model.schedules import MakeInsert
from engine.model.states import REJECTED_NS
from engine.model.topics import FED_PRIORITY, FeedResult
from engine.store.base import (
    Claim,
    ForeseenLease,
    LeasedMessage,
    LeaseState,
    LeaseUnknown,
    Page,
    PartitionPurge,
    PollAndClaim,
    PollResult,
    Position,
    Release,
    ScanResult,
    first_free,
    release_of,
)
from engine.store.catalog import TableInfo, next_catalog, warning_of
from engine.store.census import Census, take_census
from engine.store.last_receivers import LastReceivers
from engine.store.operations import dead_letters, due_messages, feed, groups, lease, partitions, scan
from engine.store.operations import limits as sql_limits
from engine.store.operations import order as sql_order
from engine.store.operations.due_messages import LevelGuess
from engine.store.operations.limits import LimitedStatements
from engine.store.operations.next_ids import NextIds
from engine.store.operations.order import OrderMemory
from engine.store.schedule_table import ScheduleTable, no_inserts
from engine.store.sharing import UNMARKED, Sharing
from engine.store.statements.archive import make_table
from engine.store.statements.census import CensusStatements
from engine.store.statements.dead_letters import DeadLetterStatements
from engine.store.statements.dialect import Dialect
from engine.store.statements.groups import GroupStatements, create_groups
from engine.store.statements.limits import LimitStatements
from engine.store.statements.mysql import MYSQL
from engine.store.statements.order import OrderStatements
from engine.store.statements.partitions import PartitionStatements
from engine.store.statements.queue import QueueStatements
from engine.store.statements.scan import ScanStatements
from engine.store.statements.sqlite import SQLITE
from engine.store.topic_log import Conditions, TopicLog, no_conditions
from engine.store.trace_log import TraceLog
from engine.store.zones import Zones

NO_SUCH_TABLE = 1146

T = TypeVar("T")

Define = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
"""Runs a statement (CREATE TABLE, SHOW CREATE TABLE) in MySQL's syntax, with the engine's own privileges; returns its
rows. Raises BackendError."""


@dataclass(frozen=True, slots=True)
class _QueueStatements:
    """What is cached for a queue while its definition is unchanged."""

    queue: QueueSpec
    statements: QueueStatements
    guess: LevelGuess = field(default_factory=LevelGuess)
    limited: LimitedStatements | None = None
    memory: OrderMemory = field(default_factory=OrderMemory)
    next_ids: NextIds = field(default_factory=NextIds)


class SqlMessageStore:
    """See the module. `close` closes its pool. `define` makes tables of the engine's own. `insert`: see MakeInsert."""

    def __init__(
        self,
        pool: StorePool,
        dialect: Dialect,
        define: Define,
        conditions: Conditions = no_conditions,
        logger: logging.Logger | None = None,
        insert: MakeInsert = no_inserts,
    ) -> None:
        self._pool = pool
        self._dialect = dialect
        self._define = define
        self._logger = logger or logging.getLogger("queuegate.store")
        self._texts: dict[QueueName, _QueueStatements] = {}
        self._warned: set[tuple[QueueName, str]] = set()
        self._read = (QueueCatalog(), dict[QueueName, TableInfo]())  # the last catalog, and the tables it was made of
        self._has_row: set[QueueName] = set()  # queues whose row of queuegate_limits was seen
        self._times = LeaseTimes()
        self.topics = TopicLog(pool, dialect, define, conditions, self._times, self._logger)
        self.traces = TraceLog(pool, dialect, define)
        self.last_receivers = LastReceivers()
        self.zones = Zones(pool, dialect)
        self.schedules = ScheduleTable(pool, dialect, define, insert)

    @classmethod
    def for_mysql(
        cls, pool: StorePool, conditions: Conditions = no_conditions, insert: MakeInsert = no_inserts
    ) -> SqlMessageStore:
        """The store on MySQL or MariaDB."""

        async def define(sql: str) -> Sequence[tuple[Any, ...]]:
            return await pool.read(lambda connection: connection.query(sql))

        return cls(pool, MYSQL, define, conditions, insert=insert)

    @classmethod
    def for_sqlite(
        cls,
        pool: StorePool,
        define: Define | None = None,
        conditions: Conditions = no_conditions,
        insert: MakeInsert = no_inserts,
    ) -> SqlMessageStore:
        """The store on the embedded database. Its sessions understand MySQL's syntax, so they provide `define`."""
        return cls(pool, SQLITE, define or _undefined, conditions, insert=insert)

    async def administer(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement in MySQL's syntax with the engine's own privileges; its rows. Raises BackendError."""
        return await self._define(sql)

    async def add_tokens(self, queue: QueueSpec) -> None:
        definition, add = f"{TOKEN_COLUMN} {TOKEN_TYPE}", self._dialect.adds_columns
        if add is None:
            await self._define(f"ALTER TABLE {self._dialect.gate.of(queue).target} ADD COLUMN {definition}")
        else:
            await self._pool.read(lambda connection: add(connection, queue.name, definition))

    async def close(self) -> None:
        await self._pool.close()

    async def load_catalog(self, previous: QueueCatalog) -> QueueCatalog:
        last, known = self._read
        tables, shards = await self._pool.read(
            lambda connection: (self._dialect.list_tables(connection, known), connection.shards)
        )
        changed = [table for table in tables if known.get(table.name) is not table]
        unchanged = known.keys() - {table.name for table in changed} if previous is last else ()
        catalog = next_catalog(previous, tables, unchanged, shards)
        self._read = (catalog, {table.name: table for table in tables})
        if catalog is not previous:
            self._texts = {name: entry for name, entry in self._texts.items() if name in catalog.queues}
        self._warn(changed, catalog)
        return catalog

    async def poll(self, queue: QueueSpec, limit: int) -> PollResult:
        assert limit >= 1
        if queue.options.topic is None:
            return await self._pool.read(self._polling(queue, limit))
        fed = await self._feed(queue, limit)
        return feed.with_feed(fed, await self._pool.read(self._polling(queue, limit)))

    async def _feed(self, group: QueueSpec, limit: int, *, whatever_waits: bool = False) -> FeedResult:
        """Before a poll of a consumer group: copy the messages that it may read from its topic into its queue, until
        `limit` messages are due there. With `whatever_waits`, due messages there do not count.

        Nothing is fed to a group whose topic was dropped.
        """
        assert group.options.topic is not None
        topic = self._topic_of(group)
        if topic is None:
            return FeedResult(0, False)
        if group.options.order_key is not None:
            # Due messages may be blocked by their key, and must not keep out the messages of other keys.
            polled = await self._pool.read(self._polling(group, limit))
            limit, whatever_waits = limit - len(polled.keys), True
        if limit <= 0:
            return FeedResult(0, False)
        return await self.topics.feed(group, topic, limit, whatever_waits=whatever_waits)

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        assert page.limit >= 1 and page.span >= 1
        fed = None if queue.options.topic is None else await self._feed(queue, page.span, whatever_waits=True)
        statements = ScanStatements(self._dialect, queue, condition)
        limited = self._statements_for(queue).limited

        def work(connection: StoreConnection) -> ScanResult:
            with connection.reading(condition.settings):
                scanned = scan.scan(connection, statements, queue, page)
            if limited is None or limited.order is None:
                return scanned
            return replace(scanned, poll=sql_order.in_order(connection, limited.order, queue, scanned.poll))

        scanned = await self._pool.read(work)
        if fed is None:
            return scanned
        scanned = replace(scanned, poll=feed.with_hole_retry(fed, scanned.poll))
        if fed.more and scanned.position is None:  # what is fed next falls due after all that was examined
            return replace(scanned, position=Position(FED_PRIORITY, scanned.poll.now_ns, 0))
        return scanned

    async def fitting(self, queue: QueueSpec, condition: Condition, ids: Sequence[MessageId]) -> set[MessageId]:
        if not ids:
            return set()
        sql = ScanStatements(self._dialect, queue, condition).fitting(len(ids))
        matching = await self._pool.read(lambda c: scan.fitting(c, sql, queue, condition.settings, ids))
        return set(matching)

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None = None,
        sharing: Sharing = UNMARKED,
    ) -> Claim:
        assert ids and delays_ns
        terms = self._terms(queue, delays_ns, sharing)
        if condition is None:
            return await self._prepared(queue, lambda: self._pool.write(self._claiming(queue, ids, terms)))
        work = self._claiming_fitting(queue, ids, terms, condition)
        return await self._prepared(queue, lambda: self._pool.write(work))

    def _claiming_fitting(
        self, queue: QueueSpec, ids: Sequence[MessageId], terms: lease.Terms, condition: Condition
    ) -> Callable[[StoreConnection], Claim]:
        texts, settings = self._statements_for(queue), condition.settings
        sql = ScanStatements(self._dialect, queue, condition).claimable(len(ids))

        def work(connection: StoreConnection) -> Claim:
            if texts.limited is not None:
                sql_limits.lock(connection, texts.limited.limits, queue)  # before any message is locked
            fitting = scan.fitting(connection, sql, queue, settings, ids)
            if not fitting:
                return Claim(int(connection.query(texts.statements.now)[0][0]), ())
            return self._claiming(queue, fitting, terms)(connection)

        return work

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        assert limit >= 1 and count >= 1 and delays_ns
        terms = self._terms(queue, delays_ns, sharing)

        def free(poll: PollResult) -> Sequence[MessageId]:
            return first_free(poll, count, blocked, sharing)

        def then(poll: PollResult) -> Callable[[StoreConnection], Claim] | None:
            return self._claiming(queue, ids, terms) if (ids := free(poll)) else None

        if queue.takes_directly and (taken := await self._take(queue, count, terms)) is not None:
            return taken
        fed = None if queue.options.topic is None else await self._feed(queue, limit)
        texts = self._statements_for(queue)
        if fed is None and (expected := self._expected(texts, count)):
            poll, claim = await self._poll_and_lock(texts, limit, free, terms, expected)
        else:
            polling = self._polling(queue, limit)
            poll, claim = await self._prepared(queue, lambda: self._pool.read_then_write(polling, then))
        requested = tuple(free(poll))
        texts.next_ids.record(requested)
        return PollAndClaim(poll if fed is None else feed.with_feed(fed, poll), requested, claim)

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        assert ids and queue.takes_added
        statements = self._statements(queue)
        time_us = self._times.next((foreseen.earliest_ns + foreseen.latest_ns) // 2)

        def work(connection: StoreConnection) -> Claim | None:
            return lease.claim_added(connection, statements, queue, ids, foreseen, time_us)

        try:
            claim = await self._prepared(queue, lambda: self._pool.write(work))
        except BackendError as error:
            if error.errno in LOCKED:
                return None
            raise
        if claim is not None:
            self._statements_for(queue).next_ids.record([message.id for message in claim.messages])
        return claim

    def _expected(self, texts: _QueueStatements, count: int) -> Sequence[MessageId]:
        """What to lock during the poll, where the database supports it and it saves a round trip."""
        if not self._dialect.skip_locked or texts.limited is not None or texts.queue.layout is Layout.LEGACY:
            return ()
        return texts.next_ids.expected(count)

    async def _poll_and_lock(
        self,
        texts: _QueueStatements,
        limit: int,
        free: Callable[[PollResult], Sequence[MessageId]],
        terms: lease.Terms,
        expected: Sequence[MessageId],
    ) -> tuple[PollResult, Claim | None]:
        """Poll, and lock `expected` in the same round trip; if that locked all that is to be leased, lease it. The
        commit, a round trip later, releases the other locks."""
        queue, statements = texts.queue, texts.statements

        def polling(connection: StoreConnection) -> tuple[PollResult, lease.Locked]:
            if connection.replicates:  # there each statement behind a lock takes a round trip of its own
                texts.next_ids.give_up()
            lock = lease.locking(statements, queue, expected)
            poll, rows = due_messages.poll_and_run(connection, statements, queue, limit, texts.guess, lock)
            return poll, lease.locked(queue, rows)

        def then(result: tuple[PollResult, lease.Locked]) -> Callable[[StoreConnection], Claim] | None:
            poll, locked = result
            if not (ids := free(poll)):
                return None
            claiming = self._claiming(queue, ids, terms)
            if not locked.ids >= frozenset(ids):
                return claiming
            wanted = replace(locked, rows=[row for row in locked.rows if row.id in ids])
            tries = iter((lambda connection: lease.claim_locked(connection, statements, queue, wanted, terms),))
            return lambda connection: next(tries, claiming)(connection)  # tried again, it has lost its locks

        work = self._pool.read_then_write
        (poll, _), claim = await self._prepared(queue, lambda: work(polling, then, locking=True))
        return poll, claim

    async def _take(self, group: QueueSpec, count: int, terms: lease.Terms) -> PollAndClaim | None:
        """The result of a poll and a claim for a group that has nothing due and whose topic has messages for it; None
        where this is not known to be the case."""
        topic = self._topic_of(group)
        if topic is None:
            return None
        taken = await self.topics.take(group, topic, self._statements(group), count, terms)
        if taken is None:
            return None
        keys = tuple(MessageKey(message.priority, message.due_ns, message.id) for message in taken.messages)
        next_due_ns = taken.next_due_ns if taken.next_due_ns < REJECTED_NS else None
        poll = PollResult(taken.now_ns, keys, next_due_ns, taken.more)
        claim = Claim(taken.now_ns, taken.messages) if keys else None
        return PollAndClaim(poll, tuple(key.id for key in keys), claim)

    def _topic_of(self, group: QueueSpec) -> TopicSpec | None:
        return self._read[0].topics.get(QueueName(group.name.database, group.options.topic or ""))

    def _polling(self, queue: QueueSpec, limit: int) -> Callable[[StoreConnection], PollResult]:
        texts = self._statements_for(queue)
        statements, guess, memory = texts.statements, texts.guess, texts.memory
        if texts.limited is not None and (order := texts.limited.order) is not None:
            return lambda connection: sql_order.poll(connection, statements, order, queue, limit, guess, memory)
        return lambda connection: due_messages.poll(connection, statements, queue, limit, guess)

    def _claiming(
        self, queue: QueueSpec, ids: Sequence[MessageId], terms: lease.Terms
    ) -> Callable[[StoreConnection], Claim]:
        texts = self._statements_for(queue)
        if (limited := texts.limited) is not None:
            return lambda connection: sql_limits.claim(connection, limited, queue, ids, terms)
        return lambda connection: lease.claim(connection, texts.statements, queue, ids, terms)

    def _terms(self, queue: QueueSpec, delays_ns: Mapping[int, int], sharing: Sharing) -> lease.Terms:
        last, name = self.last_receivers, queue.name
        return lease.Terms(delays_ns, self._times, partial(last.of, name), sharing, partial(last.was_alongside, name))

    async def _prepared(self, queue: QueueSpec, work: Callable[[], Awaitable[T]]) -> T:
        """Claim; for a queue with limits, create first the row that its claims lock.

        After any failure the next claim creates that row again, for the table of limits may have been dropped. A claim
        whose COMMIT got no answer may have succeeded: LeaseUnknown has its leases.
        """
        limited = self._statements_for(queue).limited
        if limited is not None and queue.name not in self._has_row:
            await self._pool.write(lambda connection: sql_limits.prepare(connection, limited.limits, queue))
            self._has_row.add(queue.name)
        try:
            return await work()
        except BackendError as error:
            self._has_row.discard(queue.name)
            if isinstance(error, CommitUnknown) and isinstance(error.result, Claim):
                raise LeaseUnknown(error, [release_of(message) for message in error.result.messages]) from error
            raise

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        if not ids:
            return {}
        sql = self._statements(queue).unsettled(len(ids))
        id_ = due_messages.id_column(queue)
        kind = id_kind(id_)
        columns = (id_, *(due_messages.INTEGER,) * 3)
        rows = await self._pool.read(lambda connection: connection.query_text(sql, ids, columns))
        return {from_text(kind, due_messages.not_null(row[0])): lease.lease_state_of(row) for row in rows}

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> int:
        if not leases:
            return 0
        statements, how = self._statements(queue), lease.ReleaseTerms(counted, alone, gone)
        return await self._pool.write(lambda c: lease.release(c, statements, queue, leases, how))

    async def make_groups(self, group: GroupKey) -> None:
        statements = self._groups(group)
        try:
            await self._pool.read(lambda connection: connection.query(statements.exists))
        except BackendError:
            await self._define(create_groups(group.queue.database))

    async def read_groups(self, group: GroupKey, after: str) -> GroupPage:
        statements = self._groups(group)
        return await self._pool.read(lambda c: groups.read_page(c, statements, group, after))

    async def complete_group(self, group: GroupKey, value: str, find: FindQueue) -> list[QueueName]:
        statements = self._groups(group)
        return await self._pool.write(lambda c: groups.complete(c, statements, group, value, find))

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        statements = DeadLetterStatements(self._dialect, queue)
        return await self._pool.read(lambda c: dead_letters.rejected(c, statements, queue, limit))

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        statements = DeadLetterStatements(self._dialect, queue)
        return await self._pool.write(lambda c: dead_letters.move_to_dead_letters(c, statements, queue, dead, ids))

    async def purge(self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None) -> int:
        statements = self._statements(queue)
        if purged is not None:
            texts = PartitionStatements(self._dialect, queue)
            return await self._pool.write(lambda c: partitions.purge_rows(c, texts, statements, queue, purged, limit))
        async with self._archive_made(queue):
            return await self._pool.write(lambda connection: lease.purge(connection, statements, queue, limit))
        return 0

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        if not self._dialect.partitions:
            return None
        texts = PartitionStatements(self._dialect, queue)
        async with self._archive_made(queue):
            return await self._pool.read(lambda connection: partitions.purge_partitions(connection, texts, queue))
        return PartitionPurge(0, (), 0)

    @contextlib.asynccontextmanager
    async def _archive_made(self, queue: QueueSpec) -> AsyncIterator[None]:
        """Where the archive table does not exist, create it; the body's work is then not done."""
        try:
            yield
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE or not queue.options.archive:
                raise
            await self._define(make_table(queue.name.database))

    async def census(self, queue: QueueSpec) -> Census:
        statements = CensusStatements(self._dialect, queue)
        return await self._pool.read(lambda connection: take_census(connection, statements))

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        statements = CensusStatements(self._dialect, queue)
        return await self._pool.read(
            lambda connection: due_messages.leased_messages(connection, statements, queue, limit)
        )

    async def ping(self) -> None:
        await self._pool.read(lambda connection: connection.query("SELECT 1"))

    def _groups(self, group: GroupKey) -> GroupStatements:
        return GroupStatements(self._dialect, group)

    def _statements(self, queue: QueueSpec) -> QueueStatements:
        return self._statements_for(queue).statements

    def _statements_for(self, queue: QueueSpec) -> _QueueStatements:
        texts = self._texts.get(queue.name)
        if texts is None or texts.queue is not queue:
            texts = self._texts[queue.name] = self._build_statements(queue)
        return texts

    def _build_statements(self, queue: QueueSpec) -> _QueueStatements:
        statements = QueueStatements(self._dialect, queue)
        if not queue.options.limited:
            return _QueueStatements(queue, statements)
        order = None if queue.options.order_key is None else OrderStatements(self._dialect, queue)
        limits = LimitStatements(self._dialect, queue)
        return _QueueStatements(queue, statements, limited=LimitedStatements(statements, limits, order))

    def _warn(self, tables: Sequence[TableInfo], catalog: QueueCatalog) -> None:
        """Log once for each table that cannot be served, or only slowly, and why."""
        for table in tables:
            text = catalog.rejected.get(table.name) or warning_of(table)
            if text is not None and (table.name, text) not in self._warned:
                self._warned.add((table.name, text))
                self._logger.warning("queue table %s: %s", table.name, text)


async def _undefined(sql: str) -> Sequence[tuple[Any, ...]]:
    raise BackendError(f"no tables can be made here: {sql}", 1142, "42000")
