"""SqlMessageStore: MessageStore in SQL, one implementation for every dialect.

Each method is one function run on a StoreConnection in a worker thread, so a whole transaction costs one thread hop.
Rules
- The clock is the database's: every method takes the time in the statement that compares with it.
- No method waits for a client's transaction: locked rows are skipped (engine.store.operations.lease).
- A message's values are read as text-protocol bytes after the lease. So a receiver sees the row as it is then, with
  its generated columns, and with every change made before the claim.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from engine.backend.base import Statement, StoreConnection, StorePool
from engine.model.errors import NO_SUCH_TABLE, BackendError
from engine.model.identity import from_text, id_kind
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE, LeaseTimes
from engine.model.queue import (
    Condition,
    MessageId,
    QueueCatalog,
    QueueName,
    QueueSpec,
    ReceiverIdentity,
)
from engine.model.schedules import MakeInsert
from engine.model.topics import FED_PRIORITY
from engine.store.base import (
    NOTHING_AHEAD,
    Claim,
    ForeseenLease,
    InOneShard,
    LeaseState,
    Page,
    PartitionPurge,
    Placement,
    PollAndClaim,
    PollResult,
    Position,
    Release,
    ScanResult,
    Stuck,
)
from engine.store.born_rows import BornRows
from engine.store.claims import Claims, GroupFeed
from engine.store.counts import Counts
from engine.store.group_table import GroupTable
from engine.store.known_queues import CatalogReader, PreparedQueues
from engine.store.last_receivers import LastReceivers
from engine.store.operations import dead_letters, due_messages, feed, lease, partitions, scan
from engine.store.operations import order as sql_order
from engine.store.schedule_table import ScheduleTable, no_inserts
from engine.store.sharing import UNMARKED, Sharing
from engine.store.statements.dead_letters import DeadLetterStatements
from engine.store.statements.dialect import Dialect
from engine.store.statements.mysql import AT_SHARD, MYSQL
from engine.store.statements.partitions import PartitionStatements, make_table
from engine.store.statements.scan import ScanStatements
from engine.store.statements.sqlite import SQLITE
from engine.store.topic_log import Conditions, TopicLog, no_conditions
from engine.store.topic_state import Define
from engine.store.trace_log import TraceLog
from engine.store.zones import Zones

T = TypeVar("T")


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
        last_receivers: LastReceivers | None = None,
    ) -> None:
        self._pool = pool
        self._dialect = dialect
        self._define = define
        logger, times = logger or logging.getLogger("queuegate.store"), LeaseTimes()
        self._prepared = PreparedQueues(dialect)
        self._catalog = CatalogReader(pool, dialect, logger)
        self.topics = TopicLog(pool, dialect, define, conditions, times, logger)
        self.traces = TraceLog(pool, dialect, define)
        self.last_receivers = last_receivers or LastReceivers()
        self._group_feed = GroupFeed(pool, self.topics, self._catalog, self._prepared)
        self._claims = Claims(pool, dialect, self._prepared, self._group_feed, times, self.last_receivers)
        self.zones = Zones(pool, dialect)
        self.schedules = ScheduleTable(pool, dialect, define, insert)
        self.births = BornRows(pool, self._prepared)
        self.counts = Counts(pool, dialect)
        self.groups = GroupTable(pool, dialect, define)

    @classmethod
    def for_mysql(
        cls,
        pool: StorePool,
        conditions: Conditions = no_conditions,
        insert: MakeInsert = no_inserts,
    ) -> SqlMessageStore:
        """The store on MySQL or MariaDB."""

        async def define(sql: str) -> Sequence[tuple[Any, ...]]:
            return await pool.read(lambda connection: connection.query(sql))

        return cls(pool, MYSQL, define, conditions, insert=insert)

    @classmethod
    def at_shard(cls, pool: StorePool, last_receivers: LastReceivers) -> SqlMessageStore:
        """The store of one shard of a Vitess. `last_receivers`: those of all of them."""
        return cls(pool, AT_SHARD, _undefined, last_receivers=last_receivers)

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

    @cached_property
    def placement(self) -> Placement:
        return InOneShard()

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

    async def load_catalog(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        catalog = await self._catalog.read(previous, named)
        if catalog is not previous:
            self.retain(catalog.queues)
        return catalog

    def retain(self, queues: Container[QueueName]) -> None:
        """Forget the statements of all queues but these."""
        self._prepared.retain(queues)

    async def poll(self, queue: QueueSpec, limit: int, ahead: Mapping[str, PollResult] = NOTHING_AHEAD) -> PollResult:
        assert limit >= 1
        fed = None if queue.options.topic is None else await self._group_feed.feed(queue, limit)
        poll = await self._pool.read(self._prepared.of(queue).polling(limit))
        return poll if fed is None else feed.with_feed(fed, poll)

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        assert page.limit >= 1 and page.span >= 1
        fed = (
            None if queue.options.topic is None else await self._group_feed.feed(queue, page.span, whatever_waits=True)
        )
        statements = ScanStatements(self._dialect, queue, condition)
        limited = self._prepared.of(queue).limited

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

    async def slots(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        sql, id_ = self._prepared.of(queue).statements.slots(len(ids)), due_messages.id_column(queue)
        (answer,) = await self._pool.ask((Statement(sql, tuple(ids), (id_, due_messages.INTEGER)),))
        of, not_null = id_kind(id_), due_messages.not_null
        return {from_text(of, not_null(row[0])): int(row[1]) for row in answer.rows if row[1] is not None}

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
        return await self._claims.claim(queue, ids, delays_ns, condition, sharing)

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        return await self._claims.poll_and_claim(queue, limit, count, blocked, delays_ns, sharing)

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        return await self._claims.claim_added(queue, ids, foreseen)

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        if not ids:
            return {}
        sql = self._prepared.of(queue).statements.unsettled(len(ids))
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
        gone: ReceiverIdentity | None = None,
    ) -> int:
        if not leases:
            return 0
        prepared = self._prepared.of(queue)
        how = lease.ReleaseTerms(counted, alone, gone, prepared.lock_waits)
        return await self._pool.write(lambda c: lease.release(c, prepared.statements, queue, leases, how))

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        statements = DeadLetterStatements(self._dialect, queue)
        return await self._pool.read(lambda c: dead_letters.rejected(c, statements, queue, limit))

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        statements = DeadLetterStatements(self._dialect, queue)
        return await self._pool.write(lambda c: dead_letters.move_to_dead_letters(c, statements, queue, dead, ids))

    async def purge(
        self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None, stuck: Stuck | None = None
    ) -> int:
        statements = self._prepared.of(queue).statements
        if purged is not None:
            texts = PartitionStatements(self._dialect, queue)
            return await self._pool.write(
                lambda c: partitions.purge_rows(c, texts, statements, queue, purged, limit, stuck)
            )
        work = self._pool.write(lambda connection: lease.purge(connection, statements, queue, limit, stuck))
        return await self._with_archive(queue, work, 0)

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        if not self._dialect.partitions:
            return None
        texts = PartitionStatements(self._dialect, queue)
        work = self._pool.read(lambda connection: partitions.purge_partitions(connection, texts, queue))
        return await self._with_archive(queue, work, PartitionPurge(0, (), 0))

    async def _with_archive(self, queue: QueueSpec, work: Awaitable[T], not_done: T) -> T:
        """The result of work that copies messages to the archive; `not_done` where its table had to be created, so that
        the work is to be done again."""
        try:
            return await work
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE or not queue.options.archive:
                raise
            await self._define(make_table(queue.name.database))
            return not_done

    async def ping(self) -> None:
        await self._pool.read(lambda connection: connection.query("SELECT 1"))


async def _undefined(sql: str) -> Sequence[tuple[Any, ...]]:
    raise BackendError(f"no tables can be made here: {sql}", 1142, "42000")
