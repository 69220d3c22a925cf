"""The catalog: which tables are queues, read from the tables alone. Decides from what a dialect lists; no SQL here.

A table whose COMMENT carries the mark is a queue if its columns, its keys and its options make one; otherwise it is
rejected with a reason that names what is missing, and is not served.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.model.errors import InvalidQueueTable
from engine.model.groups import unfit_group_key
from engine.model.identity import can_identify, integer_bounds, is_integer
from engine.model.key_range import SLOT_COLUMN
from engine.model.keyspaces import NO_KEYSPACES, Keyspaces
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.marked_name import copied_from
from engine.model.options import QueueOptions, from_comment
from engine.model.queue import (
    ATTEMPTS_COLUMN,
    QUEUE_MARK,
    REQUIRED_COLUMNS,
    SEQUENCE_COLUMN,
    SOUGHT_COLUMN,
    SYSTEM_COLUMNS,
    TOPIC_COLUMNS,
    ColumnMeta,
    IndexInfo,
    Layout,
    QueueCatalog,
    QueueName,
    QueueSpec,
    TopicSpec,
    can_store_attempts,
    has_index,
    quoted,
    unfit_order_key,
)
from engine.model.schedules import SCHEDULES_MARK, SCHEDULES_TABLE
from engine.model.sharded import Vindex, no_topics_over_shards, unfit_for_shards
from engine.model.topic_options import TOPIC_MARK, read_topic_options
from engine.model.topics import group_table

LEASE_COLUMNS = ("epoch", "time_next", TOKEN_COLUMN)
"""What the INSERT of a message sets that is leased by it (engine.delivery.births)."""

# Texts of SHOW CREATE TABLE, in lower case: of MariaDB, of MySQL, and of the embedded database, which has its table of
# SQLite there. No text of a value can be taken for a part of one, as it would begin or end within it.
_NAMES = r"`(?:[^`]|``)+`"
_OWN_USES = re.compile(
    # the state; and the columns' own lines
    r"`state` (?:varchar|char|enum)\b[^`]* generated always as [^`]*`time_acked`[^`]*`epoch` > 0\)? then [^`]* end"
    rf"|`state` (?:varchar|char|enum)\b|`(?:epoch|time_next|{TOKEN_COLUMN})` (?:tiny|small|medium|big)?int\b"
    # what the embedded database checks of it, which holds for each state
    r"|check \(length\(`state`\) <= (?:1[1-9]|[2-9]\d|\d{3,})\)"
    # what holds for any time of a message's, leased or not
    r"|`time_next` (?:<= 0|>= 946684800000000000)\b"
    r"|new\.`time_next` is null|`time_next` = coalesce\(`time_next`, new\.`time_scheduled`\)"
    # an index that is not unique
    rf"|\n +key {_NAMES} \((?:{_NAMES}(?:\(\d+\))?(?: desc| asc)?,?)+\)"
    rf"|,create index {_NAMES} on {_NAMES} \([^()']*\)"
)
_DUE_AT_ONCE = re.compile(
    r"`time_next` bigint(?:\(\d+\))? default (?:`time_scheduled`|\(`time_scheduled`\))(?=,|\n| comment )"
    r"|`time_next` = coalesce\(`time_next`, new\.`time_scheduled`\)"
)
_NOW = re.compile(
    r"`time_scheduled` bigint(?:\(\d+\))?(?: not null)? default \(+"
    r"(?:timestampdiff\(microsecond,[a-z0-9_]*'1970-01-01',utc_timestamp\(6\)\)"
    r"|cast\(\(julianday\('now'\)-2440587\.5\)\*86400000 as integer\)\*1000\)) \* 1000\)+(?=,|\n| comment )"
)

_LEGACY_REQUIRED = ("time_scheduled", "id", "time_next", "epoch", "time_created", "time_acked")
_TIMES = ("time_next", "time_acked")
_NUMBERS = ("priority", "epoch", *_TIMES)
_TRANSACTIONAL = "innodb"
_BIGINT, _BINARY, _NUMBER = 8, 63, 0x8004  # a type, a collation, and the flags of a number with a unique key


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What the database reports of a table with the mark. `locked`: nothing more, a session has locked the table.
    `unreadable`: nothing more, and this is the error. `engine`: its storage engine, where the database has several.
    `definition`: the text that all of it derives from, by which a later read detects that nothing has changed; None
    where it is not known. `unfit`: why this database cannot serve it, None where it can. `invisible`: the columns, in
    lower case, that `SELECT *` leaves out; they are last. `vindex`: by which a vtgate places its rows, in a
    sharded keyspace; None where it has none."""

    name: QueueName
    comment: str
    columns: tuple[ColumnMeta, ...] = ()
    indexes: tuple[IndexInfo, ...] = ()
    generated: frozenset[str] = frozenset()
    locked: bool = False
    unreadable: str | None = None
    engine: str | None = None
    narrow: frozenset[tuple[str, str]] = frozenset()
    definition: str | None = None
    unfit: str | None = None
    invisible: frozenset[str] = frozenset()
    vindex: Vindex | None = None

    def still_is(self, comment: str, definition: str | None) -> bool:
        """Whether it was read from this very definition: then it need not be read again."""
        return definition is not None and (self.definition, self.comment) == (definition, comment)


def queue_spec(table: TableInfo, shards: tuple[str, ...] = ()) -> QueueSpec:
    """The queue that a table is, if the columns fit that its options name (unfit_column). `shards`: see QueueSpec.
    Raises InvalidQueueTable where it cannot be one."""
    assert QUEUE_MARK in table.comment
    _check_fit(table)
    by_name = {column.name.lower(): column for column in table.columns}
    layout = layout_of(by_name)
    for required in REQUIRED_COLUMNS if layout is Layout.CURRENT else _LEGACY_REQUIRED:
        if required not in by_name:
            raise InvalidQueueTable(f"{required} missing from message table: {table.name.table}")
    if not any(index.unique and index.columns == ("id",) for index in table.indexes):
        raise InvalidQueueTable(f"id of message table {table.name.table} needs a PRIMARY KEY or UNIQUE key of its own")
    for name in _NUMBERS:
        if name in by_name and integer_bounds(by_name[name]) is None:
            raise InvalidQueueTable(f"{name} of message table {table.name.table} must be an integer column")
        if name in _TIMES and by_name[name].type != _BIGINT:
            raise InvalidQueueTable(f"{name} of message table {table.name.table} must be BIGINT: it holds nanoseconds")
    if not can_identify(by_name["id"]):
        raise InvalidQueueTable(
            f"id of message table {table.name.table} must be an integer, a string or a binary string"
        )
    options = from_comment(table.comment, table.name.table)
    if options.topic is not None and table.name != _group_table(table.name, options):
        raise InvalidQueueTable(f"the queue of a consumer group has another name: {table.name.table}")
    if options.topic is not None and SOUGHT_COLUMN not in by_name:
        raise InvalidQueueTable(f"{SOUGHT_COLUMN} missing from the queue of a consumer group: {table.name.table}")
    columns = _message_columns(table, by_name, options.message_cols)
    queue = QueueSpec(
        table.name,
        options,
        table.columns,
        columns,
        layout,
        table.indexes,
        table.comment,
        table.generated,
        table.narrow,
        shards,
        lease_shows(table.definition, table.generated),
    )
    if shards and (reason := unfit_for_shards(queue, table.vindex)) is not None:
        raise InvalidQueueTable(f"{reason} (table {table.name.table})")
    return queue


def unfit_column(queue: QueueSpec) -> str | None:
    """Why a queue is not delivered though its table is one: an option names a column that is gone, or unfit. None where
    all are there."""
    options = queue.options
    gone = (name for name in options.message_cols if queue.column(name) is None)
    reason = (
        unfit_order_key(options.order_key, {column.name.lower(): column.type for column in queue.columns})
        or unfit_group_key(options.group_key, queue.column(options.group_key or ""))
        or next((f"message_cols: '{name}' is not a column of the queue" for name in gone), None)
    )
    if reason is None:
        return None
    table = queue.name.table
    return f"{reason} (table {table}): ALTER QUEUE {table} SET ({reason.partition(':')[0]} = ...) names another"


def lease_shows(definition: str | None, generated: Collection[str]) -> bool:
    """Whether a lease that the INSERT of a message writes may change more than itself, by the text of SHOW CREATE
    TABLE: something else than an index that is not unique names its columns, or the state; or a message may be due
    later, because the times have other defaults than the queue's own."""
    text = "" if definition is None else definition.lower()
    rest = _OWN_USES.sub("", text)
    names = (*LEASE_COLUMNS, *(("state",) if "state" in generated else ()))
    return not (_DUE_AT_ONCE.search(text) and _NOW.search(text)) or any(quoted(name) in rest for name in names)


def _unfit(table: TableInfo) -> str | None:
    """Why its database cannot serve it; or its storage engine, of which what is rolled back would be delivered. None
    where it can."""
    if table.unfit is not None:
        return f"{table.unfit} (table {table.name.table})"
    if table.engine is None or table.engine.lower() == _TRANSACTIONAL:
        return None
    return (
        f"the storage engine {table.engine} of table {table.name.table} lacks InnoDB's transactions and row locks:"
        f" ALTER TABLE {table.name.sql} ENGINE=InnoDB"
    )


def _check_fit(table: TableInfo) -> None:
    if (reason := _unfit(table)) is not None:
        raise InvalidQueueTable(reason)


def _group_table(name: QueueName, options: QueueOptions) -> QueueName:
    topic = QueueName(name.database, options.topic or "")
    return group_table(topic, options.consumer_group or "")


def is_topic(table: TableInfo) -> bool:
    """Whether its comment marks it as a topic. The comment of a queue may contain any text after its own."""
    return table.comment.startswith(TOPIC_MARK)


def is_marked(comment: str) -> bool:
    """Whether this comment marks a table as a queue, a topic, or a database's schedules."""
    return QUEUE_MARK in comment or comment.startswith((TOPIC_MARK, SCHEDULES_MARK))


def is_schedules(table: TableInfo) -> bool:
    """Whether it has the schedules of its database."""
    marked = table.name.table == SCHEDULES_TABLE and table.comment.startswith(SCHEDULES_MARK)
    return marked and _unfit(table) is None


def topic_spec(table: TableInfo, shards: tuple[str, ...] = ()) -> TopicSpec:
    """The topic that a table is. `shards`: see QueueSpec. Raises InvalidQueueTable where it cannot be one."""
    _check_fit(table)
    if shards:
        raise InvalidQueueTable(f"{no_topics_over_shards(table.name.database)} (table {table.name.table})")
    by_name = {column.name.lower(): column for column in table.columns}
    for required in TOPIC_COLUMNS:
        if required not in by_name:
            raise InvalidQueueTable(f"{required} missing from topic: {table.name.table}")
        if not is_integer(by_name[required]):
            raise InvalidQueueTable(f"{required} of topic {table.name.table} must be an integer column")
    if not any(index.unique and index.columns == ("id",) for index in table.indexes):
        raise InvalidQueueTable(f"id of topic {table.name.table} needs a PRIMARY KEY or UNIQUE key of its own")
    options = read_topic_options(table.comment, table.name.table)
    columns = (*table.columns, *_invisible(table, by_name))
    return TopicSpec(table.name, columns, table.comment, options, table.generated, table.indexes, table.invisible)


def _invisible(table: TableInfo, by_name: Container[str]) -> tuple[ColumnMeta, ...]:
    """The column of numbers, which the server does not list with the others. Its key shows that it exists."""
    keyed = any(index.unique and index.columns == (SEQUENCE_COLUMN,) for index in table.indexes)
    if not keyed or SEQUENCE_COLUMN in by_name:
        return ()
    name = table.name
    names = (SEQUENCE_COLUMN, name.table, name.table, name.database)
    return (ColumnMeta(SEQUENCE_COLUMN, _BIGINT, _BINARY, 20, _NUMBER, 0, *names),)


def layout_of(columns: Mapping[str, ColumnMeta]) -> Layout:
    """Vitess's first layout has no priority, and schedules by another column; names in lower case."""
    return Layout.LEGACY if "priority" not in columns and "time_scheduled" in columns else Layout.CURRENT


def _message_columns(table: TableInfo, by_name: Mapping[str, ColumnMeta], wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted:
        hidden = {*SYSTEM_COLUMNS, SOUGHT_COLUMN, *table.invisible, *(table.generated & {SLOT_COLUMN})}
        if (attempts := by_name.get(ATTEMPTS_COLUMN)) is not None and not can_store_attempts(attempts):
            hidden.remove(ATTEMPTS_COLUMN)  # a user's, from before the queues had such a column
        users = [column.name for column in table.columns if column.name.lower() not in hidden]
        return (by_name["id"].name, *users)
    return tuple(by_name[name.lower()].name for name in wanted if name.lower() in by_name)


def warning_of(table: TableInfo) -> str | None:
    """What is wrong with a table that is served all the same; None where nothing is, or nothing is known."""
    if table.unreadable is not None:
        return f"cannot be read now and is served as before: {table.unreadable}"
    other = is_topic(table) or table.comment.startswith(SCHEDULES_MARK)
    return None if table.locked or other else slow_reason(table)


def slow_reason(table: TableInfo) -> str | None:
    """The indexes that a queue's table lacks so that polls do not slow down as it grows; None when it has them."""
    options = _options_or_default(table)
    legacy = layout_of({c.name.lower(): c for c in table.columns}) is Layout.LEGACY
    wanted = ("time_acked", "time_next") if legacy else options.due_index
    needed = (wanted, *(columns for _, columns in options.needed_indexes))
    missing = [columns for columns in needed if not has_index(table.indexes, columns)]
    if not missing:
        return None
    names = ", ".join(f"({', '.join(columns)})" for columns in missing)
    return f"no index on {names}: deliveries slow down as the table grows; add one"


def _options_or_default(table: TableInfo) -> QueueOptions:
    try:
        return from_comment(table.comment, table.name.table)
    except InvalidQueueTable:
        return QueueOptions()


def next_catalog(
    previous: QueueCatalog,
    tables: Sequence[TableInfo],
    unchanged: Container[QueueName] = (),
    keyspaces: Keyspaces = NO_KEYSPACES,
    *,
    exact_names: bool = False,
) -> QueueCatalog:
    """The catalog of these tables; `previous` itself when nothing has changed. A table that cannot be read now is taken
    as it was, and so are those that are known to be `unchanged`."""
    queues: dict[QueueName, QueueSpec] = {}
    topics: dict[QueueName, TopicSpec] = {}
    rejected: dict[QueueName, str] = {}
    copies: dict[QueueName, QueueSpec | TopicSpec] = {}
    unfit: dict[QueueName, QueueSpec] = {}
    schedules = frozenset(table.name.database for table in tables if is_schedules(table))
    for table in tables:
        if table.comment.startswith(SCHEDULES_MARK):
            if (reason := _unfit(table)) is not None:
                rejected[table.name] = reason
            continue
        if table.locked or table.unreadable is not None or table.name in unchanged:
            if table.name in previous.queues:
                queues[table.name] = previous.queues[table.name]
            elif table.name in previous.topics:
                topics[table.name] = previous.topics[table.name]
            elif table.name in previous.rejected:
                rejected[table.name] = previous.rejected[table.name]
                if table.name in previous.copies:
                    copies[table.name] = previous.copies[table.name]
                if table.name in previous.unfit:
                    unfit[table.name] = previous.unfit[table.name]
            elif table.unreadable is not None:
                rejected[table.name] = f"cannot be read: {table.unreadable}"
            continue
        copied = copied_from(table.comment, table.name.table)
        if copied is not None:
            rejected[table.name] = copied
        shards = keyspaces.shards_of(table.name.database)
        try:
            if is_topic(table):
                (topics if copied is None else copies)[table.name] = topic_spec(table, shards)
                continue
            queue = queue_spec(table, shards)
            if copied is None and (reason := unfit_column(queue)) is not None:
                rejected[table.name], unfit[table.name] = reason, queue
            else:
                (queues if copied is None else copies)[table.name] = queue
        except InvalidQueueTable as error:
            rejected[table.name] = error.message
    unread = frozenset(table.name for table in tables if table.name in rejected and is_topic(table))
    sharded = frozenset(name for name, queue in queues.items() if queue.shards)
    read = QueueCatalog(
        previous.version, queues, rejected, topics, unread, schedules, keyspaces, sharded, copies, unfit, exact_names
    )
    return previous if read == previous else replace(read, version=previous.version + 1)
