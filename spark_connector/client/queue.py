"""What a queue or a topic is, as the proxy tells: its columns, its keys, its options."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import pymysql

from spark_connector.client.columns import Column
from spark_connector.client.connection import Client, number, placed, quoted, told
from spark_connector.errors import QueueError, SchemaError

_NO_SUCH_TABLE, _SYNTAX, _NO_QUEUE, _NO_TOPIC = 1146, 1064, 1347, 1235
_TOPIC_MARK = "queuegate_topic"  # what the comment of a topic's table begins with
_OF_THE_PROXY = "queuegate_sought"  # a column of a group's queue that says nothing to readers
NUMBER = "queuegate_seq"
"""The column of a topic with the option `sequence` that has the numbers of its messages. The proxy gives them."""

_DUE = ("time_acked", "priority", "time_next")
_MARK = "vitess_message"
PURGE_AFTER = "86400"
"""Seconds after their ack at which messages are purged, where a queue's options do not say."""

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
    options: Mapping[str, str] = field(
        default_factory=dict
    )  # as its table's comment keeps them, Vitess's keys included
    unique: tuple[tuple[str, ...], ...] = ()  # the columns of each unique key, as declared
    unique_in_part: tuple[str, ...] = ()  # the names of unique keys of parts of columns, or of expressions
    id_key: str = "PRIMARY"  # the name of the key that is `id` alone
    due_key: str | None = None  # the name of the index that finds what is due
    is_topic: bool = False
    sequenced: bool = False  # a topic's: it has the option `sequence`, by which its messages have numbers
    number_key: str | None = None  # the name of the unique key on those numbers; None where there is none

    @property
    def quoted(self) -> str:
        """The name as SQL writes it."""
        return quoted(self.name)

    @property
    def placed(self) -> str:
        """The same in a statement that has placeholders."""
        return placed(self.name)

    def placed_column(self, name: str) -> str:
        """The column of that name, likewise. Raises SchemaError."""
        return placed(self.column(name).name)

    @property
    def offset(self) -> str:
        """The column that readers go by, which needs no quotes: the number of a message, or its id."""
        return NUMBER if self.sequenced else "id"

    @property
    def log(self) -> str:
        """The table as FROM names it for who reads by the offset. An index on numbers is forced, or a server that
        remembers how many messages had none may read the whole table."""
        return f"{self.quoted} FORCE INDEX ({quoted(self.number_key)})" if self.number_key else self.quoted

    @property
    def placed_log(self) -> str:
        """The same in a statement that has placeholders."""
        return self.log.replace("%", "%%")

    @property
    def called(self) -> str:
        """What it is, and its name: for errors."""
        return f"{'topic' if self.is_topic else 'queue'} {self.name}"

    @property
    def topic(self) -> str | None:
        """The topic that it is fed from, where it is the queue of a consumer group."""
        return self.options.get("topic")

    def has(self, name: str) -> bool:
        """Whether there is such a column; names of columns are the same in any case."""
        return any(column.name.lower() == name.lower() for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name, in any case. Raises SchemaError."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        there = ", ".join(column.name for column in self.columns)
        raise SchemaError(f"{self.called} has no column {name}; it has {there}")


def describe(client: Client, name: str) -> Queue:
    """The queue or topic of that name. Raises QueueError where there is none, or no proxy."""
    is_topic = _insist(client, name)
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
            or column == _OF_THE_PROXY,
        )
        for column, declared, null, extra, default, collation in client.rows(_COLUMNS, (name,))
    )
    keys, in_part = _keys(client, name)
    number_key = next((key for key, (names, one) in keys.items() if one and _lower(names) == (NUMBER,)), None)
    # No row that is written has a number.
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
    topic: str | None = None  # of which it is a consumer group's queue
    consumer_group: str | None = None
    of_another: bool = False  # it is a consumer group's queue, or holds the dead letters of another queue


def marked(client: Client) -> tuple[Marked, ...]:
    """The queues and topics of the client's database, as their tables' comments mark them."""
    found: list[Marked] = []
    for name, comment in client.rows(_MARKED, ()):
        if _is_copied(str(comment), str(name)):
            continue
        if str(comment).startswith(_TOPIC_MARK):
            found.append(Marked(str(name), True))
        elif options := _options(str(comment)):
            topic, group = options.get("topic"), options.get("consumer_group")
            of_another = topic is not None or "dead_letter_of" in options
            found.append(Marked(str(name), False, topic, group, of_another))
    return tuple(found)


def group_queue(client: Client, topic: str, group: str) -> str:
    """The name of the queue of a topic's consumer group. Raises QueueError where there is no such topic or group."""
    try:
        found = _groups(client, topic, group) or _groups(client, topic, "")
    except pymysql.Error as error:
        if number(error) not in (_SYNTAX, _NO_SUCH_TABLE, _NO_TOPIC):
            raise told(error, client.address) from error
        queue = describe(client, topic)  # which says what it is that has no groups
        raise QueueError(f"{queue.called} has no consumer groups, only topics have: leave option group out") from error
    if group in found:
        return found[group].queue
    there = f"it has {', '.join(sorted(found))}" if found else "it has none"
    raise QueueError(f"topic {topic} has no consumer group {group!r}; {there}. CREATE GROUP makes one")


def group_backlog(client: Client, topic: str, group: str) -> int:
    """How many messages a consumer group could have at once: those that are due, and those that it has not read."""
    found = _groups(client, topic, group).get(group)
    return 0 if found is None else found.backlog


def queue_options(client: Client, name: str) -> dict[str, str]:
    """The queue's options as they are now, which ALTER QUEUE may change at any time. None where it is gone."""
    return _options(_comment(client, name))


def _comment(client: Client, name: str) -> str:
    """Its table's comment; empty where it is gone."""
    row = client.row(_COMMENT, (name,))
    return str(row[0]) if row else ""


@dataclass(frozen=True)
class _Group:
    """A consumer group, as SHOW GROUPS tells."""

    queue: str
    backlog: int


def _groups(client: Client, topic: str, like: str) -> dict[str, _Group]:
    """A topic's group of that name; all of its groups if no name is given. The proxy counts each."""
    pattern = re.sub(r"([\\%_])", r"\\\1", like) or "%"
    rows = client.named(f"SHOW GROUPS ON {placed(topic)} LIKE %s", (pattern,))
    return {
        str(row["group"]): _Group(str(row["queue"]), int(row["unread"] or 0) + int(row["ready"] or 0)) for row in rows
    }


def have_looked_again(client: Client, name: str) -> None:
    """Have the proxy read anew what tables there are, as it does, once a second, where it is asked for a queue that it
    does not know. `name`: a topic's, which is none."""
    try:
        client.rows(f"SHOW CREATE QUEUE {quoted(name)}")
    except pymysql.Error as error:
        if number(error) not in (_NO_QUEUE, _NO_SUCH_TABLE):
            raise


def _insist(client: Client, name: str) -> bool:
    """Only the proxy knows the statements, and it knows only queues and topics. Whether it is a topic."""
    if _is_topic(client, name) and _is_known(client, name):
        return True
    try:
        own = str(client.rows(f"SHOW CREATE QUEUE {quoted(name)}")[0][0])
    except pymysql.Error as error:
        if number(error) == _NO_QUEUE and _is_topic(client, name):
            return True
        if number(error) in (_SYNTAX, _NO_QUEUE, _NO_SUCH_TABLE):
            raise QueueError(_refusal(client, name, error)) from error
        raise told(error, client.address) from error
    if own != name:  # the proxy knows its queues in any case, the database perhaps its tables not
        raise QueueError(f"there is no queue {name!r} in database {client.address.database!r}: it is called {own!r}")
    return False


def _is_known(client: Client, topic: str) -> bool:
    """Whether the proxy says at once that there is such a topic."""
    try:
        client.rows(f"SHOW GROUPS ON {quoted(topic)} LIKE ''")
    except pymysql.Error:
        return False  # one that another proxy has just made, or what answers is no proxy: the next statement tells
    return True


def _is_topic(client: Client, name: str) -> bool:
    row = client.row(_COMMENT, (name,))
    return row is not None and row[1] == name and str(row[0]).startswith(_TOPIC_MARK)


def _refusal(client: Client, name: str, error: pymysql.Error) -> str:
    at, database = f"{client.address.host}:{client.address.port}", client.address.database
    if number(error) == _SYNTAX:
        return f"what answers at {at} is a database, not queuegate: give the proxy's host and port"
    if number(error) == _NO_QUEUE:
        return f"{error.args[1]} (database {database!r} at {at}); Spark's format jdbc reads tables and views"
    qualified = "; the database is an option of its own" if "." in name else ""
    return f"there is no queue {name!r} in database {database!r} at {at}: SHOW QUEUES lists those there are{qualified}"


def _is_copied(comment: str, table: str) -> bool:
    """Whether the mark is another table's, as that of a copy is (engine.model.marked_name, which this must follow)."""
    named = _pairs(comment).get("queuegate_table")
    if named is None:
        return False
    if named.startswith(":"):
        return named != ":" + hashlib.sha256(table.lower().encode()).hexdigest()[:16]
    return unquote(named).lower() != table.lower()


def _options(comment: str) -> dict[str, str]:
    """A queue's; those of a topic are others."""
    return _pairs(comment) if _MARK in comment else {}


def _pairs(comment: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in comment.split(",") if "=" in part)
    return {key.strip(): value.strip() for key, value in pairs}


def _keys(client: Client, name: str) -> tuple[dict[str, tuple[tuple[str, ...], bool]], tuple[str, ...]]:
    """The columns of each index, and whether it is unique; and the names of other unique ones.

    Of whole columns only: of a part of a column, or of an expression, a key tells nothing of the column.
    """
    keys: dict[str, list[tuple[int, str, bool, bool]]] = {}
    for key, place, column, part, repeats in client.rows(_KEYS, (name,)):
        whole = column is not None and part is None
        keys.setdefault(key, []).append((int(place), column, whole, not int(repeats)))
    whole_ones = {key: sorted(parts) for key, parts in keys.items() if all(whole for _, _, whole, _ in parts)}
    others = tuple(key for key, parts in keys.items() if key not in whole_ones and parts[0][3])
    return {key: (tuple(column for _, column, *_ in parts), parts[0][3]) for key, parts in whole_ones.items()}, others


def _lower(columns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(column.lower() for column in columns)
