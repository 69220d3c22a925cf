"""The proxy's view of its queues, as tables: columns and values, whether a SHOW asks for them or a SELECT. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from engine.background.dead_letter_mover import dead_letter_name
from engine.background.surveyor import Survey
from engine.delivery.refusals import SHOWN_MAX
from engine.model.explanation import moment
from engine.model.identity import id_text
from engine.model.options import QueueOptions
from engine.model.queue import ColumnMeta, QueueCatalog, QueueName, QueueSpec, QueueStatus, SubscriptionStatus, quoted
from engine.model.topics import GroupLag
from engine.store.base import LeasedMessage
from proxy.show.columns import Row, like_pattern, number_column, text_column
from rewriter.views import View

_NEWDECIMAL, _BINARY = 246, 63
_TOTALS = (
    "enqueued",
    "sent",
    "redelivered",
    "acked",
    "nacked",
    "rejected",
    "dead_lettered",
    "released",
    "expired",
    "deleted",
    "purged",
)

_TITLES = {
    "db": "Database",
    "group_name": "Group",
    "group_count": "Groups",
    "read_offset": "Offset",
    "create_queue": "Create Queue",
    "create_schedule": "Create Schedule",
}
"""Of columns that are called otherwise in a table, where a word of SQL would have to be quoted; and of two words."""

_PAUSED = "paused: accepts messages and delivers none until ALTER QUEUE ... RESUME"

Value = int | float | str | None
"""A cell. Floats have three decimals."""


class Kind(Enum):
    """The kind of a column's values."""

    TEXT = "text"
    NUMBER = "number"
    DECIMAL = "decimal"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table here."""

    name: str
    kind: Kind = Kind.NUMBER
    length: int = 256

    @property
    def meta(self) -> ColumnMeta:
        """As a SHOW names and describes it."""
        title = _TITLES.get(self.name, self.name.capitalize())
        if self.kind is Kind.TEXT:
            return text_column(title, self.length)
        if self.kind is Kind.NUMBER:
            return number_column(title)
        return ColumnMeta(title, _NEWDECIMAL, _BINARY, 22, decimals=3)


def _texts(*names: str, length: int = 256) -> tuple[Field, ...]:
    return tuple(Field(name, Kind.TEXT, length) for name in names)


def _numbers(*names: str) -> tuple[Field, ...]:
    return tuple(Field(name) for name in names)


QUEUES = (
    *_texts("queue", "db"),
    *_numbers("subscribers", "unacked", "cached", "sent", "redelivered", "purged", "receivers"),
    *_texts("problem"),
)
"""What the proxies themselves know of each queue, without a look at its table."""

QUEUE_STATUS = (
    *_texts("queue", "db", length=64),
    *_numbers("paused", "subscribers", "receivers", "ready", "scheduled", "retrying", "in_flight", "parked"),
    *_numbers("unmatched", "acked", "dead"),
    Field("oldest_ready_age", Kind.DECIMAL),
    *_texts("counted", length=32),
    *_numbers("alarms", "unread"),
    *_numbers(*(f"{name}_total" for name in _TOTALS)),
    *_texts("problem", length=512),
)
"""One row for each queue, and one for each table that wants to be one and cannot be."""

SUBSCRIPTIONS = (
    *_texts("queue", "db", length=64),
    *_numbers("connection_id"),
    *_texts("user", "host", "mode", length=64),
    *_texts("filter", length=4096),
    *_numbers("prefetch", "unacked", "sent", "waiting", "window_full"),
    *_texts("since", length=23),
    *_texts("consumer", length=64),
    *_numbers("pid"),
    *_texts("key_range", length=1024),
    *_texts("keys", length=16),
)
"""One row for each open stream."""

IN_FLIGHT = (
    *_texts("queue", "db", length=64),
    *_texts("id", length=256),
    *_numbers("priority", "epoch"),
    *_texts("leased_until", length=23),
    Field("seconds_left", Kind.DECIMAL),
    *_numbers("connection_id"),
    *_texts("user", "host", "consumer", length=64),
)
"""One row for each leased message."""

QUEUE_OPTIONS = (*_texts("option", length=64), *_texts("value", "default", length=4096))
"""One row for each option of one queue."""

QUEUE_RANGES = (
    *_texts("key_range", length=1024),
    *_numbers("receivers", "ready", "later", "in_flight"),
    Field("oldest_ready_age", Kind.DECIMAL),
    *_texts("counted", length=32),
)
"""One row for each part of the ring of a queue with a sharding key."""

TOPICS = (
    *_texts("topic", "db", length=64),
    *_numbers("first_offset", "last_offset", "group_count", "readers", "messages", "bytes", "last_minute"),
    *_texts("options", "problem"),
)
"""One row for each topic."""

GROUPS = (
    *_texts("topic", "db", "group_name", "queue", length=64),
    *_numbers("paused", "members", "read_offset", "unread"),
    Field("oldest_unread_age", Kind.DECIMAL),
    *_numbers("holes", "lost", "ready", "waiting", "in_flight", "dead", "alarms"),
    *_texts("counted", length=32),
    *_texts("problem"),
)
"""One row for each consumer group."""

GROUP_IN_FLIGHT = (
    *_texts("topic", "db", "group_name", length=64),
    *_numbers("id", "epoch"),
    *_texts("leased_until", length=23),
    Field("seconds_left", Kind.DECIMAL),
    *_numbers("connection_id"),
    *_texts("user", "host", "consumer", length=64),
)
"""One row for each message that a member of a consumer group has leased."""

CONSUMERS = (
    *_texts("topic", "db", "group_name", length=64),
    *_numbers("connection_id"),
    *_texts("user", "host", "consumer", length=64),
    *_numbers("pid", "in_flight", "sent"),
    *_texts("waits_for", length=32),
    *_texts("since", length=23),
)
"""One row for each member of a consumer group, and for each reader of a broadcast, whose group_name is NULL."""

TRACE = (
    *_texts("group_name", length=64),
    *_texts("state", length=32),
    *_texts("enqueued", length=23),
    *_numbers("attempts"),
    *_texts("leased_until", length=23),
    *_numbers("connection_id"),
    *_texts("consumer", length=64),
    *_texts("last_error", length=1000),
    *_texts("failed_attempts", length=8192),
    *_texts("explanation", length=2048),
    *_texts("history", length=8192),
)
"""What TRACE MESSAGE answers: one row for each group of the topic."""

TRACES = (
    *_texts("queue", "db", "topic", "group_name", length=64),
    *_texts("id", length=256),
    *_texts("at", length=23),
    *_texts("event", length=32),
    *_numbers("certain", "attempt", "connection_id"),
    *_texts("user", "host", "consumer", length=64),
    *_numbers("pid"),
    *_texts("reason", length=1000),
    *_texts("proxy", length=256),
)
"""What happened to messages lately, one row for each thing that happened to one message."""

SCHEDULES = (
    *_texts("schedule", "db", "queue", length=64),
    *_texts("rule", "time_zone", length=256),
    *_texts("missed", length=8),
    *_numbers("paused"),
    *_texts("last_tick", "next_tick", length=23),
    *_texts("problem", length=1000),
    *_texts("created_by", length=300),
    *_texts("created", length=23),
)
"""One row for each schedule."""

LOG = (
    *_texts("at", length=23),
    *_texts("level", length=16),
    *_texts("logger", length=64),
    *_texts("message", "details", length=1000),
    *_texts("proxy", length=256),
)
"""One row for each warning and error that a process has stored."""

SETTINGS = (*_texts("name", length=128), *_texts("value", length=1000), *_numbers("configured"))
"""One row for each key of the configuration of the proxy that is asked."""

EXPLANATIONS = (*_texts("id", length=256), *_texts("state", length=32), *_texts("explanation", length=2048))
"""What EXPLAIN DELIVERY answers."""

FIELDS = {
    View.QUEUES: QUEUES,
    View.QUEUE_OPTIONS: QUEUE_OPTIONS,
    View.QUEUE_RANGES: QUEUE_RANGES,
    View.QUEUE_STATUS: QUEUE_STATUS,
    View.SUBSCRIPTIONS: SUBSCRIPTIONS,
    View.IN_FLIGHT: IN_FLIGHT,
    View.TOPICS: TOPICS,
    View.GROUPS: GROUPS,
    View.CONSUMERS: CONSUMERS,
    View.GROUP_IN_FLIGHT: GROUP_IN_FLIGHT,
    View.TRACES: TRACES,
    View.SCHEDULES: SCHEDULES,
    View.LOG: LOG,
    View.SETTINGS: SETTINGS,
    View.CREATE_QUEUE: (*_texts("queue"), *_texts("create_queue", length=16_384)),
    View.CREATE_SCHEDULE: (*_texts("schedule"), *_texts("create_schedule", length=16_384)),
}
"""The columns of each view; those of a process list are the server's."""

Values = tuple[Value, ...]


def columns(fields: Iterable[Field]) -> tuple[ColumnMeta, ...]:
    """As a result set describes them."""
    return tuple(field.meta for field in fields)


def shown(rows: Iterable[Values]) -> list[Row]:
    """Values as the text protocol carries them."""
    return [
        tuple(None if value is None else text_of(value).encode("utf-8", "replace") for value in row) for row in rows
    ]


def text_of(value: int | float | str) -> str:
    """A value as text."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def delivery_problem(status: QueueStatus) -> str:
    """Why messages are not delivered, without the database's text, which may quote one. "": they are."""
    if not status.refused:
        return f"deliveries fail with {status.failing}" if status.failing else ""
    count = len(status.refused)
    what = "a message" if count == 1 else f"{count if count < SHOWN_MAX else 'some'} messages"
    which = f"EXPLAIN DELIVERY FOR {quoted(status.name.table)} shows which and why"
    others = "so many that deliveries pause" if status.refuses_all else "and the others are delivered"
    return f"the database refuses to lease {what}, {others}; {which}"


def dead_letter_queue(queue: QueueSpec, catalog: QueueCatalog) -> QueueSpec | None:
    """Where the queue's dead letters are, if there have been any. A consumer group's queue of that name is not it."""
    target = catalog.get(dead_letter_name(queue))
    return None if target is None or target.options.topic is not None else target


def queue_summaries(
    statuses: Iterable[QueueStatus],
    catalog: QueueCatalog,
    database: str | None,
    like: str | None,
    can_see: Callable[[QueueName], bool] = lambda name: True,
    redact: Callable[[str], str] = str,
    problems: Mapping[QueueName, str] = MappingProxyType({}),
) -> list[Values]:
    """The rows of QUEUES: those served with their counters and `problems`, those refused with the reason, in a text
    that `redact` has made fit for the account. `can_see`: no others."""
    matches_name = like_pattern("%" if like is None else like)
    rows: list[tuple[QueueName, Values]] = []
    paused = {queue.name for queue in catalog if queue.options.paused}
    for status in statuses:
        counters = [status.counters.get(name, 0) for name in ("sent", "redelivered", "purged")]
        numbers = (status.subscribers, status.in_flight, status.cached, *counters, status.receivers)
        notes = [text for text in (_PAUSED if status.name in paused else "", problems.get(status.name, "")) if text]
        rows.append((status.name, (*numbers, "; ".join(notes) or None)))
    blanks: Values = (None,) * (len(QUEUES) - 3)
    rows += [(name, (*blanks, redact(reason))) for name, reason in catalog.rejected.items() if can_see(name)]
    return [
        (name.table, name.database, *rest)
        for name, rest in sorted(rows, key=lambda row: row[0])
        if database in (None, name.database) and matches_name(name.table) and can_see(name)
    ]


def queue_values(
    statuses: Iterable[QueueStatus],
    surveys: Mapping[QueueName, Survey],
    catalog: QueueCatalog,
    rejected: Mapping[QueueName, str],
    unmatched: Mapping[QueueName, int],
    lags: Mapping[QueueName, GroupLag],
    problems: Mapping[QueueName, str] = MappingProxyType({}),
) -> list[Values]:
    """The rows of QUEUE_STATUS, in the order of their names. `unmatched`: of queues whose streams all have a WHERE;
    `lags`: of queues of consumer groups; `problems`: of queues that are served all the same."""
    rows = {
        status.name: _queue_row(
            status, surveys, catalog, unmatched.get(status.name, 0), lags.get(status.name), problems.get(status.name)
        )
        for status in statuses
        if catalog.get(status.name)
    }
    blank: Values = (None,) * (len(QUEUE_STATUS) - 3)
    rows |= {name: (name.table, name.database, *blank, reason) for name, reason in rejected.items()}
    return [rows[name] for name in sorted(rows)]


def _queue_row(
    status: QueueStatus,
    surveys: Mapping[QueueName, Survey],
    catalog: QueueCatalog,
    unmatched: int,
    lag: GroupLag | None,
    problem: str | None,
) -> Values:
    queue = catalog.queues[status.name]
    survey = surveys.get(status.name, Survey(None, "not counted"))
    more = (status.alarms, None if lag is None else lag.unread)
    totals = tuple(status.counters.get(name, 0) for name in _TOTALS)
    census = survey.census
    # A receiver may have got its message from a proxy that has ended since.
    receivers = max(status.receivers, int(census is not None and census.in_flight > 0))
    first = (queue.name.table, queue.name.database, int(queue.options.paused), status.subscribers, receivers)
    if census is None:
        return (*first, *(None,) * 10, *more, *totals, survey.problem or problem)
    target = dead_letter_queue(queue, catalog)
    dead = Survey(None) if target is None else surveys.get(target.name, Survey(None))
    states = (census.ready, census.scheduled, census.retrying, census.in_flight, census.parked)
    dead_letters = 0 if target is None else dead.census.unacked if dead.census else None
    counted = "at least" if census.bounded else "exact"
    rest = (unmatched, census.acked, dead_letters, census.oldest_ready_age, counted)
    return (*first, *states, *rest, *more, *totals, problem)


def subscription_values(statuses: Iterable[SubscriptionStatus]) -> list[Values]:
    """The rows of SUBSCRIPTIONS."""
    return [
        (
            status.queue.table,
            status.queue.database,
            status.receiver.connection_id,
            status.receiver.user,
            status.receiver.host,
            status.mode,
            status.filter,
            status.prefetch,
            status.unacked,
            status.sent,
            int(status.waiting),
            int(status.window_full),
            moment(status.since_ns),
            status.receiver.consumer or None,
            status.receiver.pid,
            status.key_range or None,
            status.keys,
        )
        for status in sorted(statuses, key=lambda s: (s.queue, s.receiver.connection_id))
    ]


@dataclass(frozen=True, slots=True)
class InFlight:
    """A leased message. `holder`: None where its result has ended, or the account may not see it."""

    queue: QueueSpec
    message: LeasedMessage
    holder: SubscriptionStatus | None

    @property
    def values(self) -> Values:
        """A row of IN_FLIGHT."""
        name, message = self.queue.name, self.message
        return (name.table, name.database, id_text(message.id), message.priority, *self._lease)

    @property
    def group_values(self) -> Values:
        """A row of GROUP_IN_FLIGHT."""
        name, options = self.queue.name, self.queue.options
        return (options.topic, name.database, options.consumer_group, int(self.message.id), *self._lease)

    @property
    def _lease(self) -> Values:
        message, holder = self.message, self.holder
        who: Values = (None,) * 4
        if holder is not None:
            receiver = holder.receiver
            who = (receiver.connection_id, receiver.user, receiver.host, receiver.consumer or None)
        return (message.epoch, moment(message.until_ns), round(message.seconds_left, 3), *who)


def consumer_values(streams: Iterable[SubscriptionStatus], catalog: QueueCatalog) -> list[Values]:
    """The rows of CONSUMERS: of these streams those of topics and their groups."""
    rows: list[Values] = []
    for stream in sorted(streams, key=lambda s: (s.queue, s.receiver.connection_id)):
        queue = catalog.get(stream.queue)
        if queue is not None and queue.options.topic is not None:
            rows.append(_consumer_row(stream, queue.options.topic, queue.options))
        elif stream.queue in catalog.topics:
            rows.append(_consumer_row(stream, stream.queue.table, None))
    return rows


def _consumer_row(stream: SubscriptionStatus, topic: str, group: QueueOptions | None) -> Values:
    return (
        topic,
        stream.queue.database,
        None if group is None else group.consumer_group,
        stream.receiver.connection_id,
        stream.receiver.user,
        stream.receiver.host,
        stream.receiver.consumer or None,
        stream.receiver.pid,
        stream.unacked,
        stream.sent,
        _waits_for(stream, paused=group is not None and group.paused),
        moment(stream.since_ns),
    )


def _waits_for(stream: SubscriptionStatus, *, paused: bool) -> str:
    """What the next message of a stream waits for."""
    if stream.window_full:
        return "acks"
    if not stream.waiting:
        return "client"
    if paused:
        return "resume"
    return "rate" if stream.rate_limited_seconds > 0 else "messages"
