"""Creating a topic's partitions ahead of its ids, in SQL. Blocking; runs in a thread, outside any transaction.

It locks the table, which waits for each transaction that has touched it: so a partition that seems empty is empty, and
dividing it copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from engine.backend.base import StoreConnection
from engine.model.errors import LockWaitTimeout
from engine.model.queue import QueueName, TopicSpec
from engine.model.topic_partitions import (
    COPIED_MAX,
    Division,
    Partition,
    by_hand,
    current,
    division,
    division_of_last,
    read_partitions,
    wanted_width,
)
from engine.store.base import DivideResult
from engine.store.gate import check_mark
from engine.store.statements.partitions import BY_ID, SHORT_WAIT, UNLOCK, WAIT_AS_BEFORE
from engine.store.statements.topic_partitions import TopicPartitionStatements, next_id
from engine.store.statements.topics import RetentionStatements, TopicStatements

_COPIED_BYTES_MAX = 64 << 20  # about a second, and the connection does not wait for much longer

ON_A_CLUSTER = "partition: not supported on a Galera cluster; messages are deleted row by row"


@contextmanager
def locked(connection: StoreConnection, statements: TopicPartitionStatements) -> Iterator[None]:
    """Lock the table against all other reads and writes. Raises LockWaitTimeout after a second, BackendError."""
    connection.execute(SHORT_WAIT)
    try:
        connection.execute(statements.lock)
        try:
            yield
        finally:
            connection.execute(UNLOCK)
    finally:
        connection.execute(WAIT_AS_BEFORE)


def partitions_of(connection: StoreConnection, topic: QueueName) -> tuple[Partition, ...]:
    """The partitions of a topic; none where it is not partitioned by RANGE of its id."""
    rows = connection.query(BY_ID, (topic.database, topic.table))
    return read_partitions([(name, bound) for name, bound, _ in rows])


def divide(
    connection: StoreConnection,
    statements: TopicPartitionStatements,
    log: TopicStatements,
    retention: RetentionStatements,
    topic: TopicSpec,
) -> DivideResult:
    """Create partitions ahead, where they are needed.

    Raises:
        BackendError: the privilege is missing.
    """
    if connection.replicates:
        return DivideResult(whole=False, width=0, problem=ON_A_CLUSTER)
    plan = _plan(connection, statements, log, retention, topic)
    if plan.wanted is not None:
        try:
            with locked(connection, statements):
                plan = _plan(connection, statements, log, retention, topic)
                if plan.wanted is not None:
                    check_mark(connection, statements.table)
                    connection.execute(statements.divide(plan.wanted))
        except LockWaitTimeout:
            return DivideResult(plan.whole, plan.width, plan.problem, waits=True)
    return DivideResult(plan.whole, plan.width, plan.problem)


@dataclass(frozen=True, slots=True)
class _Plan:
    """See DivideResult; `wanted`: the partitions to create."""

    whole: bool
    width: int
    wanted: Division | None = None
    problem: str | None = None


def _plan(
    connection: StoreConnection,
    statements: TopicPartitionStatements,
    log: TopicStatements,
    retention: RetentionStatements,
    topic: TopicSpec,
) -> _Plan:
    partitions = partitions_of(connection, topic.name)
    # The next id of the counter, not of the existing rows: deleted and uncommitted messages have taken ids too.
    following = next_id(str(connection.query(statements.definition)[0][1]))
    if not partitions:
        return _Plan(False, 0, problem=_not_partitioned(topic.name, following))
    width = _width(connection, log, topic, following)
    whole = partitions[0].bound is not None
    place = current(partitions, following)
    if place is None or partitions[place].bound is not None:
        return _Plan(whole, width, division(partitions, following, width))
    messages = int(connection.query(statements.messages(partitions[-1]))[0][0])
    size = float(connection.query(retention.size)[0][0] or 0)
    wanted = division_of_last(partitions, following, width)
    if messages <= COPIED_MAX and messages * size <= _COPIED_BYTES_MAX:
        return _Plan(whole, width, wanted)
    return _Plan(whole, width, problem=_no_room(statements, partitions, wanted))


def _width(connection: StoreConnection, log: TopicStatements, topic: TopicSpec, following: int) -> int:
    now_ns = int(connection.query(log.now_and_last)[0][0])
    first = connection.query(log.bounds)[0][0]
    since = connection.query(log.first_since, (now_ns - (topic.options.partition_ns or 0),))[0][0]
    taken, total = (0 if id_ is None else max(0, following - int(id_)) for id_ in (since, first))
    return wanted_width(taken, total)


def _not_partitioned(topic: QueueName, following: int) -> str:
    return (
        "partition: the table is not partitioned by RANGE (id), so messages are deleted row by row; this partitions it,"
        f" and copies it: {by_hand(topic, following)}"
    )


def _no_room(statements: TopicPartitionStatements, partitions: Sequence[Partition], wanted: Division) -> str:
    return (
        f"partition: there is no room ahead: messages are in the last partition, {partitions[-1].name}, and more than"
        f" {COPIED_MAX}, or 64 MB, are not copied to divide it. They go row by row. This divides it, with a copy:"
        f" {statements.divide(wanted)}"
    )
