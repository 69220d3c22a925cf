"""Purging whole partitions: what is old enough of a table that is partitioned by RANGE of its id is dropped.

Why by id: a unique key of a partitioned table must contain the partition's column, and a queue's id is a unique key; so
only the id is possible. Ascending ids, as from AUTO_INCREMENT, are as good as time.

A partition is dropped when every message in it is acked, old enough and, where that is required, archived, and when
later messages exist beyond it: the partition that is being filled stays. This is checked twice, the second time under a
lock on the table, which waits for every transaction that has touched it; so no message that was un-acked, or written
into it, at the same moment can be lost. A message that is never acked prevents the drop for ever: then the other
messages of that partition are deleted row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.identity import from_text, id_kind
from engine.model.queue import QueueSpec
from engine.store.base import PartitionPurge, Stuck
from engine.store.gate import check_mark
from engine.store.operations.due_messages import id_column, not_null
from engine.store.operations.lease import delete_acked
from engine.store.statements import partitions
from engine.store.statements.partitions import PartitionStatements
from engine.store.statements.queue import QueueStatements


@dataclass(frozen=True, slots=True)
class _Partition:
    name: str
    bound: int
    rows: int


def purge_partitions(
    connection: StoreConnection, statements: PartitionStatements, queue: QueueSpec
) -> PartitionPurge | None:
    """MessageStore.purge_partitions. Outside any transaction."""
    partition_rows = connection.query(partitions.BY_ID, (queue.name.database, queue.name.table))
    if not partition_rows:
        return None
    cutoff = _cutoff(connection, statements, queue)
    messages, retained, refused = 0, [], ""
    for name, bound, rows in partition_rows[:-1] if cutoff is not None else ():
        partition = _Partition(str(name), int(bound), int(rows or 0))
        if not connection.query(statements.followed, (partition.bound,)):
            break
        if connection.query(statements.young(partition.name), (cutoff,)):
            continue
        if connection.query(statements.unacked(partition.name)):
            retained.append(partition.name)
            continue
        try:
            if _drop(connection, statements, partition, cutoff or 0):
                messages += partition.rows
        except BackendUnavailable:
            raise
        except BackendError as error:  # the privilege is missing: then row by row
            refused = str(error)
            retained.append(partition.name)
    return PartitionPurge(messages, tuple(retained), cutoff or 0, refused)


def purge_rows(
    connection: StoreConnection,
    statements: PartitionStatements,
    of_queue: QueueStatements,
    queue: QueueSpec,
    purged: PartitionPurge,
    limit: int,
    stuck: Stuck | None = None,
) -> int:
    """Delete up to `limit` messages that are old enough in the partitions that cannot be dropped."""
    id_ = id_column(queue)
    sql = statements.purgeable(purged.retained, of_queue.skip_locked)
    rows = connection.query_text(sql, (purged.cutoff_ns, limit + len(stuck or ())), (id_,))
    ids = [from_text(id_kind(id_), not_null(row[0])) for row in rows]
    return delete_acked(connection, of_queue, ids, limit, stuck)


def _cutoff(connection: StoreConnection, statements: PartitionStatements, queue: QueueSpec) -> int | None:
    after_ns = queue.options.purge_after_ns
    if queue.options.archive:
        value = connection.query(statements.cutoff_archived, (after_ns, queue.name.table))[0][0]
    else:
        value = connection.query(statements.cutoff, (after_ns,))[0][0]
    return None if value is None else int(value)


def _drop(connection: StoreConnection, statements: PartitionStatements, partition: _Partition, cutoff: int) -> bool:
    """Lock, check again, drop. False where something has changed, or the table is in use for too long."""
    connection.execute(partitions.SHORT_WAIT)
    try:
        connection.execute(statements.lock)
        try:
            if connection.query(statements.unacked(partition.name)):
                return False
            if connection.query(statements.young(partition.name), (cutoff,)):
                return False
            check_mark(connection, statements.table)
            connection.execute(statements.drop(partition.name))
            return True
        finally:
            connection.execute(partitions.UNLOCK)
    except LockWaitTimeout:
        return False
    finally:
        connection.execute(partitions.WAIT_AS_BEFORE)
