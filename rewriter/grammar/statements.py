"""The queue statements as frozen nodes: what the user wrote, before any queue is looked up.

Expressions inside queue statements (conditions, column definitions) are stored as slices of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from engine.model.errors import EngineError
from engine.model.option_values import OptionValue
from engine.model.queue import Start, WaitMode
from rewriter.errors import RewriteError
from rewriter.plan import (
    AlterSchedule,
    CreateSchedule,
    DropSchedule,
    Kill,
    ReadSystem,
    RunSchedule,
    Show,
    ShowSystem,
    UseDatabase,
)
from rewriter.text.tokens import Name, Token


class Bound(Enum):
    """A value that is bound at execution: `?`."""

    PARAMETER = "?"


# --- definitions


@dataclass(frozen=True, slots=True)
class ColumnItem:
    """A column of CREATE QUEUE: its name, the text as written, and the bare words and marks of its definition.

    `words` leaves out the text in parentheses; `definition` is the text after the name.
    """

    name: str
    text: str
    definition: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyItem:
    """A key or constraint: `words` before its column list, and the names in that list (empty if it has none)."""

    text: str
    words: tuple[str, ...]
    columns: tuple[str, ...]


Item = ColumnItem | KeyItem


@dataclass(frozen=True, slots=True)
class CreateQueue:
    name: Name
    if_not_exists: bool
    items: tuple[Item, ...]
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class DropQueue:
    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class TruncateQueue:
    name: Name


# --- topics


@dataclass(frozen=True, slots=True)
class Beginning:
    """From where a reader is to begin. `offset`: of OFFSET. `moment`: of TIMESTAMP, in the session's time zone."""

    start: Start
    offset: int = 0
    moment: str = ""


@dataclass(frozen=True, slots=True)
class CreateTopic:
    name: Name
    if_not_exists: bool
    items: tuple[Item, ...]
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """An option whose value is None is reset to its default."""

    name: Name
    options: Mapping[str, OptionValue | None]


@dataclass(frozen=True, slots=True)
class DropTopic:
    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class CreateGroup:
    topic: Name
    group: str
    if_not_exists: bool
    beginning: Beginning
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class AlterGroup:
    """As AlterQueue, for the queue of a group."""

    topic: Name
    group: str
    options: Mapping[str, OptionValue | None]


@dataclass(frozen=True, slots=True)
class SeekGroup:
    topic: Name
    group: str
    beginning: Beginning


@dataclass(frozen=True, slots=True)
class DropGroup:
    topic: Name
    group: str
    if_exists: bool


# --- enqueuing


@dataclass(frozen=True, slots=True)
class AfterGroup:
    """AFTER GROUP value OF name; `start` and `end` are its position in the text."""

    value: Token
    name: Name
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Due:
    """When the messages of an INSERT are due: after a DELAY, or (`at`) AT a moment."""

    at: bool
    text: str


@dataclass(frozen=True, slots=True)
class InsertQueue:
    """INSERT or REPLACE with named columns. `values` are those of the first row, as tokens; `nulls` are all that are
    plainly NULL, each with the number of its column, `shown` those that repeat one of our defaults as a server shows
    it.

    `places` are where more can be added in the text: to the list of columns, then to each row; with `assigns` (INSERT
    ... SET) only after the last assignment. `changes`: it may change rows that exist. `returns`: it has a result set.
    `due`: its DELAY or AT, which `sql` no longer contains.
    """

    name: Name
    sql: str
    columns: tuple[str, ...]
    values: tuple[tuple[Token, ...], ...]
    places: tuple[int, ...]
    assigns: bool
    changes: bool
    ignores: bool
    returns: bool
    group: AfterGroup | None = None
    nulls: tuple[tuple[int, Token], ...] = ()
    shown: tuple[tuple[int, Token], ...] = ()
    due: Due | None = None


@dataclass(frozen=True, slots=True)
class AlterQueue:
    """ALTER QUEUE name SET, PAUSE or RESUME. An option whose value is None goes back to its default."""

    name: Name
    options: Mapping[str, OptionValue | None]


# --- receiving


@dataclass(frozen=True, slots=True)
class StreamColumn:
    """One item of the select list: `qualifier.name`, or `*` where name is None. `text` is as written."""

    qualifier: tuple[str, ...]
    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class StreamClauses:
    """What may follow the queue's name. `condition`: the tokens of WHERE, none without one."""

    limit: int | Bound | None = None
    wait_mode: WaitMode = WaitMode.ENDLESS
    wait_seconds: float | Bound = 0.0
    options: tuple[tuple[str, OptionValue], ...] = ()
    parameters: tuple[str, ...] = ()
    condition: tuple[Token, ...] = ()
    condition_text: str = ""
    since: Beginning | None = None
    until: Beginning | None = None


@dataclass(frozen=True, slots=True)
class SelectStream:
    """SELECT ... FROM STREAM name. `certain`: it can be nothing else; if not, it may be a table `stream` and its alias.

    `fault`: why it cannot be run as a stream, raised if it turns out to be one.
    """

    name: Name
    columns: tuple[StreamColumn, ...]
    clauses: StreamClauses
    certain: bool
    fault: RewriteError | EngineError | None = None


# --- settling


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = value` of an UPDATE; `value` holds its tokens, `text` the whole as written."""

    column: str
    value: tuple[Token, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Ack:
    """ACK by ids (NUMBER, STRING and PARAMETER tokens), by condition, or by `numbers`: plain ids as written, with
    commas between. Two of the three are empty."""

    name: Name
    ids: tuple[Token, ...]
    condition: str
    numbers: str = ""


class Verb(Enum):
    """The verbs that release, extend or end a lease, except ACK."""

    NACK = "nack"
    RELEASE = "release"
    RENEW = "renew"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Settle:
    """A verb on messages: by ids or by condition, one of them empty, as ACK has them.

    `duration_ns`: the DELAY of a NACK, None for the queue's own backoff; the FOR of a RENEW. `reason`: None where there
    is none.
    """

    verb: Verb
    name: Name
    ids: tuple[Token, ...]
    condition: str
    duration_ns: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """RETRY q NOW [WHERE condition]; the condition may be empty."""

    name: Name
    condition: str


@dataclass(frozen=True, slots=True)
class RedriveQueue:
    """REDRIVE name [WHERE condition] [LIMIT n]; the condition may be empty."""

    name: Name
    condition: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class QueueFunction:
    """SELECT queue_ack(...): a verb whose count is the one value of a result. `column` is that value's name."""

    settles: Ack | Settle
    column: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """A statement that can be read only once the values of its `?` are known: a plan needs them where they are.

    `column`: of the result that it will have, None if it has none.
    """

    sql: str
    parameters: int
    column: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateQueue:
    """UPDATE of one table. `head` is the text before SET, `target` the table in it as written, with its alias; `tail`
    ORDER BY and LIMIT."""

    name: Name
    head: str
    target: str
    assignments: tuple[Assignment, ...]
    condition: str
    tail: str


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """DELETE from one table. `target` and `tail` are those of UpdateQueue."""

    name: Name
    sql: str
    target: str
    condition: str
    tail: str


# --- looking


@dataclass(frozen=True, slots=True)
class ExplainMessages:
    """EXPLAIN DELIVERY FOR name [WHERE condition] [LIMIT limit]; the condition as written, empty without one."""

    name: Name
    condition: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """TRACE MESSAGE id ON name; the id as written."""

    name: Name
    id: Token


# Show, Kill and the like: the node is the plan, and the planner fills in what the names mean.
Statement = (
    CreateQueue
    | AlterQueue
    | DropQueue
    | TruncateQueue
    | CreateTopic
    | AlterTopic
    | DropTopic
    | CreateGroup
    | AlterGroup
    | SeekGroup
    | DropGroup
    | CreateSchedule
    | AlterSchedule
    | DropSchedule
    | RunSchedule
    | InsertQueue
    | SelectStream
    | Ack
    | Settle
    | Retry
    | RedriveQueue
    | QueueFunction
    | Unbound
    | UpdateQueue
    | DeleteQueue
    | Show
    | ReadSystem
    | ShowSystem
    | ExplainMessages
    | TraceMessage
    | Kill
    | UseDatabase
)
