"""What a reader of topics needs to know besides their messages: the positions of groups (PositionTables), the open
transactions that may still add messages (OpenTransactions), and which ids are settled (SettledIds).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from engine.backend.base import StorePool
from engine.model.errors import NO_SUCH_TABLE, BackendError, MissingTableAllowed
from engine.model.queue import QueueName, QueueSpec, TopicSpec
from engine.model.topics import NOTHING_SETTLED, Settled
from engine.shared_future import wait_shared
from engine.store.operations import feed
from engine.store.operations.feed import TopicState, Transactions
from engine.store.statements.dialect import Dialect
from engine.store.statements.topics import PositionStatements, TopicStatements, create_positions

T = TypeVar("T")

_DUPLICATE = 1062
_HIDDEN = (
    "topics: the open transactions are not shown (%s). So an id that is missing is waited for for an hour, and a"
    " message of a transaction that is open for longer is passed over. GRANT PROCESS ON *.* TO the account in `backend`"
)
_LIST_CACHED_SECONDS = 0.25  # somewhat longer than the server caches that list while it is not read
_SHARED_SECONDS = 1.0  # for which all readers of this engine share a list of the open transactions

Define = Callable[[str], Awaitable[Sequence[tuple[Any, ...]]]]
"""Runs a statement (CREATE TABLE, SHOW CREATE TABLE) in MySQL's syntax, with the engine's own privileges; returns its
rows. Raises BackendError."""


class PositionTables:
    """The tables of positions, one in each database. `define` creates them, in MySQL's syntax."""

    def __init__(self, pool: StorePool, dialect: Dialect, define: Define) -> None:
        self._pool, self._dialect, self._define = pool, dialect, define

    async def with_position(self, group: QueueSpec, work: Callable[[], Awaitable[T]]) -> T:
        """A group without a position, as after a dump without that table was restored, begins with the first message:
        what it had done it does again, and nothing is lost."""
        try:
            return await work()
        except LookupError:
            pass
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE:
                raise
        await self.begin_missing(group.name.database, group.name)
        return await work()

    async def begin_missing(self, database: str, *groups: QueueName) -> None:
        """Make the database's table of positions, and those of groups that have none: before the first message."""
        positions = PositionStatements(self._dialect, database)
        await self.make_in(database)
        for group in groups:
            try:
                await self._pool.write(partial(feed.begin_missing, statements=positions, group=group))
            except BackendError as error:
                if error.errno != _DUPLICATE:  # another has written it in this moment
                    raise

    async def make_in(self, database: str) -> None:
        """Make the table of positions, if it is not there."""
        exists = PositionStatements(self._dialect, database).exists
        with MissingTableAllowed():
            await self._pool.read(lambda connection: connection.query(exists))
            return
        await self._define(create_positions(database))


class OpenTransactions:
    """The database's open transactions. `shown`: whether the server shows them to us, as far as is known."""

    def __init__(
        self, pool: StorePool, dialect: Dialect, positions: PositionTables, logger: logging.Logger | None
    ) -> None:
        self._pool, self._dialect, self._positions = pool, dialect, positions
        self._logger = logger or logging.getLogger("queuegate.store")
        self.shown = False
        self._logged_hidden = False
        self._refreshing: asyncio.Future[Transactions] | None = None
        self._refreshed_at = 0.0

    async def current(self, database: str) -> Transactions:
        """The open transactions, as of the last second: more frequent calls get an old list. Raises BackendError."""
        now = asyncio.get_running_loop().time()
        if self._refreshing is None or now - self._refreshed_at >= _SHARED_SECONDS:
            self._refreshed_at, self._refreshing = now, asyncio.ensure_future(self._refresh(database))
        return await wait_shared(self._refreshing)

    async def _refresh(self, database: str) -> Transactions:
        try:
            known = await self._list(database)
        except BackendError as error:
            if error.errno != NO_SUCH_TABLE:
                raise
            await self._positions.make_in(database)
            known = await self._list(database)
        if known.old:  # queries at the same moments as another client's would never see a current list
            await asyncio.sleep(_LIST_CACHED_SECONDS)
            known = await self._list(database)
        self.shown = known.open is not None or (known.old and self.shown)
        if known.hidden and not self._logged_hidden:
            self._logged_hidden = True
            self._logger.warning(_HIDDEN, known.hidden)
        return known

    async def _list(self, database: str) -> Transactions:
        statements, number = PositionStatements(self._dialect, database), secrets.randbits(62)
        now = f"SELECT {self._dialect.now_ns}"
        return await self._pool.write(lambda connection: feed.transactions(connection, statements, now, number))


class SettledIds:
    """Which ids of topics are settled: no transaction will add a message with one of them."""

    def __init__(self, pool: StorePool, dialect: Dialect, transactions: OpenTransactions) -> None:
        self._pool, self._dialect, self._transactions = pool, dialect, transactions
        self._by_topic: dict[QueueName, Settled] = {}

    def of(self, topic: QueueName) -> Settled:
        """Those of a topic, as far as they were needed."""
        return self._by_topic.get(topic, NOTHING_SETTLED)

    def state(self, topic: QueueName, checked_ns: int) -> TopicState:
        """What is known of a topic, for a reader whose holes were last compared with the open transactions then."""
        return TopicState(self._transactions.shown, self.of(topic), checked_ns)

    async def settle_more(self, topic: TopicSpec) -> Settled:
        """The settled ids of a topic. The open transactions are read only where that may help."""
        text, settled = log_of(self._dialect, topic).now_and_last, self.of(topic.name)
        ((now_ns, last),) = await self._pool.read(lambda connection: connection.query(text))
        if settled.to_compare(int(last), int(now_ns)):
            await self.settle(topic)
        elif settled.candidates is None or int(last) < settled.candidates.last:
            self._by_topic[topic.name] = settled.further(int(last), int(now_ns), int(now_ns), None)
        return self.of(topic.name)

    async def settle(self, topic: TopicSpec) -> Transactions:
        """Read the open transactions, and update the settled ids of a topic. Raises BackendError."""
        known = await self._transactions.current(topic.name.database)
        text = log_of(self._dialect, topic).now_and_last
        ((now_ns, last),) = await self._pool.read(lambda connection: connection.query(text))
        if not known.old:
            settled = self.of(topic.name)
            self._by_topic[topic.name] = settled.further(int(last), int(now_ns), known.now_ns, known.open)
        return known


def log_of(dialect: Dialect, topic: TopicSpec) -> TopicStatements:
    """The texts for a topic. Raises BackendError, 1235 where its offsets are numbers and it lacks their column."""
    check_numbers(topic)
    return TopicStatements(dialect, topic)


def check_numbers(topic: TopicSpec) -> None:
    """Raises BackendError, 1235 where the topic's offsets are numbers and it lacks their column."""
    if topic.unsequenced is not None:
        raise BackendError(topic.unsequenced, 1235, "42000")
