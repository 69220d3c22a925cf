"""What a topic has, asked at little cost. Blocking; runs in a thread."""

from __future__ import annotations

from engine.backend.base import StoreConnection
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueName
from engine.model.topics import TopicExtent
from engine.store.statements.topics import MESSAGES_COUNTED_MAX, TopicStatements

_MINUTE_NS = 60 * NS_PER_SECOND


def read_extent(connection: StoreConnection, statements: TopicStatements, topic: QueueName) -> TopicExtent:
    """What a topic has."""
    ((first, last),) = connection.query(statements.bounds)
    counted = int(connection.query(statements.messages)[0][0])
    if first is None:  # or no message has a number yet
        return TopicExtent(None, None, counted, _size(connection, statements, topic), 0)
    first, last = int(first), int(last)
    messages = counted if counted < MESSAGES_COUNTED_MAX else max(counted, last - first + 1)
    now_ns = int(connection.query(statements.now)[0][0])
    (recent,) = connection.query(statements.first_since, (now_ns - _MINUTE_NS,))[0]
    last_minute = 0 if recent is None else max(0, last - int(recent) + 1)
    return TopicExtent(first, last, messages, _size(connection, statements, topic), last_minute)


def _size(connection: StoreConnection, statements: TopicStatements, topic: QueueName) -> int | None:
    """In bytes; None where the database does not say it."""
    rows = connection.query(statements.bytes, (topic.database, topic.table)) if statements.bytes else ()
    return int(rows[0][0]) if rows and rows[0][0] is not None else None
