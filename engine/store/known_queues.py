"""What the store knows of the queues: the catalog as last read (CatalogReader), and the statements of each
(PreparedQueues)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.backend.base import StoreConnection, StorePool
from engine.model.queue import MessageId, QueueCatalog, QueueName, QueueSpec, TopicSpec
from engine.store.base import PollResult
from engine.store.catalog import TableInfo, next_catalog, warning_of
from engine.store.operations import due_messages
from engine.store.operations import order as sql_order
from engine.store.operations.due_messages import LevelGuess
from engine.store.operations.lease import FirstDeliveries, LockWaits
from engine.store.operations.limits import LimitedStatements
from engine.store.operations.order import OrderMemory
from engine.store.statements.dialect import Dialect
from engine.store.statements.limits import LimitStatements
from engine.store.statements.order import OrderStatements
from engine.store.statements.queue import QueueStatements

# NextIds: which messages a poll will probably return, so that it can lock them in the same round trip. Pure.
#
# AUTO_INCREMENT ids are consecutive. So a queue whose messages come a few at a time, and are claimed as they come,
# mostly has the ids after those of its last claim. A wrong guess costs the database a search by primary key; it never
# changes what is claimed, because only what the poll returned is claimed.

EXPECTED_MAX = 4
"""Ids that are expected at once: a few messages of one commit, or of commits that came together."""

MISSES_MAX = 8
"""Polls in a row with other ids, or none, after which nothing is expected until a guess would have been right."""


@dataclass(slots=True)
class NextIds:
    """Of one queue. Used by one thread at a time; a lost update is a wrong guess."""

    _next: int | None = None
    _misses: int = 0
    _useless: bool = False

    def expected(self, count: int) -> range:
        """The ids to lock before it is known what is due, at most `count`; empty where nothing is to be expected."""
        if self._next is None or self._misses >= MISSES_MAX or self._useless:
            return range(0)
        return range(self._next, self._next + min(count, EXPECTED_MAX))

    def record(self, ids: Sequence[MessageId]) -> None:
        """Record the ids to be claimed after a poll; none, where nothing was due."""
        numbers = [id_ for id_ in ids if isinstance(id_, int)]
        if self._next is not None:
            foreseen = numbers and self._next <= min(numbers) and max(numbers) < self._next + EXPECTED_MAX
            self._misses = 0 if foreseen else min(self._misses + 1, MISSES_MAX)
        if numbers:
            self._next = max(numbers) + 1

    def give_up(self) -> None:
        """Expect nothing from now on."""
        self._useless = True


class CatalogReader:
    """Reads from the database which tables are queues, and logs why some are not. `catalog`: as last read.

    Invariant: a table that did not change since the last read is not described again, and a catalog in which nothing
    changed is the previous one itself.
    """

    def __init__(self, pool: StorePool, dialect: Dialect, logger: logging.Logger) -> None:
        self._pool, self._dialect, self._logger = pool, dialect, logger
        self.catalog = QueueCatalog()
        self._tables: dict[QueueName, TableInfo] = {}  # that `catalog` was made of
        self._warned: set[tuple[QueueName, str]] = set()

    async def read(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        """See MessageStore.load_catalog."""
        last, known = self.catalog, self._tables
        tables, keyspaces, exact_names = await self._pool.read(
            lambda c: (self._dialect.list_tables(c, known, named), c.keyspaces, c.exact_names)
        )
        changed = [table for table in tables if known.get(table.name) is not table]
        as_before = previous is last and keyspaces.shards == previous.keyspaces.shards
        unchanged = known.keys() - {table.name for table in changed} if as_before else ()
        self.catalog = next_catalog(previous, tables, unchanged, keyspaces, exact_names=exact_names)
        self._tables = {table.name: table for table in tables}
        self._warn(changed)
        return self.catalog

    def topic_of(self, group: QueueSpec) -> TopicSpec | None:
        """The topic that a consumer group reads; None where it was dropped."""
        return self.catalog.topics.get(QueueName(group.name.database, group.options.topic or ""))

    def _warn(self, tables: Sequence[TableInfo]) -> None:
        """Log once for each table that cannot be served, or only slowly, and why."""
        for table in tables:
            text = self.catalog.rejected.get(table.name) or warning_of(table)
            if text is not None and (table.name, text) not in self._warned:
                self._warned.add((table.name, text))
                self._logger.warning("queue table %s: %s", table.name, text)


@dataclass(frozen=True)
class PreparedQueue:
    """The statements of one queue, and what is remembered of its polls, while its definition is unchanged."""

    queue: QueueSpec
    statements: QueueStatements
    guess: LevelGuess = field(default_factory=LevelGuess)
    limited: LimitedStatements | None = None
    memory: OrderMemory = field(default_factory=OrderMemory)
    next_ids: NextIds = field(default_factory=NextIds)
    lock_waits: LockWaits = field(default_factory=LockWaits)

    @cached_property
    def first_deliveries(self) -> FirstDeliveries:
        """What reads messages that are leased without a poll."""
        return FirstDeliveries(self.queue)

    def polling(self, limit: int) -> Callable[[StoreConnection], PollResult]:
        """A poll."""
        queue, statements, guess = self.queue, self.statements, self.guess
        if self.limited is not None and (order := self.limited.order) is not None:
            return lambda connection: sql_order.poll(connection, statements, order, queue, limit, guess, self.memory)
        return lambda connection: due_messages.poll(connection, statements, queue, limit, guess)


class PreparedQueues:
    """The statements of each queue.

    Invariant: an entry is of the very QueueSpec that is asked for. So a definition that changed never meets statements
    of the one before.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._queues: dict[QueueName, PreparedQueue] = {}

    def of(self, queue: QueueSpec) -> PreparedQueue:
        prepared = self._queues.get(queue.name)
        if prepared is None or prepared.queue is not queue:
            prepared = self._queues[queue.name] = self._prepare(queue)
        return prepared

    def retain(self, names: Container[QueueName]) -> None:
        """Forget all queues but these."""
        self._queues = {name: prepared for name, prepared in self._queues.items() if name in names}

    def _prepare(self, queue: QueueSpec) -> PreparedQueue:
        statements = QueueStatements(self._dialect, queue)
        if not queue.options.limited:
            return PreparedQueue(queue, statements)
        order = None if queue.options.order_key is None else OrderStatements(self._dialect, queue)
        limits = LimitStatements(self._dialect, queue)
        return PreparedQueue(queue, statements, limited=LimitedStatements(statements, limits, order))
