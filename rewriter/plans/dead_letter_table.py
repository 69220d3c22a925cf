"""The table of a dead-letter queue, made from that of its queue.

The same columns, types and character sets, so that a message can go there and back unchanged; further constraints of
the queue (unique keys except for the id, foreign keys, checks of several columns) would only reject dead letters, and
are left out. Additional columns record where a message comes from.
"""

from __future__ import annotations

import re
from dataclasses import replace

from engine.model.attempts import ATTEMPTS_TYPE
from engine.model.key_range import SLOT_COLUMN
from engine.model.lease_token import TOKEN_COLUMN, TOKEN_TYPE
from engine.model.options import GROUP_INDEX, QueueOptions, to_comment
from engine.model.queue import (
    ATTEMPTS_COLUMN,
    ERROR_COLUMNS,
    ERROR_TYPE,
    SOURCE_ID_COLUMN,
    Layout,
    QueueName,
    QueueSpec,
    quoted,
)
from rewriter.grammar.create_queue import parse_create_table
from rewriter.grammar.statements import ColumnItem
from rewriter.plans.queue_table import DEAD_STATE, ENGINE, comment_literal, quoted_name, without_comments
from rewriter.text.tokens import Name

STATE = f"state VARCHAR(11) {DEAD_STATE}"
ADDED_COLUMNS = {
    "attempts": "BIGINT NULL",
    **dict.fromkeys(ERROR_COLUMNS, ERROR_TYPE),
    ATTEMPTS_COLUMN: ATTEMPTS_TYPE,
    TOKEN_COLUMN: TOKEN_TYPE,
    "time_dead": "BIGINT NULL",
    "source": "VARCHAR(64) CHARACTER SET utf8mb4 NULL",
    SOURCE_ID_COLUMN: "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL",
}
"""Additional columns of a dead letter, unless the queue has columns of these names itself."""

_INHERITED_OPTIONS = (
    "ack_wait_ns", "min_backoff_ns", "max_backoff_ns", "backoff", "purge_after_ns", "poll_interval_ns", "batch_size",
    "prefetch", "cache_size", "keep_attempts",
)  # fmt: skip
"""Options that a dead-letter queue has from its queue."""

TABLE_CHARSET = re.compile(r"\n\) [^'\n]*?(DEFAULT CHARSET=\w+(?: COLLATE=\w+)?)")


def dead_letter_table(create_table_sql: str, queue: QueueSpec, name: QueueName) -> str:
    """The CREATE TABLE, from SHOW CREATE TABLE of the queue's table."""
    text = without_comments(create_table_sql)
    _, items = parse_create_table(text)
    left_out = () if queue.shards else (SLOT_COLUMN,)
    columns = [item for item in items if isinstance(item, ColumnItem) and item.name.lower() not in left_out]
    names = {column.name.lower() for column in columns}
    definitions = [_column(column) for column in columns]
    if "state" not in names:
        definitions.append(STATE)
    definitions += [f"{quoted(name)} {kind}" for name, kind in ADDED_COLUMNS.items() if name not in names]
    legacy, options = queue.layout is Layout.LEGACY, _options(queue)
    due = ("time_acked", "time_next") if legacy else options.due_index
    definitions += ["PRIMARY KEY (id)", f"KEY queuegate_due ({', '.join(due)})"]
    if queue.options.group_key is not None:
        definitions.append(f"KEY {GROUP_INDEX} (time_acked, {quoted(queue.options.group_key)})")
    charset = TABLE_CHARSET.search(text)
    table = quoted_name(Name(name.database, name.table))
    comment = comment_literal(to_comment(options), name.table)
    charset_clause = f" {charset[1]}" if charset else ""
    return f"CREATE TABLE {table} ({', '.join(definitions)}) {ENGINE}{charset_clause} COMMENT={comment}"


def _column(column: ColumnItem) -> str:
    if column.name.lower() == "state" and "GENERATED" in column.words and "to_be_fired" in column.text:
        return STATE
    return re.sub(r"\s+AUTO_INCREMENT\b(?!')", "", column.text) if "AUTO_INCREMENT" in column.words else column.text


def _options(queue: QueueSpec) -> QueueOptions:
    """Those of the queue where they make sense: dead letters are few, and wait for a person."""
    default = QueueOptions()
    return replace(
        default,
        dead_letter_of=queue.name.table,
        message_cols=queue.options.message_cols,
        sharding_key=queue.options.sharding_key if queue.shards else None,
        **{name: getattr(queue.options, name) for name in _INHERITED_OPTIONS},
    )
