"""MySQL and MariaDB: the words of the dialect, and how marked tables are listed."""

from __future__ import annotations

from engine.backend.base import StoreConnection
from engine.catalog import IndexInfo, TableInfo
from engine.errors import BackendError
from engine.model import QUEUE_MARK, QueueName
from engine.statements.dialect import Dialect

_NO_SUCH_TABLE = 1146

MARKED_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_COMMENT LIKE ?"
    " AND TABLE_SCHEMA NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')"
    " ORDER BY TABLE_SCHEMA, TABLE_NAME"
)
"""Every table, of any database we may see, whose comment carries the mark."""

INDEX_COLUMNS = (
    "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
"""A table's indexes, column by column."""


def list_tables(connection: StoreConnection) -> list[TableInfo]:
    """Every marked table. One that is dropped while we read is left out."""
    tables = []
    for database, table, comment in connection.query(MARKED_TABLES, (f"%{QUEUE_MARK}%",)):
        if QUEUE_MARK not in comment:
            continue  # LIKE compares without case and takes '_' for any character
        try:
            columns = connection.describe(database, table)
        except BackendError as error:
            if error.errno != _NO_SUCH_TABLE:
                raise
            continue
        tables.append(TableInfo(QueueName(database, table), comment, columns, _indexes(connection, database, table)))
    return tables


def _indexes(connection: StoreConnection, database: str, table: str) -> tuple[IndexInfo, ...]:
    columns: dict[str, list[str]] = {}
    unique: dict[str, bool] = {}
    for index, non_unique, column in connection.query(INDEX_COLUMNS, (database, table)):
        columns.setdefault(index, []).append(str(column).lower())  # NULL for an expression: no column of that name
        unique[index] = not int(non_unique)
    return tuple(IndexInfo(tuple(names), unique[index]) for index, names in columns.items())


MYSQL = Dialect(
    name="mysql",
    now_ns="(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000)",
    skip_locked="FOR UPDATE SKIP LOCKED",
    list_tables=list_tables,
)
