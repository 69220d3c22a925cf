"""What a topic holds, and what it must retain for its consumer groups, in SQL. Blocking; runs in a thread."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from engine.backend.base import StoreConnection
from engine.model.errors import InvalidQueueTable, MissingTableAllowed
from engine.model.option_values import NS_PER_SECOND
from engine.model.options import UNTIL_CONSUMED, from_comment
from engine.model.queue import QUEUE_MARK, QueueName, QueueSpec
from engine.model.topics import GroupPosition, TopicExtent, may_be_group_of
from engine.store.gate import COMMENT
from engine.store.operations.feed import position_of
from engine.store.statements.topics import (
    MESSAGES_COUNTED_MAX,
    PositionStatements,
    RetentionStatements,
    TopicStatements,
)

# What a topic must retain for its consumer groups, in SQL. Blocking; runs in a thread.

NO_BOUND = (1 << 63) - 1


def positions_of(connection: StoreConnection, sql: str, groups: Iterable[QueueSpec]) -> dict[QueueName, GroupPosition]:
    """How far groups have read. `sql`: the statement that reads the position of one, and may lock it."""
    read: dict[QueueName, GroupPosition] = {}
    for group in sorted(groups, key=lambda group: group.name):  # one order, so that two of us do not deadlock
        rows = connection.query(sql, (group.name.table,))
        read[group.name] = position_of(rows) if rows else GroupPosition(0, 0)
    return read


def has_unknown_groups(
    connection: StoreConnection, positions: PositionStatements, topic: QueueName, known: Container[QueueName]
) -> bool:
    """Whether the topic may have a group that has a position and is not among the known ones: one that another process
    has just created, and whose notification has not arrived yet."""
    if not positions.shared:
        return False
    tables: list[QueueName] = []
    with MissingTableAllowed():
        tables = [QueueName(topic.database, str(table)) for (table,) in connection.query(positions.all)]
    unknown = [table for table in tables if table not in known and may_be_group_of(topic, table)]
    return any(_is_group_of(connection, topic, table) for table in unknown)


def _is_group_of(connection: StoreConnection, topic: QueueName, table: QueueName) -> bool:
    """Whether a table is there, and is a group of that topic, or may be. A group that was dropped leaves its position,
    and the name alone may be that of a group of another topic, or of a topic with numbers."""
    rows = connection.query(COMMENT, (table.database, table.table))
    if not rows or QUEUE_MARK not in str(rows[0][0]):
        return False
    try:
        return from_comment(str(rows[0][0]), table.table).topic == topic.table
    except InvalidQueueTable:
        return True


def first_retained(
    connection: StoreConnection,
    statements: RetentionStatements,
    groups: Sequence[QueueSpec],
    read: Mapping[QueueName, GroupPosition],
) -> int:
    """The smallest offset that must be retained for one of the groups."""
    safe = (group for group in groups if group.options.retain == UNTIL_CONSUMED)
    return min((_first_undone(connection, statements, group, read[group.name]) for group in safe), default=NO_BOUND)


def _first_undone(
    connection: StoreConnection, statements: RetentionStatements, group: QueueSpec, position: GroupPosition
) -> int:
    first = connection.query(statements.first_undone(group))[0][0]
    return position.first_unread if first is None else min(int(first), position.first_unread)


# What a topic has, asked at little cost. Blocking; runs in a thread.

_MINUTE_NS = 60 * NS_PER_SECOND


def read_extent(connection: StoreConnection, statements: TopicStatements, topic: QueueName) -> TopicExtent:
    """What a topic has."""
    ((first, last),) = connection.query(statements.bounds)
    counted = int(connection.query(statements.messages)[0][0])
    if first is None:  # or no message has a number yet
        return TopicExtent(None, None, counted, _size(connection, statements, topic), 0)
    first, last = int(first), int(last)
    messages = counted if counted < MESSAGES_COUNTED_MAX else max(counted, last - first + 1)
    now_ns = int(connection.query(statements.now_and_last)[0][0])
    (recent,) = connection.query(statements.first_since, (now_ns - _MINUTE_NS,))[0]
    last_minute = 0 if recent is None else max(0, last - int(recent) + 1)
    return TopicExtent(first, last, messages, _size(connection, statements, topic), last_minute)


def _size(connection: StoreConnection, statements: TopicStatements, topic: QueueName) -> int | None:
    """In bytes; None where the database does not say it."""
    rows = connection.query(statements.bytes, (topic.database, topic.table)) if statements.bytes else ()
    return int(rows[0][0]) if rows and rows[0][0] is not None else None
