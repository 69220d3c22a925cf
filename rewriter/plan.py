"""What is to be done with a statement: a closed union that the executor matches to the end.

Plans are frozen and carry no connection state, so they can be cached by (text shape, catalog version, database).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from engine.model.groups import GroupKey
from engine.model.options import QueueOptions
from engine.model.pins import Pins
from engine.model.queue import MessageId, QueueName, StartAt, SubscribeRequest
from engine.model.schedules import Every, Missed, Rule, ScheduleName, Value
from engine.model.sequence import Sequencing
from engine.model.topics import GroupName
from engine.model.trace_event import ENQUEUED
from rewriter.views import View


class TransactionVerb(Enum):
    """The statements that open, end or wind back a transaction. OPAQUE: what they run is not in their text. AUTOCOMMIT:
    SET autocommit = 1, which ends one only where autocommit was off, as the status flags show afterwards."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    ROLLBACK_TO = "rollback to"
    OPAQUE = "opaque"
    AUTOCOMMIT = "autocommit"


@dataclass(frozen=True, slots=True)
class Effects:
    """What a statement does to queues if it succeeds, for the transaction scope.

    `touched`: may add or reschedule messages. `settled`: ends exactly these messages. `uncertain`: may end messages
    that the text does not show. `changed`: releases or renews the leases of exactly these messages. `rejected`: may
    leave messages to be moved to the dead-letter queue. `if_all`: so many rows have to be changed for it to be exactly
    the messages named, else it is some of them; 0: it is in any case. `removes`: drops or empties these queues' tables
    by an ordinary statement, which has to be allowed first. `catalog`: queues may have come, gone or changed, any
    (True) or these. `several`: of more than one statement, so that a part may hold though the whole
    failed. `delay_ns`: those `changed` fall due so long after the statement's own time; 0: by the backoff of their
    queue; None: not known.
    """

    touched: frozenset[QueueName] = frozenset()
    settled: tuple[tuple[QueueName, tuple[MessageId, ...]], ...] = ()
    uncertain: frozenset[QueueName] = frozenset()
    changed: tuple[tuple[QueueName, tuple[MessageId, ...]], ...] = ()
    rejected: frozenset[QueueName] = frozenset()
    removes: frozenset[QueueName] = frozenset()
    if_all: int = 0
    catalog: bool | frozenset[QueueName] = False
    transaction: TransactionVerb | None = None
    several: bool = False
    delay_ns: int | None = None
    tally: tuple[QueueName, str] | None = field(default=None, compare=False)
    """What the affected rows are counted as, once committed: a counter of engine.delivery.metrics, of that queue."""
    reason: str = field(default="", compare=False)
    """The reason in the statement."""
    drops: frozenset[QueueName] = frozenset()
    """Queues and topics that are dropped then, and their schedules with them."""
    names: tuple[QueueName, QueueName] | None = None
    """A queue and its dead-letter queue, which may belong to another client; an account that may add to it names it
    so."""
    numbered: bool = field(default=False, compare=False)
    """The rows that it adds are those of a topic whose history is stored, and get their ids in one step: the answer
    contains the first. So it must not take the fast path, which does not read that."""

    @property
    def empty(self) -> bool:
        """Nothing that has to be reported to the engine."""
        return self == NO_EFFECTS

    @property
    def only_adds(self) -> QueueName | None:
        """The queue or topic, where it adds messages to one and does nothing else."""
        tally = self.tally
        if tally is None or tally[1] != ENQUEUED or self.uncertain or self.several or self.numbered:
            return None
        if len(self.touched) != 1:
            return None
        (queue,) = self.touched
        return queue if queue is tally[0] or queue == tally[0] else None  # seldom hashed: it is asked at each INSERT

    @property
    def only_settles(self) -> tuple[MessageId, ...]:
        """The messages, where it ends exactly these of one queue, whose counter it has, and does nothing else."""
        if len(self.settled) != 1 or self.tally is None or self.several or self.uncertain or self.rejected:
            return ()
        ((queue, ids),) = self.settled
        return ids if queue == self.tally[0] and not (self.touched or self.changed) else ()


NO_EFFECTS = Effects()


@dataclass(frozen=True, slots=True)
class Passthrough:
    """Ordinary SQL: to the backend, unchanged to the byte."""

    effects: Effects = NO_EFFECTS


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A topic that is to have partitions. `create`: with them; else it has to have them already."""

    topic: QueueName
    create: bool


_WHERE = " WHERE ("  # of each verb, behind its table


@dataclass(frozen=True, slots=True)
class ShardedTable:
    """The table of a queue over the shards of a Vitess: `key` places its messages, by the hash of their ring; its ids
    come from `sequence`, a table of a keyspace that is not sharded (None: each INSERT has one). `drops`: it goes."""

    name: QueueName
    key: str
    sequence: QueueName | None
    drops: bool = False


@dataclass(frozen=True, slots=True)
class Execute:
    """Queue statement that is one MySQL statement in the table's terms; parameters keep their order and count.

    `warnings` are what SHOW WARNINGS shows after it; only statements without parameters have any. `check`: a statement
    that the database has to accept before. `adds`: one that adds a column before, which another proxy may have added
    since. `manages`: the consumer group that it alters or drops. `partitions`: the topic that is to have partitions.
    `numbers`: a topic whose messages are to have theirs before. `reporter_offset`: where in `sql` the client that
    reports a failure is inserted (rewriter.plans.failed_attempts), 0 where it reports none. `pins`: which of the
    client's settings it does without. `at_shards`: the queue of several shards on whose messages it is: it goes to each
    shard that has some. `vschema`: what vtgate has to know before a table is made, or to forget once it is dropped.
    """

    sql: str
    effects: Effects = NO_EFFECTS
    warnings: tuple[str, ...] = ()
    check: str = ""
    adds: str = ""
    manages: GroupName | None = None
    partitions: Partitioned | None = None
    numbers: QueueName | None = None
    reporter_offset: int = 0
    pins: Pins = Pins.NOTHING
    at_shards: QueueName | None = None
    vschema: ShardedTable | None = None

    @property
    def has_prerequisites(self) -> bool:
        """Whether something is to be done before or after it."""
        return bool(self.check or self.adds) or (self.partitions or self.at_shards or self.vschema) is not None

    def routed(self, condition: str) -> str:
        """Its SQL for one shard, to which a vtgate sends it by this condition on the sharding key."""
        assert self.at_shards is not None
        table = self.at_shards.sql
        start = self.sql.index(_WHERE, self.sql.index(table) + len(table)) + len(_WHERE) - 1
        return f"{self.sql[:start]}{condition} AND {self.sql[start:]}"

    @property
    def named(self) -> tuple[MessageId, ...] | None:
        """The messages that it is on; None where it does not name all of them."""
        named = self.effects.settled + self.effects.changed
        return named[0][1] if len(named) == 1 and not self.effects.uncertain else None


@dataclass(frozen=True, slots=True)
class EndInGroup:
    """A statement that ends messages of a queue whose messages form groups: `sql` is what the database is to do.

    `groups_sql` reads the groups of the messages that it will end, before it; with FOR UPDATE after it, it locks them.
    """

    sql: str
    effects: Effects
    group: GroupKey
    groups_sql: str
    pins: Pins = Pins.ROWS


@dataclass(frozen=True, slots=True)
class InsertAfterGroup:
    """INSERT ... AFTER GROUP: `parked` enqueues the message so that it waits, `plain` as any other.

    `value` is the group, `id` the message's own as text; None where bound by `?`. `numbered`: the database generates
    it.
    """

    parked: str
    plain: str
    effects: Effects
    group: GroupKey
    value: str | None
    follow: QueueName
    numbered: bool
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ExecuteCounting:
    """A verb on `queue`, answered by a result of one row: how many messages changed, under the name `column`."""

    queue: QueueName
    counts: Execute | EndInGroup
    column: str


@dataclass(frozen=True, slots=True)
class Redrive:
    """Put dead letters back into their queue: mark which, copy what is marked, delete it. What cannot have its id there
    is marked otherwise by `renumber`, and copied by `renumbered`. `partly`: some may be there, and are not copied.
    `at_shards`: see Execute."""

    mark: str
    copy: str
    delete: str
    effects: Effects
    partly: bool = False
    renumber: str = ""
    renumbered: str = ""
    at_shards: QueueName | None = None


@dataclass(frozen=True, slots=True)
class Rebind:
    """To be planned again with the values of its `?` in the text. `column`: of the result it will have."""

    sql: str
    parameters: int
    column: str | None


@dataclass(frozen=True, slots=True)
class CreateConsumerGroup:
    """CREATE GROUP: make the `group`'s queue from the definition of its topic, and have it begin at `start`.

    `moment`: the time for `start`, in the session's time zone; empty where it has its value. `check`: see Execute.
    """

    topic: QueueName
    group: QueueName
    options: QueueOptions
    start: StartAt
    moment: str = ""
    check: str = ""


@dataclass(frozen=True, slots=True)
class SeekConsumerGroup:
    """ALTER GROUP ... SEEK TO. `start` and `moment` are those of CreateConsumerGroup."""

    group: QueueName
    start: StartAt
    moment: str
    manages: GroupName


@dataclass(frozen=True, slots=True)
class CreateSchedule:
    """CREATE SCHEDULE. `columns`: None where there is no list of them. As in each of these, an empty database is the
    current one, until the planner puts that in its place."""

    name: ScheduleName
    queue: QueueName
    if_not_exists: bool
    rule: Rule
    columns: tuple[str, ...] | None
    values: tuple[Value, ...]
    missed: Missed


@dataclass(frozen=True, slots=True)
class AlterSchedule:
    """ALTER SCHEDULE: what is None stays as it is."""

    name: ScheduleName
    paused: bool | None = None
    cron: str | None = None
    zone: str | None = None
    every: Every | None = None
    missed: Missed | None = None


@dataclass(frozen=True, slots=True)
class DropSchedule:
    """DROP SCHEDULE [IF EXISTS]."""

    name: ScheduleName
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RunSchedule:
    """RUN SCHEDULE: its message now, in the client's transaction."""

    name: ScheduleName


SchedulePlan = CreateSchedule | AlterSchedule | DropSchedule | RunSchedule
"""What changes or runs a schedule, by statements on the client's own connection."""


@dataclass(frozen=True, slots=True)
class NoOperation:
    """A statement that is already true (CREATE QUEUE IF NOT EXISTS, DROP QUEUE IF EXISTS): OK with one note.
    `manages`: the consumer group that it would make or drop."""

    note_errno: int
    note: str
    manages: GroupName | None = None


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """The WHERE of a stream as SQL of the database, split where the values of `?` go; `text` is as it was written.

    `parts` are read with backslash escapes. `session_parts` are for the client's session, where that reads them
    differently."""

    parts: tuple[str, ...]
    text: str
    session_parts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SELECT ... FROM STREAM: answered by the engine. `parameters` are the names bound by `?`, in order:
    "limit", "wait" or "where"; their values replace those in the request, or go into the filter, at execution."""

    request: SubscribeRequest
    parameters: tuple[str, ...] = ()
    filter: StreamFilter | None = None
    moment: str = ""
    """The time at which a reader of a topic begins, in the session's time zone."""


@dataclass(frozen=True, slots=True)
class Show:
    """A SHOW of a view: of one database (None: of all), of the names that match `like`. `name`: of the queue, topic or
    schedule in that database that it is about."""

    view: View
    database: str | None = None
    like: str | None = None
    name: str | None = None

    @property
    def queue(self) -> QueueName:
        """The table of that name, where the SHOW is about one."""
        assert self.database is not None
        assert self.name is not None
        return QueueName(self.database, self.name)


@dataclass(frozen=True, slots=True)
class ExplainDelivery:
    """EXPLAIN DELIVERY: why these messages are not out. `sql` reads the rows (rewriter.plans.explain_delivery); `ids`
    are those that the condition names, if it names any: what no row has is unknown. `limit`: messages in all."""

    queue: QueueName
    sql: str
    ids: tuple[MessageId, ...] = ()
    limit: int = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """TRACE MESSAGE: what is known of a message of a topic. `sql` reads when it was enqueued, and its offset; `groups`:
    by their names, the questions for it in their queues."""

    topic: QueueName
    id: int
    sql: str
    groups: tuple[tuple[str, ExplainDelivery], ...]


@dataclass(frozen=True, slots=True)
class TraceInQueue:
    """TRACE MESSAGE on a queue. `sql` reads when the message was enqueued; empty where the queue does not record it."""

    delivery: ExplainDelivery
    sql: str


class InformationTable(Enum):
    """The tables of information_schema that list the system tables to a statement that queries them by name."""

    SCHEMATA = "SCHEMATA"
    TABLES = "TABLES"
    COLUMNS = "COLUMNS"


Piece = str | View | InformationTable


@dataclass(frozen=True, slots=True)
class ReadSystem:
    """A SELECT with system tables in it: text, and in between the tables whose values are to be put there."""

    pieces: tuple[Piece, ...]


class SystemShow(Enum):
    """What a SHOW, or a DESCRIBE, shows of the system tables and of their database."""

    TABLES = "tables"
    TABLE_STATUS = "table status"
    COLUMNS = "columns"
    INDEXES = "indexes"
    CREATE_TABLE = "create table"
    CREATE_DATABASE = "create database"
    DATABASES = "databases"
    CURRENT = "current"


@dataclass(frozen=True, slots=True)
class ShowSystem:
    """A statement that describes or lists system tables. `view`: the one, for what concerns one of them."""

    what: SystemShow
    view: View | None = None
    like: str | None = None
    full: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """KILL [CONNECTION | QUERY] id."""

    connection_id: int
    query_only: bool


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """USE db: to the backend, and remembered here to resolve unqualified queue names."""

    database: str


Plan = (
    Passthrough
    | Execute
    | EndInGroup
    | InsertAfterGroup
    | ExecuteCounting
    | Rebind
    | Redrive
    | CreateConsumerGroup
    | SeekConsumerGroup
    | CreateSchedule
    | AlterSchedule
    | DropSchedule
    | RunSchedule
    | NoOperation
    | Subscribe
    | Show
    | ExplainDelivery
    | Trace
    | TraceInQueue
    | ReadSystem
    | ShowSystem
    | Kill
    | UseDatabase
)


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan depends on in addition to the text and the catalog. `now_sql` is evaluated by the database.
    `sequencing`: whether the database can have topics with numbers; queried only where a topic is defined."""

    database: str | None = None
    now_sql: str = "(TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))*1000)"
    sql_modes: frozenset[str] = field(default_factory=frozenset)
    sequencing: Sequencing = Sequencing.POSSIBLE
