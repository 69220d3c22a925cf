"""Queues of every kind that matters to the rewriter."""

from __future__ import annotations

from dataclasses import replace

from engine.model.options import QueueOptions, parse_options, to_comment
from engine.model.queue import (
    ERROR_CHARACTERS,
    ERROR_COLUMNS,
    SYSTEM_COLUMNS,
    ColumnMeta,
    IndexInfo,
    Layout,
    QueueCatalog,
    QueueName,
    QueueSpec,
)

BIGINT, VARCHAR, STRING = 8, 253, 254
UTF8MB4, BINARY = 45, 63


def _error(name: str) -> ColumnMeta:
    return ColumnMeta(name, VARCHAR, UTF8MB4, length=4 * ERROR_CHARACTERS)


def spec(
    database: str, table: str, *, id_type: int = BIGINT, charset: int = BINARY, user: tuple[str, ...] = ()
) -> QueueSpec:
    user = user or ("user_id", "payload")
    names = [name for name in SYSTEM_COLUMNS if name != "id" and name not in user]
    system = tuple(_error(name) if name in ERROR_COLUMNS else ColumnMeta(name, BIGINT, BINARY) for name in names)
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


SPECS = (
    dead_letters("q_dead", "q", "attempts", "source"),
    dead_letters("orders_dead", None),
    dead_letters("lost_dead", "lost"),
    grouped("parts"),
    grouped("jobs", "job"),
    limited(),
    strict(),
    BARE,
    spec("shop", "q"),
    spec("shop", "orders"),
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
    rejected={QueueName("shop", "broken"): "time_acked missing from message table: broken"},
)
