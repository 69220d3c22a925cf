"""Visibility: which queues, topics, receivers and texts the account of a session may know of.

The database decides where accounts are its own, and else the proxy's rights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.backend.servers import is_without_primary
from engine.engine import Engine
from engine.model.errors import BackendError, QueueNotFound
from engine.model.keyspaces import Keyspaces
from engine.model.queue import QUEUE_MARK, QueueName, QueueSpec, SubscriptionStatus, TextValue
from engine.model.schedules import SCHEDULES_MARK
from engine.model.topic_options import TOPIC_MARK
from mysql_wire.outcome import Collected, number
from proxy.rights.account_rights import Right
from proxy.session.session import BackendTraits, ClientSession
from proxy.show.columns import like_pattern
from proxy.show.trace_rows import CanSeeUser
from proxy.upstream.base import check_own_table, collected
from proxy.upstream.redaction import redacted_problem
from rewriter.text.literals import plain_literal

_VISIBLE = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    f" WHERE TABLE_TYPE = 'BASE TABLE' AND (TABLE_COMMENT LIKE '%{QUEUE_MARK}%' OR TABLE_COMMENT LIKE '{TOPIC_MARK}%'"
    f" OR TABLE_COMMENT LIKE '{SCHEDULES_MARK}%')"
)
_READABLE = (  # without DISTINCT, for which MariaDB takes names that differ in case or accents for one
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS"
    " WHERE (ORDINAL_POSITION = 1 OR COLUMN_NAME = 'id') AND FIND_IN_SET('select', PRIVILEGES)"
)
_PROCESSES = "SELECT ID, USER FROM information_schema.PROCESSLIST"
_CAN_SEE_PROCESSES = (
    "SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = 'PROCESS'"
    " AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')"
)

_SHARD_TRIES = 10
"""Of a query that a vtgate sends to any one shard of a keyspace, some of which have no primary."""

CanSee = Callable[[QueueName], bool]


class Visibility:
    """See the module. For one session."""

    def __init__(self, session: ClientSession, engine: Engine, traits: BackendTraits) -> None:
        self._session, self._engine, self._traits = session, engine, traits

    async def can_see(self) -> CanSee:
        """Which queues the session may know of: any right on one will do."""
        return await self._names(_VISIBLE)

    async def reads(self) -> CanSee:
        """Of which queues, and tables of schedules, the session may know what is in them and who reads them: where
        accounts are the database's, those on which it has SELECT."""
        return await self._names(_READABLE)

    async def selects(self, database: str | None, like: str | None) -> CanSee:
        """Which queues of a SHOW with FROM and LIKE the session may know the content of."""
        pattern = like_pattern("%" if like is None else like)
        can_see = await self.reads()
        return lambda name: database in (None, name.database) and pattern(name.table) and can_see(name)

    async def _names(self, tables: str) -> CanSee:
        """What the session may know of; `tables`: from the database, where accounts are its own."""
        if self._session.rights is not None:
            return self._session.rights.can_see
        if not self._traits.accounts:
            return lambda name: True
        if keyspaces := self._engine.catalog.keyspaces:
            return (await self._in_keyspaces(tables, keyspaces)).__contains__
        rows = (await self.collect(tables)).each(2)
        names = {QueueName(self.text(database), self.text(table)) for database, table in rows}
        return names.__contains__

    async def _in_keyspaces(self, tables: str, keyspaces: Keyspaces) -> set[QueueName]:
        """Of a Vitess, whose tables are listed by keyspace, under another name (engine.backend.servers)."""
        names = set()
        for keyspace in keyspaces:
            sql = f"{tables} AND TABLE_SCHEMA = {plain_literal(keyspace)}"
            # Each try is at another shard, by chance. A keyspace without any primary hides its own queues only.
            for _ in range(_SHARD_TRIES if keyspaces.shards_of(keyspace) else 1):
                try:
                    names |= {QueueName(keyspace, self.text(table)) for _, table in (await self.collect(sql)).each(2)}
                except BackendError as error:
                    if is_without_primary(error.errno, error.message):
                        continue
                break
        return names

    async def streams(self, streams: Sequence[SubscriptionStatus]) -> list[SubscriptionStatus]:
        """Its own; others' as far as the process list shows them to this account."""
        session = self._session
        if session.rights is None and not self._traits.accounts:
            return list(streams)
        own = [stream for stream in streams if stream.receiver.user == session.identity.user]
        if session.rights is not None:
            return list(streams) if session.admin else own
        if len(own) == len(streams):
            return own
        # With their users: the id of a connection that is gone may be that of another one by now.
        listed = {(number(id_), self.text(user)) for id_, user in (await self.collect(_PROCESSES)).each(2)}
        return [
            stream
            for stream in streams
            if stream in own or (stream.receiver.connection_id, stream.receiver.user) in listed
        ]

    async def can_see_user(self) -> CanSeeUser:
        """Of whose connections the session may know, also of those that have ended."""
        all_, own = await self.all_connections(), self._session.identity.user
        return lambda user: all_ or user == own

    async def all_connections(self) -> bool:
        """Whether the session may know of all connections."""
        session = self._session
        if session.rights is not None:
            return session.admin
        return not self._traits.accounts or bool((await self.collect(_CAN_SEE_PROCESSES)).rows)

    async def may_read(self, queue: QueueName) -> bool:
        """Whether the account may read of what messages of a queue failed."""
        try:
            await self.collect(f"SELECT last_error FROM {queue.sql} LIMIT 0")
            await self.check_own_table(queue)
        except BackendError:
            return False
        return True

    async def check_own_table(self, table: QueueName) -> None:
        """Raises BackendError: what this session can read is not the queue's or topic's table, but a temporary one."""
        if self._traits.accounts:
            await check_own_table(self._session.upstream, table)

    def may_read_notes(self, queue: QueueName) -> bool:
        """Whether the account may know what receivers have noted of messages, which may be as secret as these. Where
        accounts are the database's, the database itself is asked."""
        rights = self._session.rights
        return rights is None or rights.missing(queue, Right.RECEIVE) is None

    def redacted(self, problem: str) -> str:
        """A problem, redacted for the session: a database's own accounts and files are not for
        accounts with limits."""
        return problem if self._session.rights is None else redacted_problem(problem)

    def queue(self, name: QueueName) -> QueueSpec:
        """The queue of that name, also one that is not delivered (QueueCatalog.unfit). Raises QueueNotFound."""
        queue = self._engine.catalog.get(name) or self._engine.catalog.unfit.get(name)
        if queue is None:
            raise QueueNotFound(f"Table '{name}' doesn't exist or is not a queue")
        return queue

    async def collect(self, sql: str) -> Collected:
        """The rows of a statement on the session's own connection. Raises BackendError."""
        return await collected(self._session.upstream, sql)

    def text(self, value: TextValue) -> str:
        """A value as text."""
        return (value or b"").decode("utf-8", "replace")
