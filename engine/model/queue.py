"""The engine's data types as frozen values: queue, message, batch, catalog, report. No behaviour of their own.

Times are nanoseconds since the Unix epoch by the database's clock; durations are nanoseconds. Row values are
`bytes | None` in the MySQL text protocol's form (what `SELECT` sends on the wire), whatever the backend.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from engine.model.key_range import SLOT_COLUMN, KeyRange, Keys, ShardingColumn, shown_key_range
from engine.model.keyspaces import NO_KEYSPACES, Keyspaces
from engine.model.lease_token import NO_TOKEN, TOKEN_COLUMN
from engine.model.option_values import NAME_CHARACTERS
from engine.model.options import QueueOptions
from engine.model.states import goes_alone
from engine.model.topic_options import TopicOptions

MessageId = int | str | bytes
"""A message's identity: int for integer keys, str for text keys, bytes for binary keys."""

TextValue = bytes | None
"""One column's value as the MySQL text protocol carries it; None is NULL."""

SYSTEM_COLUMNS = (
    "id",
    "priority",
    "time_scheduled",
    "time_next",
    "epoch",
    "time_created",
    "time_acked",
    "state",
    "first_error",
    "last_error",
    "failed_attempts",
    TOKEN_COLUMN,
)
"""Columns that CREATE QUEUE adds, in table order. All but `id` are hidden from `*`."""

ERROR_COLUMNS = ("first_error", "last_error")
"""The columns for the reason of NACK and REJECT; an adopted table may lack them."""

ERROR_CHARACTERS = 1000
"""How much of a reason is stored."""

ERROR_TYPE = f"VARCHAR({ERROR_CHARACTERS}) CHARACTER SET utf8mb4 NULL"
"""Their type: a reason may be in any language, whatever the database's own character set."""

ATTEMPTS_COLUMN = "failed_attempts"
"""The record of failed attempts (engine.model.attempts); an adopted table may lack it."""

SOURCE_ID_COLUMN = "source_id"
"""The column of a dead letter for its message's id, where another dead letter has that id."""

_TEXTS_OF_ANY_LENGTH = frozenset((249, 250, 251, 252))  # the protocol's codes of the TEXT family
_SMALLINT, _BIGINT = 2, 8  # the protocol's codes

TIMESTAMP_TYPE = 7
"""The protocol's code of TIMESTAMP: its text depends on the session's time zone. In rows for receivers its values are
seconds since the epoch, with the column's decimals; 0 is the zero date."""

_NOT_NULL, _UNSIGNED, _ZEROFILL, _NO_DEFAULT = 0x1, 0x20, 0x40, 0x1000  # the protocol's flags of a column

REQUIRED_COLUMNS = ("id", "priority", "epoch", "time_next", "time_acked")
"""What a table must have to be served as a queue (Vitess's current layout)."""

QUEUE_MARK = "vitess_message"
"""A table whose COMMENT contains this is a queue, as in Vitess."""

TOPIC_COLUMNS = ("id", "time_scheduled", "time_created")
"""Columns that CREATE TOPIC adds, in table order. All but `id` are hidden from `*`."""

SEQUENCE_COLUMN = "queuegate_seq"
"""For a topic with the option `sequence`: the number that a message gets once it is committed. Invisible, and hidden
from `*`."""

SOUGHT_COLUMN = "queuegate_sought"
"""For a consumer group's queue: 1 where the group had read beyond the message before a seek. Hidden from `*`."""

GROUP_COLUMNS = frozenset((*SYSTEM_COLUMNS, SOUGHT_COLUMN)) - frozenset(TOPIC_COLUMNS)
"""Columns that a consumer group's queue has of its own: their values never come from its topic."""

UNFED_COLUMNS = GROUP_COLUMNS | {SEQUENCE_COLUMN}
"""Columns of a topic that a consumer group's queue does not get."""


def quoted(name: str) -> str:
    """An identifier in back-quotes, which both MySQL and SQLite read."""
    return "`" + name.replace("`", "``") + "`"


class QueueName(NamedTuple):
    """A queue's table, by database and table name. Compared exactly, as MySQL on Linux compares table names.

    A tuple, because its hash is needed ten times for each message."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def sql(self) -> str:
        """The table as every database here reads its name."""
        return f"{quoted(self.database)}.{quoted(self.table)}"


_FILE_BYTES_MAX = 240  # of a table's file name, in which a server writes most other characters as five
_DIGEST_CHARACTERS = 8


def default_dead_letter(table: str) -> str:
    """The table of a queue's dead letters without the option `dead_letter`: the queue's name and `_dead`."""
    return derived_name(table, "_dead")


def derived_name(table: str, ending: str) -> str:
    """The name of a table that belongs to another: its name and this ending, in ASCII and shorter than half a name.

    Where that is too long for a name, or for a file, part of the name is replaced by its digest.
    """
    name = f"{table}{ending}"
    if len(name) <= NAME_CHARACTERS and _file_bytes(name) <= _FILE_BYTES_MAX:
        return name
    ending = f"_{hashlib.sha256(table.encode()).hexdigest()[:_DIGEST_CHARACTERS]}{ending}"
    prefix = table[: NAME_CHARACTERS - len(ending)]
    while _file_bytes(prefix + ending) > _FILE_BYTES_MAX:
        prefix = prefix[:-1]
    return prefix + ending


def _file_bytes(name: str) -> int:
    return sum(1 if c.isascii() and (c.isalnum() or c == "_") else 5 for c in name)


_BINARY = 63  # the collation of bytes
_ENUM, _SET = 0x100, 0x800  # flags of a column, whose type is that of a CHAR
_TEXT_TYPES = frozenset((15, 245, 247, 248, 249, 250, 251, 252, 253, 254))  # VARCHAR, JSON, ENUM, SET, BLOBs, STRINGs


@dataclass(frozen=True, slots=True)
class ColumnMeta:
    """A result column as a MySQL column definition packet describes it (protocol: Column Definition 41).

    `type` is the protocol's type code, `charset` the collation id (63 is binary), `length` the display length in bytes.
    """

    name: str
    type: int
    charset: int = 45
    length: int = 1020
    flags: int = 0
    decimals: int = 0
    org_name: str = ""
    table: str = ""
    org_table: str = ""
    schema: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the column's values are characters, not bytes or numbers."""
        return self.type in _TEXT_TYPES and self.charset != _BINARY

    @property
    def has_members(self) -> bool:
        """Whether it is an ENUM or a SET. A server sorts these by the numbers of their members, and compares names."""
        return bool(self.flags & (_ENUM | _SET))


class Layout(Enum):
    """The generation of the queue table; decides the retry delay."""

    CURRENT = "current"
    LEGACY = "legacy"


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """An index of a table: its columns in order, lower case ("" for an expression), and whether it is unique. `whole`:
    it holds all of each value; a prefix index holds the first characters of some column."""

    columns: tuple[str, ...]
    unique: bool
    name: str = ""
    whole: bool = True


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """A queue as read from its table, which is the only source of truth.

    `columns` are all of the table's columns in table order; `message_columns` the names that `*` streams, `id` first.
    `comment` is the table's own, which contains the options.
    """

    name: QueueName
    options: QueueOptions
    columns: tuple[ColumnMeta, ...]
    message_columns: tuple[str, ...]
    layout: Layout = Layout.CURRENT
    indexes: tuple[IndexInfo, ...] = ()
    comment: str = ""
    generated: frozenset[str] = frozenset()
    """Names, in lower case, of the generated columns, which are never written."""
    narrow: frozenset[tuple[str, str]] = frozenset()
    """Those of ERROR_COLUMNS and ATTEMPTS_COLUMN that cannot store all of Unicode: lower-case name, character set."""
    shards: tuple[str, ...] = ()
    """Those of its keyspace, where that has several: each has a part of its messages."""
    lease_shows: bool = False
    """Whether a lease that the INSERT of a message writes may change more than itself (engine.delivery.births)."""

    @property
    def takes_directly(self) -> bool:
        """Whether fed messages can be leased at once: the queue of a consumer group without limits that gets all of its
        topic."""
        return self.options.topic is not None and not self.options.limited and self.options.filter is None

    @property
    def takes_added(self) -> bool:
        """Whether messages that a commit has just added can be leased without a poll: it has no limits, and a row has
        the time at which it became due."""
        alone = self.options.topic is None and not self.options.limited
        return alone and self.layout is Layout.CURRENT and self.column("time_scheduled") is not None

    @property
    def attempts_stored(self) -> int:
        """How many failed attempts of a message are stored; 0 where the table has no suitable column."""
        column = self.column(ATTEMPTS_COLUMN)
        fits = column is not None and can_store_attempts(column) and ATTEMPTS_COLUMN not in dict(self.narrow)
        return self.options.keep_attempts if fits else 0

    @property
    def has_tokens(self) -> bool:
        """Whether each delivery has a number of its own (engine.model.lease_token)."""
        column = self.column(TOKEN_COLUMN)
        return column is not None and TOKEN_COLUMN not in self.generated and can_store_tokens(column)

    @property
    def has_ring(self) -> bool:
        """Whether each message has a slot of a ring, so that streams may name a key range (engine.model.key_range)."""
        if self.options.sharding_key is None or SLOT_COLUMN not in self.generated:
            return False
        column = self.column(SLOT_COLUMN)
        return column is not None and column.type == _SMALLINT and bool(column.flags & _UNSIGNED)

    @property
    def dead_letter(self) -> QueueName:
        """Its dead-letter queue."""
        return QueueName(self.name.database, self.options.dead_letter or default_dead_letter(self.name.table))

    def column(self, name: str) -> ColumnMeta | None:
        """The column of that name, compared as MySQL does: without case."""
        return _column(self.columns, name)


def may_belong_to_another(queue: QueueName, dead: QueueName, existing: QueueSpec | None) -> bool:
    """Whether a queue's dead-letter queue, `existing` or still to be created, may belong to another queue: it was not
    created for this one, and does not have its default name."""
    if existing is None:
        return dead.table != default_dead_letter(queue.table)
    return existing.options.dead_letter_of != queue.table


def records(dead: QueueSpec, queue: QueueSpec, column: str) -> bool:
    """Whether dead letters of a queue have where they come from in this column. One of the queue's own by that name
    has the user's values."""
    return dead.column(column) is not None and queue.column(column) is None


def _column(columns: Iterable[ColumnMeta], name: str) -> ColumnMeta | None:
    lowered = name.lower()
    return next((column for column in columns if column.name.lower() == lowered), None)


def can_store_attempts(column: ColumnMeta) -> bool:
    """Whether a column with the name ATTEMPTS_COLUMN is suitable. Otherwise it is the user's own."""
    return column.type in _TEXTS_OF_ANY_LENGTH and column.length >= (1 << 24) - 1


def can_store_tokens(column: ColumnMeta) -> bool:
    """Whether a column with the name TOKEN_COLUMN is suitable. Otherwise it is the user's own."""
    flags = column.flags & (_NOT_NULL | _UNSIGNED | _NO_DEFAULT)
    return column.type == _BIGINT and flags == _NOT_NULL


def lacks_tokens(queue: QueueSpec) -> bool:
    """Whether CREATE QUEUE of an earlier version created its table: all of the queue's own columns exist except that of
    tokens. An adopted table belongs to its owner, and is served without tokens."""
    missing = [name for name in SYSTEM_COLUMNS if queue.column(name) is None]
    return missing == [TOKEN_COLUMN] and "state" in queue.generated


def has_index(indexes: Iterable[IndexInfo], columns: tuple[str, ...]) -> bool:
    """Whether one of the indexes begins with these columns."""
    return any(index.columns[: len(columns)] == columns for index in indexes)


_INTEGER_TYPES = frozenset((1, 2, 3, 8, 9))
_CHAR = 254  # the protocol's code of CHAR and BINARY
_STRING_TYPES = frozenset((15, 253, _CHAR))  # VARCHAR and VARBINARY are the others


def sharding_column(column: ColumnMeta) -> ShardingColumn:
    """A column of a table, as a sharding key."""
    filled = column.flags & _ZEROFILL
    hashed = (column.type in _INTEGER_TYPES and not filled) or (column.type in _STRING_TYPES and not column.has_members)
    return ShardingColumn(hashed, not column.flags & _NOT_NULL, column.type == _CHAR and column.is_text)


_UNINDEXABLE_TYPES = frozenset((245, 249, 250, 251, 252, 255))  # JSON, BLOB and TEXT of all sizes, GEOMETRY


def unfit_order_key(order_key: str | None, types: Mapping[str, int]) -> str | None:
    """Why messages cannot be ordered by that column, given the columns' types by lower-case name; None: they can."""
    if order_key is None or order_key == "*":
        return None
    if order_key.lower() not in types:
        return f"order_key: '{order_key}' is not a column of the queue"
    if order_key.lower() in SYSTEM_COLUMNS and order_key.lower() != "priority":
        return f"order_key: '{order_key}' is the queue's own column; name one of yours, or '*' for the whole queue"
    return _unindexable("order_key", order_key, types)


def unfit_compact_column(column: str | None, types: Mapping[str, int]) -> str | None:
    """Why a topic cannot be compacted by that column, given the columns' types by lower-case name; None: it can."""
    if column is None:
        return None
    name = column.lower()
    if name in TOPIC_COLUMNS:
        return f"compact: '{column}' is the topic's own column; name one of yours"
    if name not in types:
        return f"compact: '{column}' is not a column of the topic"
    return _unindexable("compact", column, types)


def _unindexable(option: str, column: str, types: Mapping[str, int]) -> str | None:
    if types[column.lower()] in _UNINDEXABLE_TYPES:
        return f"{option}: '{column}' is of a type that has no whole index; make it VARCHAR or a number"
    return None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic: a log table that consumer groups read. `columns` are all of its columns."""

    name: QueueName
    columns: tuple[ColumnMeta, ...]
    comment: str = ""
    options: TopicOptions = field(default_factory=TopicOptions)
    generated: frozenset[str] = frozenset()
    """Names, in lower case, of the columns that the database computes."""
    indexes: tuple[IndexInfo, ...] = ()
    invisible: frozenset[str] = frozenset()
    """Names, in lower case, of the columns that `*` leaves out."""

    @property
    def compact_index(self) -> IndexInfo | None:
        """The index that has the messages of one value of `compact` in the order of their offsets; None where there is
        none. A table's primary key, which is the id, is the last part of every index."""
        name = (self.options.compact or "").lower()
        wanted = ((name, SEQUENCE_COLUMN),) if self.sequenced else ((name,), (name, "id"))
        return next((index for index in self.indexes if index.whole and index.columns in wanted), None)

    @property
    def sequenced(self) -> bool:
        """Whether a message's offset is the number that it gets after its commit, and not its id."""
        return self.options.sequence

    @property
    def unsequenced(self) -> str | None:
        """Why `sequence` has no effect; None where it has, or is not set."""
        if not self.options.sequence or (
            self.column(SEQUENCE_COLUMN) is not None
            and any(index.unique and index.columns == (SEQUENCE_COLUMN,) for index in self.indexes)
        ):
            return None
        return (
            f"sequence: the column {SEQUENCE_COLUMN} or its unique key is missing; ALTER TOPIC {self.name.table} SET"
            " (sequence = 'on') adds them"
        )

    @property
    def uncompacted(self) -> str | None:
        """Why `compact` has no effect; None where it has, or is not set."""
        column = self.options.compact
        if reason := unfit_compact_column(column, {c.name.lower(): c.type for c in self.columns}):
            return reason
        if column is not None and self.compact_index is None:
            wanted = f"({quoted(column)}, {SEQUENCE_COLUMN})" if self.sequenced else f"({quoted(column)}) alone"
            return f"compact: there is no index on {wanted} and as a whole; add one"
        return None

    @property
    def reserved(self) -> str | None:
        """Which columns groups do not get, as their queues have columns of these names; None where there are none."""
        names = ", ".join(column.name for column in self.columns if column.name.lower() in GROUP_COLUMNS)
        return f"consumer groups have columns of their own of these names, and do not get: {names}" if names else None

    @property
    def message_columns(self) -> tuple[str, ...]:
        """The names that `*` streams, `id` first."""
        own = (*TOPIC_COLUMNS, SEQUENCE_COLUMN, *self.invisible)
        return ("id", *(column.name for column in self.columns if column.name.lower() not in own))

    def column(self, name: str) -> ColumnMeta | None:
        """The column of that name, compared as MySQL does: without case."""
        return _column(self.columns, name)


@dataclass(frozen=True, slots=True)
class QueueCatalog:
    """A snapshot of every queue and topic, immutable, so that a plan can be cached against `version`.

    `rejected` are tables that carry the mark but cannot be served, with the reason; `unread_topics` those of them that
    say that they are topics. The queue of a consumer group is one of the `queues`.
    """

    version: int = 0
    queues: Mapping[QueueName, QueueSpec] = field(default_factory=dict)
    rejected: Mapping[QueueName, str] = field(default_factory=dict)
    topics: Mapping[QueueName, TopicSpec] = field(default_factory=dict)
    unread_topics: frozenset[QueueName] = frozenset()
    schedules: frozenset[str] = frozenset()
    """The databases that have a table of schedules."""
    keyspaces: Keyspaces = NO_KEYSPACES
    sharded: frozenset[QueueName] = frozenset()
    """The queues over several shards of a Vitess."""
    copies: Mapping[QueueName, QueueSpec | TopicSpec] = field(default_factory=dict)
    """Of the `rejected`: what would be queues and topics, but for a mark that is another table's."""
    unfit: Mapping[QueueName, QueueSpec] = field(default_factory=dict)
    """Of the `rejected`: queues with an option that names a column which they no longer have. They are not delivered,
    but can be settled, altered, emptied and dropped."""
    exact_names: bool = False
    """Whether another table may have a name that differs from a queue's in case alone."""

    def __iter__(self) -> Iterator[QueueSpec]:
        return iter(self.queues.values())

    def get(self, name: QueueName) -> QueueSpec | None:
        return self.queues.get(name)

    def groups_of(self, topic: QueueName, *, unfit: bool = False) -> dict[str, QueueSpec]:
        """The queues of a topic's consumer groups, by the group's name; also those that are `unfit`, or not."""
        queues = (*self, *self.unfit.values()) if unfit else self
        members = (q for q in queues if q.options.topic == topic.table and q.name.database == topic.database)
        return {queue.options.consumer_group or "": queue for queue in members}


class MessageKey(NamedTuple):
    """What the cache stores of a waiting message. The order of the fields is the order of delivery.

    This and the other objects that are made for each delivery are named tuples, which are made in a third of the time
    of a frozen dataclass.
    """

    priority: int
    due_ns: int
    id: MessageId


class Message(NamedTuple):
    """A leased message. `values` are in the order of the queue's `columns`; `due_ns` is when it became due before the
    lease; `token`: the number of this delivery, NO_TOKEN where the queue has none."""

    id: MessageId
    epoch: int
    priority: int
    due_ns: int
    lease_until_ns: int
    values: tuple[TextValue, ...]
    token: int = NO_TOKEN

    @property
    def is_repeated(self) -> bool:
        """Whether a receiver has had it before. A delivery that was no attempt does not show in the epoch."""
        return self.epoch > 1 or goes_alone(self.due_ns)


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages for one receiver; `rows` are projected to the subscription's columns, one per message. `ends`: when
    their leases end at the earliest, by Clock.boottime. Messages of a broadcast are not leased: they have only rows."""

    messages: tuple[Message, ...]
    rows: tuple[tuple[TextValue, ...], ...]
    ends: tuple[float, ...] = ()

    def part(self, start: int, end: int | None = None) -> Batch:
        """Some of it, in order."""
        return Batch(self.messages[start:end], self.rows[start:end], self.ends[start:end])


class WaitMode(Enum):
    """When a result set ends without an error (besides LIMIT)."""

    ENDLESS = "endless"
    WAIT = "wait"
    NOWAIT = "nowait"


@dataclass(frozen=True, slots=True)
class Condition:
    """Which messages a stream takes: its WHERE as SQL of the backend, without parameters, that names columns of the
    queue; with a `key_range`, both as one condition, or the key range alone.

    `settings`: the session's settings that decide how it is read, by name. `text`: the WHERE as the client wrote it;
    two conditions that differ only in it are equal. `age_ns`: only what has been due for so long.
    """

    sql: str
    settings: tuple[tuple[str, str], ...] = ()
    text: str = field(default="", compare=False)
    key_range: KeyRange | None = None
    age_ns: int = 0

    def within(self, key_range: KeyRange) -> Condition:
        """The same for the messages of that range alone."""
        return replace(self, sql=f"{key_range.sql} AND ({self.sql})", key_range=key_range)

    @property
    def only_range(self) -> KeyRange | None:
        """The key range, where there is nothing else."""
        alone = self.key_range is not None and self.sql == self.key_range.sql and not self.age_ns
        return self.key_range if alone else None


def of_key_range(key_range: KeyRange | None) -> Condition | None:
    """The condition of a stream without a WHERE; None where it takes every message."""
    return None if key_range is None else Condition(key_range.sql, key_range=key_range)


class Start(Enum):
    """The kinds of start of a reader."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartAt:
    """Where a reader begins. `value`: the first offset, or the time in nanoseconds since the epoch."""

    start: Start
    value: int = 0


@dataclass(frozen=True, slots=True)
class ReceiverIdentity:
    """Who receives, or settles: a client's connection, its account and address, and the name and the process that it
    reports."""

    connection_id: int = 0
    user: str = ""
    host: str = ""
    consumer: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """What a SELECT ... FROM STREAM requests. `columns` None means `*`; `condition` None: every message."""

    queue: QueueName
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    wait_mode: WaitMode = WaitMode.ENDLESS
    wait_seconds: float = 0.0
    prefetch: int | None = None
    ack_wait_ns: int | None = None
    condition: Condition | None = None
    receiver: ReceiverIdentity = ReceiverIdentity()
    by_connection: bool | None = None
    """Whether messages that are unacked when the result ends are released when its connection ends, not by time; None:
    not specified."""
    start: StartAt | None = None
    """Where to start, if a topic is read directly. None: `queue` is a queue."""
    keys: Keys = Keys.SHARED
    """How its messages are chosen by their keys. Unless SHARED, there is no `condition`."""


@dataclass(frozen=True, slots=True)
class SubscriptionStatus:
    """An open stream. `waiting`: it would take a message now, within its window; `window_full`: it may have no more
    unacked ones. `since_ns`: when it was opened. `filter`: its WHERE, empty without one."""

    queue: QueueName
    receiver: ReceiverIdentity
    filter: str
    mode: str
    prefetch: int
    unacked: int
    sent: int
    waiting: bool
    window_full: bool
    since_ns: int
    rate_limited_seconds: float = 0.0
    """Seconds for which the queue's max_rate allows no delivery to it."""
    key_range: str = ""
    """The part of the ring whose messages it takes, as the option of that name has it; empty: all of it."""
    keys: str = Keys.SHARED.value
    """As the option of that name."""

    @property
    def selects(self) -> bool:
        """Whether it takes some of the queue's messages only."""
        return bool(self.filter) or not self.slots.is_whole

    @property
    def slots(self) -> KeyRange:
        """Where the messages are that it takes, sooner or later."""
        return shown_key_range("" if self.keys == Keys.STICKY.value else self.key_range)


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One row of SHOW QUEUES: state in memory and counters since the proxy started."""

    name: QueueName
    subscribers: int
    cached: int
    in_flight: int
    counters: Mapping[str, int]
    delays: tuple[int, ...] = ()
    """First deliveries by how long they had waited (engine.delivery.metrics), and the sum of these seconds."""
    delay_seconds: float = 0.0
    receivers: int = 0
    """Connections that have an open stream or a message, or had a result within the last minute."""
    alarms: int = 0
    """Messages delivered here that have been leased for longer than alarm_after."""
    refused: tuple[tuple[str, str], ...] = ()
    """The first messages that the database refuses to lease, by their ids, each with its error."""
    refuses_all: bool = False
    """It refuses so many one after the other that deliveries pause."""
    failing: str = ""
    """The number of the error with which deliveries, or the copies of a group's messages, fail now."""
