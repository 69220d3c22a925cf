"""Statements for tables partitioned by RANGE of their id, which are purged by whole partitions. MySQL, MariaDB."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.queue import QueueName, QueueSpec, quoted
from engine.store.statements.dialect import Dialect

# The table `queuegate_archive`, in which an archiving job says how far it has come.
#
# A queue with the option `archive` is not purged beyond that (docs/archive.md). Each database has its own table.

ARCHIVE_TABLE = "queuegate_archive"


def archived_until(dialect: Dialect, database: str) -> str:
    """Until which time_acked queue `?` is archived, as a value. A table of an earlier version, or of a job, may take
    the names of two queues for equal."""
    table = dialect.gate.own(database, ARCHIVE_TABLE)
    return f"(SELECT archived_until FROM {table} WHERE {dialect.exact('queue')} = ?)"


def make_table(database: str) -> str:
    """Its definition. `archived_until`: every message with a time_acked up to this is archived."""
    return (
        f"CREATE TABLE IF NOT EXISTS {QueueName(database, ARCHIVE_TABLE).sql}"
        " (queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,"
        " archived_until BIGINT NOT NULL) ENGINE=InnoDB"
    )


BY_ID = (
    "SELECT PARTITION_NAME, PARTITION_DESCRIPTION, TABLE_ROWS FROM information_schema.PARTITIONS"
    " WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND PARTITION_METHOD IN ('RANGE', 'RANGE COLUMNS')"
    " AND SUBPARTITION_METHOD IS NULL AND LOWER(REPLACE(PARTITION_EXPRESSION, '`', '')) = 'id'"
    " ORDER BY PARTITION_ORDINAL_POSITION"
)
"""The partitions of a table that is partitioned so; none otherwise. The number of rows is the server's estimate."""

SHORT_WAIT = "SET @queuegate_lock_wait = @@lock_wait_timeout, SESSION lock_wait_timeout = 1"
"""Other statements on the table queue behind a pending table lock."""

WAIT_AS_BEFORE = "SET SESSION lock_wait_timeout = @queuegate_lock_wait"

UNLOCK = "UNLOCK TABLES"


class PartitionStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        self.table = table = dialect.gate.of(queue)
        now_ns, archived = dialect.now_ns, archived_until(dialect, queue.name.database)
        self.cutoff = f"SELECT {now_ns} - ? - 1"
        """The latest time_acked that is old enough."""

        self.cutoff_archived = f"SELECT LEAST({now_ns} - ? - 1, {archived})"
        """The latest time_acked that is old enough and archived; NULL where the archive does not know the queue."""

        self.followed = f"SELECT 1 FROM {table} WHERE id >= ? LIMIT 1"
        """Whether messages are written beyond a partition's bound."""

        self.lock = f"LOCK TABLES {table.target} WRITE"

    def unacked(self, partition: str) -> str:
        """Whether there is one in it."""
        return f"SELECT 1 FROM {self.table.partition((partition,))} WHERE time_acked IS NULL LIMIT 1"

    def young(self, partition: str) -> str:
        """Whether one of it was acked after `?`."""
        return f"SELECT 1 FROM {self.table.partition((partition,))} WHERE time_acked > ? LIMIT 1"

    def drop(self, partition: str) -> str:
        """Delete all of it."""
        return f"ALTER TABLE {self.table.target} DROP PARTITION {quoted(partition)}"

    def purgeable(self, partitions: Sequence[str], lock: str) -> str:
        """Messages in these partitions acked up to `?`, oldest first."""
        rows = f"SELECT id FROM {self.table.partition(partitions)} WHERE time_acked <= ?"
        return f"{rows} ORDER BY time_acked LIMIT ? {lock}"
