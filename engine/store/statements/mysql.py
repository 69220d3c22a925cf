"""MySQL and MariaDB: the syntax of the dialect, and how marked tables are listed."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.backend.base import Answer, Statement, StoreConnection
from engine.backend.servers import is_not_known_yet
from engine.model.errors import NO_SUCH_TABLE, BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.keyspaces import Keyspaces
from engine.model.queue import ATTEMPTS_COLUMN, ERROR_COLUMNS, QUEUE_MARK, ColumnMeta, IndexInfo, QueueName
from engine.model.schedules import SCHEDULES_MARK
from engine.model.sharded import Vindex
from engine.model.topic_options import TOPIC_MARK
from engine.store.catalog import TableInfo, is_marked
from engine.store.gate import Gate
from engine.store.statements.dialect import Dialect

log = logging.getLogger("queuegate.store")

_NO_SUCH_COLUMN = 1054
_TOGETHER = 100  # statements in one packet
_KNOWN_TRIES, _KNOWN_SECONDS = 100, 0.1  # until a vtgate knows a new table; a second is usual
_COLUMN = re.compile(r"^ +`.*$", re.MULTILINE)  # in SHOW CREATE TABLE
_NEXT_ID = re.compile(r" AUTO_INCREMENT=\d+")  # changes with every row

_MARKED = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_COMMENT, ENGINE FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'BASE TABLE' AND (TABLE_COMMENT LIKE ? OR TABLE_COMMENT LIKE ? OR TABLE_COMMENT LIKE ?)"
    " AND TABLE_SCHEMA {which} ORDER BY TABLE_SCHEMA, TABLE_NAME"
)
MARKED_TABLES = _MARKED.format(which="NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')")
"""Every table, of any database we may see, whose comment carries the mark."""

_MARKED_IN_KEYSPACE = _MARKED.format(which="= ?")
"""The same in one keyspace of a Vitess, see engine.backend.servers."""

WITHOUT_WAITING = (
    "SET @queuegate_lock_wait = @@lock_wait_timeout,"
    " SESSION lock_wait_timeout = IF(VERSION() LIKE '%MariaDB%', 0, 1)"  # MySQL knows nothing shorter than a second
)
"""Reading the catalog must not wait for a locked table: a dump that is being restored locks each table for a while."""

WITHOUT_WAITING_LONG = "SET @queuegate_lock_wait = @@lock_wait_timeout, SESSION lock_wait_timeout = 1"
"""A change of a table that waits for its users has everybody else wait behind it."""

AS_BEFORE = "SET SESSION lock_wait_timeout = @queuegate_lock_wait"

INDEX_COLUMNS = (
    "SELECT INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX"
)
"""A table's indexes, column by column."""

_REASONS = (*ERROR_COLUMNS, ATTEMPTS_COLUMN)
_INVISIBLE = "(EXTRA LIKE '%INVISIBLE%')"
_COMPUTED = "(EXTRA LIKE '%VIRTUAL GENERATED%' OR EXTRA LIKE '%STORED GENERATED%')"  # not MySQL's DEFAULT_GENERATED

PECULIAR_COLUMNS = (
    f"SELECT COLUMN_NAME, {_COMPUTED}, {_INVISIBLE}, CHARACTER_SET_NAME FROM information_schema.COLUMNS"
    f" WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND ({_COMPUTED} OR {_INVISIBLE}"
    " OR (COLUMN_NAME IN ('first_error', 'last_error', 'failed_attempts') AND CHARACTER_SET_NAME <> 'utf8mb4'))"
    " ORDER BY ORDINAL_POSITION"
)
"""A table's columns that are computed, those that `SELECT *` leaves out, and those for reasons that do not hold all of
Unicode."""

TABLE_BYTES = (
    "SELECT DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?"
)
"""About how large a table is, as the server's statistics have it."""


def list_tables(
    connection: StoreConnection, known: Mapping[QueueName, TableInfo], named: Collection[QueueName] | None = None
) -> list[TableInfo]:
    """See ListTables. One that is dropped while we read is left out; one that cannot be read stops no other."""
    connection.execute(WITHOUT_WAITING)
    try:
        keyspaces = connection.keyspaces
        # LIKE compares without case and takes '_' for any character.
        rows, unread = _marked(connection, keyspaces, known)
        tables = [
            (QueueName(*map(str, name)), comment, engine) for *name, comment, engine in rows if is_marked(comment)
        ]
        if keyspaces:
            _wait_until_known(connection, [name for name, _, _ in tables if name not in known])
        read = _as_known(tables, known, named)
        changed = [table for table in tables if table[0] not in read]
        definitions = _definitions(connection, [name for name, _, _ in changed])
        for table, text in zip(changed, definitions, strict=True):
            described = _read(connection, *table, text, known, waits=bool(keyspaces))
            if described is not None:
                read[described.name] = _placed(connection, described, keyspaces, known)
    finally:
        connection.execute(AS_BEFORE)
    return [*(read[name] for name, _, _ in tables if name in read), *unread]


def _as_known(
    tables: Sequence[tuple[QueueName, str, str | None]],
    known: Mapping[QueueName, TableInfo],
    named: Collection[QueueName] | None,
) -> dict[QueueName, TableInfo]:
    """Those whose definition is not read, see ListTables."""
    if named is None:
        return {}
    folded = {str(name).lower() for name in named}  # the server may ignore the case of names
    before = ((known.get(name), comment) for name, comment, _ in tables if str(name).lower() not in folded)
    return {one.name: one for one, comment in before if one is not None and one.definition and one.comment == comment}


def _marked(
    connection: StoreConnection, keyspaces: Keyspaces, known: Mapping[QueueName, TableInfo]
) -> tuple[list[tuple[Any, ...]], list[TableInfo]]:
    """The rows of the marked tables, and what is known of those in keyspaces that do not answer."""
    marks = (f"%{QUEUE_MARK}%", f"{TOPIC_MARK}%", f"{SCHEDULES_MARK}%")
    if not keyspaces:
        return connection.query(MARKED_TABLES, marks), []
    rows: list[tuple[Any, ...]] = []
    failures: dict[str, BackendError] = {}
    for keyspace in keyspaces:
        try:
            rows += [(keyspace, *table) for _, *table in connection.query(_MARKED_IN_KEYSPACE, (*marks, keyspace))]
        except BackendUnavailable:
            raise
        except BackendError as error:
            failures[keyspace] = error
    if failures and len(failures) == len(keyspaces):
        raise next(iter(failures.values()))
    unread: list[TableInfo] = []
    for keyspace, failure in failures.items():
        tables = [table for table in known.values() if table.name.database == keyspace]
        if not known or any(table.unreadable is None for table in tables):
            log.warning("the keyspace %s cannot be read: %s", keyspace, failure.message)
        unread += [replace(table, definition=None, unreadable=failure.message) for table in tables]
    return rows, unread


def pause(seconds: float) -> None:
    """Of this thread."""
    threading.Event().wait(seconds)


def _wait_until_known(connection: StoreConnection, names: Sequence[QueueName]) -> None:
    """A vtgate learns of a table some time after it was created, and reports it as missing until then."""
    for name in names:
        for _ in range(_KNOWN_TRIES):
            try:
                connection.query(f"SELECT 1 FROM {name.sql} LIMIT 0")
                break
            except BackendError as error:
                if not is_not_known_yet(error.errno, error.message):
                    break
            pause(_KNOWN_SECONDS)


def add_column(connection: StoreConnection, table: QueueName, definition: str) -> None:
    """Add a column as the table's last, at once. Raises BackendError: 1205 where others use the table for too long,
    1845 or 1846 where the server would have to copy the rows: how long that takes is unknown, so the owner does it."""
    connection.execute(WITHOUT_WAITING_LONG)
    try:
        connection.execute(f"ALTER TABLE {table.sql} ADD COLUMN {definition}, ALGORITHM=INSTANT")
    finally:
        connection.execute(AS_BEFORE)


def _definitions(connection: StoreConnection, names: Sequence[QueueName]) -> list[str | None]:
    """The definition of each table, which is read first: later changes are detected by the next read. None where it is
    not known because this table, or another one of the batch, cannot be read now."""
    texts: list[str | None] = []
    for start in range(0, len(names), _TOGETHER):
        batch = [Statement(f"SHOW CREATE TABLE {name.sql}") for name in names[start : start + _TOGETHER]]
        try:
            texts += [_definition(answer) for answer in connection.run(batch)]
        except BackendUnavailable:
            raise
        except BackendError:
            texts += [None] * len(batch)
    return texts


def _definition(answer: Answer) -> str:
    ((_, text),) = answer.rows
    assert text is not None
    return _NEXT_ID.sub("", text.decode("utf-8", "replace"))


def _read(
    connection: StoreConnection,
    name: QueueName,
    comment: str,
    engine: str | None,
    definition: str | None,
    known: Mapping[QueueName, TableInfo],
    *,
    waits: bool,
) -> TableInfo | None:
    before = known.get(name)
    if before is not None and before.still_is(comment, definition):
        return before
    try:
        columns = _described(connection, name, definition, waits=waits)
        peculiar = connection.query(PECULIAR_COLUMNS, (name.database, name.table))
        hidden = tuple(str(column) for column, _, invisible, _ in peculiar if int(invisible))
        columns += connection.describe(name.database, name.table, hidden) if hidden else ()
        indexes = _indexes(connection, name.database, name.table)
    except BackendUnavailable:
        raise
    except LockWaitTimeout:
        return TableInfo(name, comment, locked=True)
    except BackendError as error:
        if error.errno == NO_SUCH_TABLE:
            return None
        return TableInfo(name, comment, unreadable=f"{error.message} (error {error.errno})")
    generated = frozenset(str(column).lower() for column, computed, *_ in peculiar if int(computed))
    narrow = frozenset(
        (str(column).lower(), str(charset))
        for column, computed, _, charset in peculiar
        if str(column).lower() in _REASONS and not int(computed) and charset != "utf8mb4"
    )
    return TableInfo(
        name, comment, columns, indexes, generated, engine=engine, narrow=narrow, definition=definition,
        invisible=frozenset(column.lower() for column in hidden),
    )  # fmt: skip


def _placed(
    connection: StoreConnection,
    table: TableInfo,
    keyspaces: Keyspaces,
    known: Mapping[QueueName, TableInfo],
) -> TableInfo:
    """The same with its vindex, in a sharded keyspace. That of a new table is waited for."""
    if not keyspaces.shards_of(table.name.database):
        return table
    vindex = vindex_of(connection, table.name)
    for _ in range(0 if table.name in known else _KNOWN_TRIES):
        if vindex is not None:
            break
        pause(_KNOWN_SECONDS)
        vindex = vindex_of(connection, table.name)
    return table if vindex == table.vindex else replace(table, vindex=vindex)


def vindex_of(connection: StoreConnection, name: QueueName) -> Vindex | None:
    """The primary one of a table, of a vtgate. Raises BackendUnavailable."""
    try:
        rows = connection.query(f"SHOW VSCHEMA VINDEXES ON {name.sql}")
    except BackendUnavailable:
        raise
    except BackendError:
        return None
    return Vindex.of(rows)


def _described(
    connection: StoreConnection, name: QueueName, definition: str | None, *, waits: bool
) -> tuple[ColumnMeta, ...]:
    """The columns of `SELECT *`. `waits`: for a vtgate, which knows a table that was made again, or altered, by its
    columns of before for a while."""
    shown = [line for line in _COLUMN.findall(definition or "") if "INVISIBLE" not in line]
    for _ in range(_KNOWN_TRIES if waits else 0):
        try:
            columns = connection.describe(name.database, name.table)
            if not shown or len(columns) == len(shown):
                return columns
        except BackendError as error:
            if error.errno != _NO_SUCH_COLUMN:
                raise
        pause(_KNOWN_SECONDS)
    return connection.describe(name.database, name.table)


def _indexes(connection: StoreConnection, database: str, table: str) -> tuple[IndexInfo, ...]:
    columns: dict[str, list[str]] = {}
    unique: dict[str, bool] = {}
    cut: set[str] = set()
    for index, non_unique, column, prefix in connection.query(INDEX_COLUMNS, (database, table)):
        columns.setdefault(index, []).append("" if column is None else str(column).lower())  # NULL: an expression
        unique[index] = not int(non_unique)
        if prefix is not None:
            cut.add(index)
    return tuple(IndexInfo(tuple(names), unique[index], index, index not in cut) for index, names in columns.items())


def zone_offsets(connection: StoreConnection, zone: str, moments: Sequence[int]) -> Sequence[int]:
    """See Dialect."""
    shown = ", ".join(f"TIMESTAMPDIFF(SECOND, '1970-01-01', FROM_UNIXTIME({int(moment)}))" for moment in moments)
    with connection.reading((("time_zone", zone),)):
        (row,) = connection.query(f"SELECT {shown}")
    return [int(clock) - moment for clock, moment in zip(row, moments, strict=True)]


_HINT = "IGNORE INDEX FOR GROUP BY ({indexes})"

MYSQL = Dialect(
    name="mysql",
    gate=Gate(_HINT),
    now_ns="(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 1000)",
    skip_locked="FOR UPDATE SKIP LOCKED",
    lock="FOR UPDATE",
    lock_at_once="FOR UPDATE NOWAIT",
    force_index="FORCE INDEX ({index})",  # by its own estimates it may read all that is unacked for each message
    make_limits=(
        "CREATE TABLE IF NOT EXISTS {database}.queuegate_limits (queue_name VARCHAR(64) CHARACTER SET utf8mb4"
        " COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, arrival_ns BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB"
        " COMMENT='queuegate: locked for each claim of a queue with limits'"
    ),
    add_limits="INSERT IGNORE INTO {database}.queuegate_limits (queue_name) VALUES (?)",
    list_tables=list_tables,
    moment="UNIX_TIMESTAMP({})",
    zone_offsets=zone_offsets,
    partitions=True,
    table_bytes=TABLE_BYTES,
    adds_columns=add_column,
)

AT_SHARD = replace(MYSQL, gate=Gate(_HINT, at_shard=True))
"""In a session of a vtgate that uses one shard."""
