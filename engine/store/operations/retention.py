"""Retention of a topic, in SQL. Blocking; runs in a thread, inside a transaction of its caller.

The positions of the topic's groups are locked while messages are deleted: so no group is fed meanwhile, and it is known
for each message which groups had not read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend.base import Statement, StoreConnection
from engine.model.errors import LockWaitTimeout
from engine.model.queue import QueueSpec, TopicSpec
from engine.model.topic_options import TopicOptions
from engine.model.topic_partitions import NO_GRACE, Grace
from engine.model.topics import RetentionResult
from engine.store.gate import check_mark
from engine.store.operations.retained_for_groups import first_retained, has_unknown_groups, positions_of
from engine.store.statements.topics import PositionStatements, RetentionStatements, TopicStatements


def retain(
    connection: StoreConnection,
    positions: PositionStatements,
    statements: RetentionStatements,
    log: TopicStatements,
    topic: TopicSpec,
    groups: Sequence[QueueSpec],
    limit: int,
    grace: Grace = NO_GRACE,
) -> RetentionResult:
    """Delete up to `limit` messages beyond the topic's retention, except those that a group needs, or that are locked
    now. Nothing, as long as there is a group that `groups` lacks. Raises LockWaitTimeout where `limit` are locked,
    and so all that were examined."""
    read = positions_of(connection, positions.lock, groups)
    floor = first_retained(connection, statements, groups, read)
    excess = _excess(connection, statements, log, topic, floor, limit, grace)
    if not excess or has_unknown_groups(connection, positions, topic.name, read):
        return RetentionResult(0, False, {})
    # A DELETE would wait for what a client has locked, and no group would be fed meanwhile.
    ids = [int(row[0]) for row in connection.query(statements.locked(len(excess)), excess)]
    if not ids and len(excess) == limit:  # what is behind them is not examined
        raise LockWaitTimeout(f"a client has locked the {limit} oldest messages")
    if not ids:
        return RetentionResult(0, False, {})
    check_mark(connection, statements.table)
    if len(ids) == len(excess):
        connection.execute(statements.delete(len(ids)), ids)
    else:  # each by itself: for many a server may read what is between them, and wait for it
        connection.run([Statement(statements.delete(1), (id_,)) for id_ in ids])
    lost = {name: count for name, position in read.items() if (count := position.unread(ids))}
    for name, count in lost.items():
        connection.execute(positions.lose, (count, name.table))
    return RetentionResult(len(ids), len(excess) == limit, lost)


def _excess(
    connection: StoreConnection,
    statements: RetentionStatements,
    log: TopicStatements,
    topic: TopicSpec,
    floor: int,
    limit: int,
    grace: Grace,
) -> list[int]:
    """Up to `limit` messages beyond the topic's retention by age or by size, below `floor`."""
    options = topic.options
    now_ns, last = map(int, connection.query(log.now_and_last)[0])
    ids: set[int] = set()
    if options.retain_ns is not None:
        before = now_ns - options.retain_ns - grace.nanoseconds
        older = [int(row[0]) for row in connection.query(statements.older, (before, before, limit))]
        # Not in the statement: it would read all of a long backlog each time, to find nothing.
        ids.update(id_ for id_ in older if id_ < floor)
    end = min(last_excess(connection, statements, options, last) - grace.ids, floor - 1)
    if end > 0:
        ids.update(int(row[0]) for row in connection.query(statements.up_to, (end, limit)))
    return sorted(ids)[:limit]


def last_excess(connection: StoreConnection, statements: RetentionStatements, options: TopicOptions, last: int) -> int:
    """The id up to which messages are beyond `retain_rows` or `retain_bytes`, whatever their age; 0: none are. `last`:
    the topic's last id."""
    sizes = [] if options.retain_rows is None else [options.retain_rows]
    if options.retain_bytes is not None and (size := connection.query(statements.size)[0][0]):
        sizes.append(int(options.retain_bytes / float(size)))
    return max(0, last - min(sizes)) if sizes else 0
