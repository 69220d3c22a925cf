"""MySQL and MariaDB: the words of the dialect, and how marked tables are listed."""

from __future__ import annotations

from engine.backend.base import StoreConnection
from engine.catalog import TableInfo
from engine.errors import BackendError, LockWaitTimeout
from engine.model import QUEUE_MARK, IndexInfo, QueueName
from engine.statements.dialect import Dialect

_NO_SUCH_TABLE = 1146

MARKED_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_COMMENT LIKE ?"
    " AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')"
    " ORDER BY TABLE_SCHEMA, TABLE_NAME"
)
"""Every table, of any database we may see, whose comment carries the mark."""

WITHOUT_WAITING = (
    "SET @queuegate_lock_wait = @@lock_wait_timeout,"
    " SESSION lock_wait_timeout = IF(VERSION() LIKE '%MariaDB%', 0, 1)"  # MySQL knows nothing shorter than a second
)
"""Reading the catalog must not wait for a table that somebody holds: a dump being restored locks each for its time."""

AS_BEFORE = "SET SESSION lock_wait_timeout = @queuegate_lock_wait"

INDEX_COLUMNS = (
    "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
"""A table's indexes, column by column."""

GENERATED_COLUMNS = (
    "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
    " AND (EXTRA LIKE '%VIRTUAL GENERATED%' OR EXTRA LIKE '%STORED GENERATED%')"  # not MySQL's DEFAULT_GENERATED
)
"""A table's columns that are computed."""


def list_tables(connection: StoreConnection) -> list[TableInfo]:
    """Every marked table. One that is dropped while we read is left out."""
    connection.execute(WITHOUT_WAITING)
    try:
        marked = connection.query(MARKED_TABLES, (f"%{QUEUE_MARK}%",))
        # LIKE compares without case and takes '_' for any character.
        read = [_read(connection, QueueName(*name), comment) for *name, comment in marked if QUEUE_MARK in comment]
    finally:
        connection.execute(AS_BEFORE)
    return [table for table in read if table is not None]


def _read(connection: StoreConnection, name: QueueName, comment: str) -> TableInfo | None:
    try:
        columns = connection.describe(name.database, name.table)
    except LockWaitTimeout:
        return TableInfo(name, comment, locked=True)
    except BackendError as error:
        if error.errno != _NO_SUCH_TABLE:
            raise
        return None
    generated = connection.query(GENERATED_COLUMNS, (name.database, name.table))
    indexes = _indexes(connection, name.database, name.table)
    return TableInfo(name, comment, columns, indexes, frozenset(str(row[0]).lower() for row in generated))


def _indexes(connection: StoreConnection, database: str, table: str) -> tuple[IndexInfo, ...]:
    columns: dict[str, list[str]] = {}
    unique: dict[str, bool] = {}
    for index, non_unique, column in connection.query(INDEX_COLUMNS, (database, table)):
        columns.setdefault(index, []).append(str(column).lower())  # NULL for an expression: no column of that name
        unique[index] = not int(non_unique)
    return tuple(IndexInfo(tuple(names), unique[index], index) for index, names in columns.items())


MYSQL = Dialect(
    name="mysql",
    now_ns="(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000)",
    skip_locked="FOR UPDATE SKIP LOCKED",
    lock="FOR UPDATE",
    force_index="FORCE INDEX ({index})",  # by its own estimates it may read all that is unacked for each message
    make_limits=(
        "CREATE TABLE IF NOT EXISTS {database}.queuegate_limits (queue_name VARCHAR(64) CHARACTER SET utf8mb4"
        " COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, arrival_ns BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB"
        " COMMENT='queuegate: locked for each claim of a queue with limits'"
    ),
    add_limits="INSERT IGNORE INTO {database}.queuegate_limits (queue_name) VALUES (?)",
    list_tables=list_tables,
    partitions=True,
)
