"""The description of a queue or a topic: its columns, keys and options."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import pymysql

from spark_connector.client.columns import Column
from spark_connector.client.connection import Client, to_connector_error
from spark_connector.errors import QueueError, SchemaError
from spark_connector.mysql_client.driver import error_number, escaped, quoted

_NO_SUCH_TABLE, _SYNTAX, _NO_QUEUE, _NO_TOPIC = 1146, 1064, 1347, 1235
_TOPIC_MARK = "queuegate_topic"  # the beginning of the comment of a topic's table
_PROXY_COLUMN = "queuegate_sought"  # an internal column of a group's queue
NUMBER = "queuegate_seq"
"""The column of a topic with the option `sequence` that has the numbers of its messages. The proxy gives them."""

_DUE = ("time_acked", "priority", "time_next")
_MARK = "vitess_message"
PURGE_AFTER = "86400"
"""Seconds after their ack at which messages are purged, unless a queue's options say otherwise."""

_COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, EXTRA, COLUMN_DEFAULT, COLLATION_NAME FROM information_schema.COLUMNS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"""
_KEYS = """
SELECT INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, NON_UNIQUE FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"""
_MARKED = f"""
SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()
AND (TABLE_COMMENT LIKE '{_TOPIC_MARK}%%' OR TABLE_COMMENT LIKE '%%{_MARK}%%')"""
_COMMENT = """
SELECT TABLE_COMMENT, TABLE_NAME FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s"""


@dataclass(frozen=True)
class Queue:
    """A queue or a topic of the database that the client is connected to."""

    name: str
    columns: tuple[Column, ...]
    options: Mapping[str, str] = field(default_factory=dict)  # from its table's comment, including Vitess's keys
    unique: tuple[tuple[str, ...], ...] = ()  # the columns of each unique key, as declared
    unique_in_part: tuple[str, ...] = ()  # the names of unique keys of parts of columns, or of expressions
    id_key: str = "PRIMARY"  # the name of the key that is `id` alone
    due_key: str | None = None  # the name of the index for due messages
    is_topic: bool = False
    sequenced: bool = False  # a topic's: it has the option `sequence`, by which its messages have numbers
    number_key: str | None = None  # the name of the unique key on the numbers, or None

    @property
    def quoted(self) -> str:
        """The quoted name."""
        return quoted(self.name)

    @property
    def escaped(self) -> str:
        """The same for a statement with placeholders."""
        return escaped(self.name)

    def escaped_column(self, name: str) -> str:
        """The column of that name, likewise. Raises SchemaError."""
        return escaped(self.column(name).name)

    @property
    def offset(self) -> str:
        """The column of the offset, which needs no quotes: the number of a message, or its id."""
        return NUMBER if self.sequenced else "id"

    @property
    def log(self) -> str:
        """The table for FROM when reading by the offset. The index on numbers is forced: a server with old statistics,
        of many messages without a number, might read the whole table."""
        return f"{self.quoted} FORCE INDEX ({quoted(self.number_key)})" if self.number_key else self.quoted

    @property
    def escaped_log(self) -> str:
        """The same for a statement with placeholders."""
        return self.log.replace("%", "%%")

    @property
    def label(self) -> str:
        """Kind and name, for error messages."""
        return f"{'topic' if self.is_topic else 'queue'} {self.name}"

    @property
    def topic(self) -> str | None:
        """The topic, if this is the queue of a consumer group."""
        return self.options.get("topic")

    def has(self, name: str) -> bool:
        """Whether the column exists; names of columns are case-insensitive."""
        return any(column.name.lower() == name.lower() for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name, case-insensitive. Raises SchemaError."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        names = ", ".join(column.name for column in self.columns)
        raise SchemaError(f"{self.label} has no column {name}; it has {names}")


def describe(client: Client, name: str) -> Queue:
    """The queue or topic of that name. Raises QueueError if it does not exist, or the server is no proxy."""
    is_topic = _require_known(client, name)
    comment = _comment(client, name)
    sequenced = is_topic and _pairs(comment).get("sequence", "").lower() == "on"
    columns = tuple(
        Column(
            column,
            declared,
            nullable=null == "YES",
            generated="GENERATED" in extra.upper().replace("DEFAULT_GENERATED", ""),
            auto="auto_increment" in extra.lower(),
            default=default is not None and str(default).upper() != "NULL",
            collation=collation,
            invisible=("INVISIBLE" in extra.upper() and not (sequenced and column == NUMBER))
            or column == _PROXY_COLUMN,
        )
        for column, declared, null, extra, default, collation in client.rows(_COLUMNS, (name,))
    )
    keys, in_part = _keys(client, name)
    number_key = next(
        (key for key, (names, is_unique) in keys.items() if is_unique and _lower(names) == (NUMBER,)), None
    )
    # Rows to be written have no number.
    unique = tuple(columns for key, (columns, is_unique) in keys.items() if is_unique and key != number_key)
    id_key = next((key for key, (columns, _) in keys.items() if _lower(columns) == ("id",)), "PRIMARY")
    due_key = next((key for key, (columns, _) in keys.items() if _lower(columns)[:3] == _DUE), None)
    return Queue(
        name, columns, _options(comment), unique, in_part, id_key, due_key, is_topic, sequenced,
        number_key if sequenced else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Marked:
    """A table that is marked as a queue or a topic."""

    name: str
    is_topic: bool
    topic: str | None = None  # the topic, for a consumer group's queue
    consumer_group: str | None = None
    is_auxiliary: bool = False  # a consumer group's queue, or a dead-letter queue


def marked(client: Client) -> tuple[Marked, ...]:
    """The queues and topics of the client's database, found by the comments of their tables."""
    tables: list[Marked] = []
    for name, comment in client.rows(_MARKED, ()):
        if _is_copied(str(comment), str(name)):
            continue
        if str(comment).startswith(_TOPIC_MARK):
            tables.append(Marked(str(name), True))
        elif options := _options(str(comment)):
            topic, group = options.get("topic"), options.get("consumer_group")
            is_auxiliary = topic is not None or "dead_letter_of" in options
            tables.append(Marked(str(name), False, topic, group, is_auxiliary))
    return tuple(tables)


def group_queue(client: Client, topic: str, group: str) -> str:
    """The name of the queue of a topic's consumer group. Raises QueueError if the topic or group does not exist."""
    try:
        groups = _groups(client, topic, group) or _groups(client, topic, "")
    except pymysql.Error as error:
        if error_number(error) not in (_SYNTAX, _NO_SUCH_TABLE, _NO_TOPIC):
            raise to_connector_error(error, client.address) from error
        queue = describe(client, topic)  # for the error message
        raise QueueError(f"{queue.label} has no consumer groups, only topics have: leave option group out") from error
    if group in groups:
        return groups[group].queue
    existing = f"it has {', '.join(sorted(groups))}" if groups else "it has none"
    raise QueueError(f"topic {topic} has no consumer group {group!r}; {existing}. CREATE GROUP makes one")


def group_backlog(client: Client, topic: str, group: str) -> int:
    """How many messages a consumer group could receive now: due ones, and unread ones."""
    match = _groups(client, topic, group).get(group)
    return 0 if match is None else match.backlog


def queue_options(client: Client, name: str) -> dict[str, str]:
    """The queue's current options, which ALTER QUEUE may change at any time. Empty if it was dropped."""
    return _options(_comment(client, name))


def _comment(client: Client, name: str) -> str:
    """Its table's comment; empty if it was dropped."""
    row = client.row(_COMMENT, (name,))
    return str(row[0]) if row else ""


@dataclass(frozen=True)
class _Group:
    """A consumer group, from SHOW GROUPS."""

    queue: str
    backlog: int


def _groups(client: Client, topic: str, like: str) -> dict[str, _Group]:
    """A topic's group of that name, or all of its groups. The proxy counts the messages of each."""
    pattern = re.sub(r"([\\%_])", r"\\\1", like) or "%"
    rows = client.dict_rows(f"SHOW GROUPS ON {escaped(topic)} LIKE %s", (pattern,))
    return {
        str(row["group"]): _Group(str(row["queue"]), int(row["unread"] or 0) + int(row["ready"] or 0)) for row in rows
    }


def refresh_catalog(client: Client, name: str) -> None:
    """Have the proxy refresh its catalog. It does so, at most once a second, when a client names an unknown queue.
    `name`: of a topic, which is not a queue."""
    try:
        client.rows(f"SHOW CREATE QUEUE {quoted(name)}")
    except pymysql.Error as error:
        if error_number(error) not in (_NO_QUEUE, _NO_SUCH_TABLE):
            raise


def _require_known(client: Client, name: str) -> bool:
    """Checks that the proxy knows it as a queue or topic; only the proxy understands these statements. Whether it is a
    topic."""
    if _is_topic(client, name) and _is_known(client, name):
        return True
    try:
        own = str(client.rows(f"SHOW CREATE QUEUE {quoted(name)}")[0][0])
    except pymysql.Error as error:
        if error_number(error) == _NO_QUEUE and _is_topic(client, name):
            return True
        if error_number(error) in (_SYNTAX, _NO_QUEUE, _NO_SUCH_TABLE):
            raise QueueError(_refusal(client, name, error)) from error
        raise to_connector_error(error, client.address) from error
    if own != name:  # names of queues are case-insensitive for the proxy, names of tables perhaps not for the database
        raise QueueError(f"there is no queue {name!r} in database {client.address.database!r}: it is called {own!r}")
    return False


def _is_known(client: Client, topic: str) -> bool:
    """Whether the proxy knows the topic already."""
    try:
        client.rows(f"SHOW GROUPS ON {quoted(topic)} LIKE ''")
    except pymysql.Error:
        return False  # another proxy has just created it, or the server is no proxy: the next statement decides
    return True


def _is_topic(client: Client, name: str) -> bool:
    row = client.row(_COMMENT, (name,))
    return row is not None and row[1] == name and str(row[0]).startswith(_TOPIC_MARK)


def _refusal(client: Client, name: str, error: pymysql.Error) -> str:
    at, database = f"{client.address.host}:{client.address.port}", client.address.database
    if error_number(error) == _SYNTAX:
        return f"what answers at {at} is a database, not queuegate: give the proxy's host and port"
    if error_number(error) == _NO_QUEUE:
        return f"{error.args[1]} (database {database!r} at {at}); Spark's format jdbc reads tables and views"
    qualified = "; the database is an option of its own" if "." in name else ""
    return f"there is no queue {name!r} in database {database!r} at {at}: SHOW QUEUES lists those there are{qualified}"


def _is_copied(comment: str, table: str) -> bool:
    """Whether the comment belongs to another table, of which this is a copy. Must match engine.model.marked_name."""
    marked_as = _pairs(comment).get("queuegate_table")
    if marked_as is None:
        return False
    if marked_as.startswith(":"):
        return marked_as != ":" + hashlib.sha256(table.lower().encode()).hexdigest()[:16]
    return unquote(marked_as).lower() != table.lower()


def _options(comment: str) -> dict[str, str]:
    """The options of a queue; empty for a topic."""
    return _pairs(comment) if _MARK in comment else {}


def _pairs(comment: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in comment.split(",") if "=" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def _keys(client: Client, name: str) -> tuple[dict[str, tuple[tuple[str, ...], bool]], tuple[str, ...]]:
    """The columns of each index on whole columns, and whether it is unique; and the names of other unique indexes.

    An index on a part of a column, or on an expression, does not make the column unique.
    """
    keys: dict[str, list[tuple[int, str, bool, bool]]] = {}
    for key, index, column, part, repeats in client.rows(_KEYS, (name,)):
        whole = column is not None and part is None
        keys.setdefault(key, []).append((int(index), column, whole, not int(repeats)))
    whole_ones = {key: sorted(parts) for key, parts in keys.items() if all(whole for _, _, whole, _ in parts)}
    others = tuple(key for key, parts in keys.items() if key not in whole_ones and parts[0][3])
    return {key: (tuple(column for _, column, *_ in parts), parts[0][3]) for key, parts in whole_ones.items()}, others


def _lower(columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(column.lower() for column in columns)
