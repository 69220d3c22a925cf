"""GroupTable: event groups in SQL, for the safety scan: groups that became done without their parked messages being
released.

Acks around the proxy, and statement forms that it cannot read, settle messages without a check of their group. Each
such group is completed in a transaction of its own, which a thread runs on a READ COMMITTED connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.base import StoreConnection, StorePool
from engine.model.errors import BackendError
from engine.model.groups import NO_SUCH_COLUMN, FindQueue, GroupKey, GroupPage, GroupPlace
from engine.model.identity import id_kind
from engine.model.queue import MessageId, QueueName, QueueSpec
from engine.store.statements.dialect import Dialect
from engine.store.statements.groups import GroupStatements, create_groups
from engine.store.topic_state import Define

GROUPS_PAGE = 200
"""Parked messages whose groups are checked together: each is one query by an index."""


class GroupTable:
    """See the module. The methods are those of GroupStore."""

    def __init__(self, pool: StorePool, dialect: Dialect, define: Define) -> None:
        self._pool, self._dialect, self._define = pool, dialect, define

    async def make(self, group: GroupKey) -> None:
        statements = GroupStatements(self._dialect, group)
        try:
            await self._pool.read(lambda connection: connection.query(statements.exists))
        except BackendError:
            await self._define(create_groups(group.queue.database))

    async def read(self, group: GroupKey, after: GroupPlace | None) -> GroupPage:
        statements = GroupStatements(self._dialect, group)
        return await self._pool.read(lambda c: _read_page(c, statements, group, after))

    async def complete(self, group: GroupKey, value: str, find: FindQueue) -> list[QueueName]:
        statements = GroupStatements(self._dialect, group)
        return await self._pool.write(lambda c: _complete(c, statements, group, value, find))


def _read_page(
    connection: StoreConnection, statements: GroupStatements, group: GroupKey, after: GroupPlace | None
) -> GroupPage:
    """The groups of the next parked messages that seem to be done."""
    if after is None:
        rows = connection.query(statements.first_parked, (group.queue.table, GROUPS_PAGE))
    else:
        rows = connection.query(statements.next_parked, (group.queue.table, after[0], *after, GROUPS_PAGE))
    done = _done(connection, statements, group, rows)
    return GroupPage(list(done), rows[-1] if len(rows) == GROUPS_PAGE else None)


def _done(
    connection: StoreConnection, statements: GroupStatements, group: GroupKey, rows: Sequence[tuple[str, ...]]
) -> dict[str, None]:
    """The groups of these parked messages that are done. Each value by itself, as the queue's own column compares it:
    values that the table of groups takes for equal may be two groups."""
    values = dict.fromkeys(row[0] for row in rows)
    return {value: None for value in values if _is_done(connection, statements, group, value)}


def _complete(
    connection: StoreConnection, statements: GroupStatements, group: GroupKey, value: str, find: FindQueue
) -> list[QueueName]:
    """Make the messages that are parked for a done group due, in queues of its database, and those for done groups
    whose values the table of groups takes for equal; returns these queues. In one transaction, with its rows locked
    before the last check of each group."""
    parked = connection.query(statements.parked, (group.queue.table, value))
    done = _done(connection, statements, group, parked)
    sent: list[QueueName] = []
    for database, table, id_ in (message for own, *message in parked if own in done):
        # An account that may write to this table may have no privileges in another database.
        follow = find(QueueName(database, table)) if database == group.queue.database else None
        if follow is None:
            continue  # no queue at the moment; it may be one again
        connection.execute(statements.fire(follow), (_id(follow, id_),))
        connection.execute(statements.forget, (database, table, id_))
        sent.append(follow.name)
    return sent


def _is_done(connection: StoreConnection, statements: GroupStatements, group: GroupKey, value: str) -> bool:
    bound = _value(group, value)
    if bound is None:
        return False
    # A message may move between the two, in both directions, meanwhile: so the first one is checked twice.
    return not (
        connection.query(statements.open, (bound,))
        or _is_dead(connection, statements, group, bound)
        or connection.query(statements.open, (bound,))
    )


def _is_dead(connection: StoreConnection, statements: GroupStatements, group: GroupKey, bound: int | str) -> bool:
    for sql, params in ((statements.open_dead, (bound,)), (statements.any_dead, ())):
        try:
            return bool(connection.query(sql, params))
        except BackendError as error:
            if error.errno == NO_SUCH_COLUMN:
                continue
            if not group.misses(error.errno):
                raise
            return False
    return False  # no queue at all


def _value(group: GroupKey, text: str) -> int | str | None:
    if not group.integer:
        return text
    return int(text) if text.removeprefix("-").isdecimal() else None  # None: the column was another once


def _id(follow: QueueSpec, text: str) -> MessageId:
    column = follow.column("id")
    assert column is not None
    return int(text) if id_kind(column).value == "integer" and text.isdecimal() else text
