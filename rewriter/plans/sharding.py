"""The ring of a queue with a sharding key, as its table has it: the generated column of slots, and its index.

The database computes the slot, so it is right for every form of INSERT, and for writes around the proxy.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.errors import InvalidOption
from engine.model.key_range import SLOT_COLUMN, ShardingColumn, unfit_sharding_key
from engine.model.options import DUE_COLUMNS, INDEX_NAMES, QueueOptions
from engine.model.queue import SYSTEM_COLUMNS, Layout, QueueSpec, has_index, quoted, sharding_column
from rewriter.errors import UnsupportedSql
from rewriter.grammar.statements import ColumnItem
from rewriter.text.tokens import word_set

DUE_INDEX = INDEX_NAMES[0]

_PADDED = word_set("CHAR CHARACTER NCHAR")
_HASHED = _PADDED | word_set("TINYINT SMALLINT MEDIUMINT INT INTEGER BIGINT VARCHAR NVARCHAR BINARY VARBINARY")


def declared_ring(options: QueueOptions, declared: Mapping[str, ColumnItem]) -> list[str]:
    """The definition of the column of slots of a queue that is created, if it has one.

    Raises:
        InvalidOption: its column cannot be a sharding key.
        UnsupportedSql: the user declares a column of that name.
    """
    key = options.sharding_key
    if SLOT_COLUMN in declared:
        raise UnsupportedSql(f"Column '{SLOT_COLUMN}' is one of the queue's own: leave it out")
    if key is None:
        return []
    item = None if key.lower() in SYSTEM_COLUMNS else declared.get(key.lower())
    return [_slot_column(key, None if item is None else _as_declared(item))]


def ring_changes(spec: QueueSpec, options: QueueOptions) -> list[str]:
    """What ALTER TABLE does so that a queue has the ring of these options, and no other.

    Raises:
        InvalidOption: the column cannot be a sharding key.
        UnsupportedSql: the table has Vitess's first layout, whose index on due messages is another one.
    """
    key = options.sharding_key
    if key is None or not spec.has_ring or key.lower() != (spec.options.sharding_key or "").lower():
        drops = [f"DROP COLUMN {SLOT_COLUMN}"] if SLOT_COLUMN in spec.generated else []
        adds = [] if key is None else [f"ADD COLUMN {_slot_column(key, _existing(spec, key))}"]
    else:
        drops = adds = []
    if not (drops or adds):
        return []
    return [*drops, *adds, *_index_changes(spec, options)]


def _index_changes(spec: QueueSpec, options: QueueOptions) -> list[str]:
    """A server lets an index end where its last column is dropped, so it is made anew."""
    ours = any(index.name == DUE_INDEX for index in spec.indexes)
    others = [index for index in spec.indexes if index.name != DUE_INDEX]
    drops = [f"DROP KEY {DUE_INDEX}"] if ours else []
    wanted = options.due_index if options.sharding_key is not None or not has_index(others, DUE_COLUMNS) else ()
    return [*drops, *([f"ADD KEY {DUE_INDEX} ({', '.join(wanted)})"] if wanted else [])]


def _existing(spec: QueueSpec, key: str) -> ShardingColumn | None:
    if spec.layout is not Layout.CURRENT:
        raise UnsupportedSql("sharding_key: the table has no priority; a queue that CREATE QUEUE makes can have one")
    column = None if key.lower() in SYSTEM_COLUMNS else spec.column(key)
    return None if column is None else sharding_column(column)


def _slot_column(key: str, column: ShardingColumn | None) -> str:
    """A text is hashed as its column stores it; Vitess has UTF-8."""
    if reason := unfit_sharding_key(key, column):
        raise InvalidOption(reason)
    # MariaDB takes a CHAR in such a column only where its blanks make no difference.
    value = f"RTRIM({quoted(key)})" if column is not None and column.padded else quoted(key)
    return f"{SLOT_COLUMN} SMALLINT UNSIGNED GENERATED ALWAYS AS (CONV(LEFT(MD5({value}), 4), 16, 10)) STORED"


def _as_declared(item: ColumnItem) -> ShardingColumn:
    not_null = "PRIMARY" in item.words or ("NOT", "NULL") in zip(item.words, item.words[1:], strict=False)
    padded = bool(_PADDED.intersection(item.words[:1])) and "VARYING" not in item.words
    can_be_hashed = bool(_HASHED.intersection(item.words[:1])) and "ZEROFILL" not in item.words
    return ShardingColumn(can_be_hashed, not not_null, padded)
