"""SQLite: the syntax of the dialect, and how marked tables are listed.

SQLite keeps no table comments, so the embedded backend keeps them in a table of its own, queuegate_meta_tables (name,
comment, definition). Its only database is called `main`. Times have milliseconds: SQLite 3.40 offers no finer clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from engine.backend.base import StoreConnection
from engine.model.queue import QUEUE_MARK, ColumnMeta, IndexInfo, QueueName
from engine.model.schedules import SCHEDULES_MARK
from engine.model.states import MARK_OF_SQLITE
from engine.model.topic_options import TOPIC_MARK
from engine.store.catalog import TableInfo
from engine.store.gate import Gate
from engine.store.statements.dialect import Dialect

DATABASE = "main"

DECIMAL_DIGITS_MAX = 15
"""Digits of a DECIMAL that an 8-byte number keeps, and so the most that an id may have."""

_DECIMALS = frozenset((0, 246))  # DECIMAL and NEWDECIMAL of the protocol
_UNSIGNED = 0x20  # a flag of a column

META_EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'queuegate_meta_tables'"
"""Whether any table ever had a comment."""

MARKED_TABLES = (
    "SELECT m.name, m.comment, m.definition || s.texts FROM queuegate_meta_tables AS m"
    " JOIN (SELECT tbl_name, group_concat(sql) AS texts FROM sqlite_master"
    " GROUP BY tbl_name HAVING max(type = 'table')) AS s ON s.tbl_name = m.name"
    " WHERE instr(m.comment, ?) > 0 OR instr(m.comment, ?) = 1 OR instr(m.comment, ?) = 1 ORDER BY m.name"
)
"""Every existing table whose comment has the mark, with its definition and its indexes."""

KEY_COLUMNS = "SELECT lower(name) FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk"
"""The primary key, which is no index where it is the rowid."""

INDEX_COLUMNS = (
    'SELECT i.name, i."unique", lower(c.name) FROM pragma_index_list(?) AS i, pragma_index_info(i.name) AS c'
    " WHERE NOT i.partial ORDER BY i.seq, c.seqno"
)
"""A table's indexes, column by column."""

GENERATED_COLUMNS = "SELECT lower(name) FROM pragma_table_xinfo(?) WHERE hidden IN (2, 3)"
"""A table's columns that are computed."""


def list_tables(
    connection: StoreConnection, known: Mapping[QueueName, TableInfo], named: Collection[QueueName] | None = None
) -> list[TableInfo]:
    """See ListTables. The definitions come with the names here."""
    if not connection.query(META_EXISTS):
        return []
    read = []
    for table, comment, definition in connection.query(MARKED_TABLES, (QUEUE_MARK, TOPIC_MARK, SCHEDULES_MARK)):
        name = QueueName(DATABASE, table)
        before = known.get(name)
        if before is None or not before.still_is(comment, definition):
            before = _read(connection, name, comment, definition)
        read.append(before)
    return read


def unfit_id(column: ColumnMeta) -> str | None:
    """Why no queue can have ids of this type here, None where it can. A DECIMAL of more digits than a number
    of SQLite's keeps is stored as a text that sorts as the numbers do, which is not the text that names a message."""
    point = 1 if column.decimals else 0
    sign = 0 if column.flags & _UNSIGNED else 1
    if column.type not in _DECIMALS or column.length - point - sign <= DECIMAL_DIGITS_MAX:
        return None
    return f"id is a DECIMAL of more than {DECIMAL_DIGITS_MAX} digits: give it fewer, or BIGINT, VARCHAR or VARBINARY"


def _read(connection: StoreConnection, name: QueueName, comment: str, definition: str) -> TableInfo:
    columns = connection.describe(DATABASE, name.table)
    return TableInfo(
        name,
        comment,
        columns,
        _indexes(connection, name.table),
        frozenset(str(row[0]) for row in connection.query(GENERATED_COLUMNS, (name.table,))),
        definition=definition,
        unfit=next((unfit_id(column) for column in columns if column.name.lower() == "id"), None),
    )


def _indexes(connection: StoreConnection, table: str) -> tuple[IndexInfo, ...]:
    columns: dict[str, list[str]] = {}
    unique: dict[str, bool] = {}
    for index, is_unique, column in connection.query(INDEX_COLUMNS, (table,)):
        columns.setdefault(index, []).append(str(column))
        unique[index] = bool(is_unique)
    # Index names are unique in the whole file, so the table's stands before them.
    named = {index: str(index).rpartition(":")[2] for index in columns}
    key = tuple(str(row[0]) for row in connection.query(KEY_COLUMNS, (table,)))
    return (
        IndexInfo(key, True),
        *(IndexInfo(tuple(names), unique[index], named[index]) for index, names in columns.items()),
    )


def zone_offsets(connection: StoreConnection, zone: str, moments: Sequence[int]) -> Sequence[int]:
    """See Dialect: the machine's own zones."""
    known = None if zone.upper() == "SYSTEM" else ZoneInfo(zone)
    shown = (datetime.fromtimestamp(moment, UTC).astimezone(known).utcoffset() for moment in moments)
    return [0 if offset is None else int(offset.total_seconds()) for offset in shown]


SQLITE = Dialect(
    name="sqlite",
    gate=Gate(""),
    now_ns="(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000000)",
    skip_locked="",  # a writing transaction has the file to itself
    lock="",
    lock_at_once="",
    force_index="",
    make_limits=(
        "CREATE TABLE IF NOT EXISTS {database}.queuegate_limits"
        " (queue_name TEXT NOT NULL PRIMARY KEY, arrival_ns INTEGER NOT NULL DEFAULT 0)"
    ),
    add_limits="INSERT OR IGNORE INTO {database}.queuegate_limits (queue_name) VALUES (?)",
    list_tables=list_tables,
    mark=MARK_OF_SQLITE,
    moment="{}",  # what reads rows makes the seconds
    zone_offsets=zone_offsets,
    checks_values=False,
)
