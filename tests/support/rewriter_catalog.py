"""Queues and topics of every kind that matters to the rewriter."""

from __future__ import annotations

from dataclasses import replace

from engine.model.lease_token import TOKEN_COLUMN
from engine.model.options import QueueOptions, parse_options, to_comment
from engine.model.queue import (
    ATTEMPTS_COLUMN,
    ERROR_CHARACTERS,
    ERROR_COLUMNS,
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
)
from engine.model.topics import group_table

BIGINT, MEDIUMTEXT, VARCHAR, STRING = 8, 252, 253, 254
UTF8MB4, BINARY = 45, 63
NOT_NULL = 1


def _own(name: str) -> ColumnMeta:
    if name in ERROR_COLUMNS:
        return ColumnMeta(name, VARCHAR, UTF8MB4, length=4 * ERROR_CHARACTERS)
    if name == ATTEMPTS_COLUMN:
        return ColumnMeta(name, MEDIUMTEXT, UTF8MB4, length=4 * (1 << 24))
    if name == TOKEN_COLUMN:
        return ColumnMeta(name, BIGINT, BINARY, flags=NOT_NULL)
    return ColumnMeta(name, BIGINT, BINARY)


def spec(
    database: str, table: str, *, id_type: int = BIGINT, charset: int = BINARY, user: tuple[str, ...] = ()
) -> QueueSpec:
    user = user or ("user_id", "payload")
    names = [name for name in SYSTEM_COLUMNS if name != "id" and name not in user]
    system = tuple(map(_own, names))
    columns = (
        ColumnMeta("id", id_type, charset),
        *system,
        *(ColumnMeta(name, VARCHAR, UTF8MB4) for name in user),
    )
    generated = frozenset(("state",)).difference(user)
    return QueueSpec(QueueName(database, table), QueueOptions(), columns, ("id", *user), generated=generated)


FIRST_LAYOUT = QueueSpec(
    QueueName("shop", "my_message"),
    QueueOptions(),
    (
        *(
            ColumnMeta(name, BIGINT, BINARY)
            for name in ("time_scheduled", "id", "time_next", "epoch", "time_created", "time_acked")
        ),
        ColumnMeta("message", VARCHAR, UTF8MB4),
    ),
    ("id", "message"),
    Layout.LEGACY,
)
"""Vitess's first table."""


def limited() -> QueueSpec:
    """A queue with limits, their indexes, and a comment that is not all ours."""
    options = parse_options({"max_rate": 5, "max_concurrency": 3, "order_key": "user_id"})
    indexes = tuple(IndexInfo(columns, False, name) for name, columns in options.needed_indexes)
    comment = f"{to_comment(options)},it's ours,vt_other=1"
    return replace(spec("shop", "limited"), options=options, indexes=indexes, comment=comment)


def strict() -> QueueSpec:
    """A queue whose messages fail once."""
    options = parse_options({"order_key": "user_id", "on_failure": "dead_letter"})
    return replace(spec("shop", "strict"), options=options)


BARE = QueueSpec(
    QueueName("shop", "bare"),
    QueueOptions(),
    tuple(ColumnMeta(name, BIGINT, BINARY) for name in ("id", "priority", "epoch", "time_next", "time_acked")),
    ("id",),
)
"""Vitess's current layout, and nothing else."""


def grouped(table: str, *columns: str) -> QueueSpec:
    """A queue whose messages form groups, with an id that counts itself."""
    one = spec("shop", table, user=("order_id", *columns))
    kinds = {"id": {"flags": 0x200}, "order_id": {"type": BIGINT, "charset": BINARY}}
    fields = tuple(replace(column, **kinds.get(column.name, {})) for column in one.columns)
    return replace(one, columns=fields, options=parse_options({"group_key": columns[0] if columns else "order_id"}))


def dead_letters(table: str, source: str | None, *columns: str) -> QueueSpec:
    """A dead-letter queue; without a source, one made by hand."""
    one = spec("shop", table, user=("user_id", "payload", *columns))
    return replace(one, options=QueueOptions(dead_letter_of=source))


def topic(database: str, table: str, *user: str) -> TopicSpec:
    """A topic, whose columns are numbers up to the last one."""
    numbers = (*TOPIC_COLUMNS, *user[:-1])
    columns = (*(ColumnMeta(name, BIGINT, BINARY) for name in numbers), ColumnMeta(user[-1], VARCHAR, UTF8MB4))
    return TopicSpec(QueueName(database, table), columns, "queuegate_topic")


def group(of: TopicSpec, name: str, **given: object) -> QueueSpec:
    """The queue of a consumer group."""
    table = group_table(of.name, name)
    own = tuple(column for column in of.columns if column.name not in TOPIC_COLUMNS)
    one = spec(table.database, table.table, user=tuple(column.name for column in own))
    options = parse_options({**given, "topic": of.name.table, "consumer_group": name})  # type: ignore[dict-item]
    indexes = tuple(IndexInfo(columns, False, name) for name, columns in options.needed_indexes)
    columns = (*one.columns[: -len(own)], *own, ColumnMeta(SOUGHT_COLUMN, BIGINT, BINARY))
    return replace(one, columns=columns, options=options, indexes=indexes, comment=to_comment(options))


def dead_letters_of(source: QueueSpec) -> QueueSpec:
    """The dead-letter queue that the proxy makes for another."""
    return replace(source, name=source.dead_letter, options=QueueOptions(dead_letter_of=source.name.table), comment="")


ORDERS = topic("shop", "orders", "user_id", "body")
CLICKS = topic("shop", "clicks", "page")
FEED = topic("other", "Feed", "entry")
TOPICS = (ORDERS, CLICKS, FEED, topic("shop", "unread", "body"))
"""With two consumer groups, with one, in another database, and with none."""

AUDIT = group(ORDERS, "audit", max_attempts=16, order_key="user_id")

SPECS = (
    AUDIT,
    dead_letters_of(AUDIT),
    group(ORDERS, "billing"),
    group(CLICKS, "stats"),
    group(FEED, "Readers"),
    dead_letters("q_dead", "q", "attempts", "source"),
    dead_letters("bills_dead", None),
    dead_letters("lost_dead", "lost"),
    grouped("parts"),
    grouped("jobs", "job"),
    limited(),
    strict(),
    BARE,
    spec("shop", "q"),
    spec("shop", "bills"),
    spec("shop", "my-queue"),
    spec("shop", "größe"),
    spec("shop", "uuids", id_type=VARCHAR, charset=UTF8MB4),
    spec("shop", "bins", id_type=STRING, charset=BINARY),
    spec("shop", "vt", user=("state", "message")),
    spec("other", "q2"),
    spec("other", "Mixed"),
    FIRST_LAYOUT,
)

CATALOG = QueueCatalog(
    version=1,
    queues={one.name: one for one in SPECS},
    rejected={
        QueueName("shop", "broken"): "time_acked missing from message table: broken",
        QueueName("shop", "half"): "time_created missing from topic: half",
    },
    topics={one.name: one for one in TOPICS},
)
